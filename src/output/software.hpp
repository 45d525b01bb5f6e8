// Prints the GPU software that the examined system uses: driver, toolkit, libraries and frameworks.
#pragma once

#include <string>

#include "model/software.hpp"
#include "output/json_writer.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// The block "in use" as text: the names and versions of the software.
[[nodiscard]] std::string software_text(const model::Software& software, const Terminal& terminal);

/// Adds the key "inventory" with the software.
void add_software(JsonWriter& json, const model::Software& software);

}  // namespace berth::output
