// Prints an error for people and for --json.
#pragma once

#include <string>

#include "base/result.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// "error: what happened (E0412)\n\nhint: the command that fixes it\n"
[[nodiscard]] std::string show_error(const Error& error, const Terminal& terminal);
/// {"schema":1,"error":{"id","code","message","hint","exit_code"}}, one line.
[[nodiscard]] std::string error_json(const Error& error, int exit_code);

}  // namespace berth::output
