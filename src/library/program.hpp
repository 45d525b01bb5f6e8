// Where `berth` lies: the program that starts brokers and makes documents.
#pragma once

#include <string>

namespace berth::library {

/// What use_program() named; else beside this library, in a bin folder above it, or on PATH. "": it
/// is nowhere.
[[nodiscard]] std::string program();
void use_program(std::string path);

}  // namespace berth::library
