// Prints an error for people and for --json.
#pragma once

#include <string>

#include "base/result.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// The error as text: "error: what happened (E0412)\n\nhint: the command that fixes it\n".
[[nodiscard]] std::string show_error(const Error& error, const Terminal& terminal);
/// The JSON {"schema":1,"error":{"id","code","message","hint","exit_code"}} on one line.
[[nodiscard]] std::string error_json(const Error& error, int exit_code);

}  // namespace berth::output
