// The program that a command starts, if it is a compiled program.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/fact.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

struct MissingLibrary {
  std::string name;       // "libcublas.so.12"
  std::string needed_by;  // path of the file that needs it
};

struct ProgramFacts {
  std::string path;
  std::vector<MissingLibrary> missing;
};

}  // namespace berth::doctor
