// Finds the program `berth`. The library uses it to start brokers and to make documents.
#pragma once

#include <string>

namespace berth::library {

/// The path given to use_program(). If none was given: the program in this library's folder, in a
/// bin folder above it, or in PATH. "" if it is not found.
[[nodiscard]] std::string program();
void use_program(std::string path);

}  // namespace berth::library
