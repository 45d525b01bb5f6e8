// Finds the program `berth`, which starts brokers and makes documents.
#pragma once

#include <string>

namespace berth::library {

/// The path given to use_program(); otherwise the program in this library's folder, in a bin folder
/// above it, or in PATH. "": not found.
[[nodiscard]] std::string program();
void use_program(std::string path);

}  // namespace berth::library
