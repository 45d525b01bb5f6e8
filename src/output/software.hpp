// Prints the GPU software in use: driver, toolkit, libraries and frameworks.
#pragma once

#include <string>

#include "model/software.hpp"
#include "output/json_writer.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// The lines of the block "in use".
[[nodiscard]] std::string software_text(const model::Software& software, const Terminal& terminal);

/// The key "inventory".
void add_software(JsonWriter& json, const model::Software& software);

}  // namespace berth::output
