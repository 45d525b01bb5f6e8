// The program that a command starts, where it is a compiled one.
#pragma once

#include <string>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

struct MissingLibrary {
  std::string name;       // "libcublas.so.12"
  std::string needed_by;  // the path of the file that asks for it
};

struct ProgramFacts {
  std::string path;
  std::vector<MissingLibrary> missing;
};

/// By the loader simulation. Absent: no such program, or it is no ELF file.
[[nodiscard]] Fact<ProgramFacts> collect_program(const Tree& tree,
                                                 const Fact<Environment>& environment,
                                                 const std::string& program);

}  // namespace berth::doctor
