// What the user requested besides the machine and its Python: a probe, a command, a pasted error.
// Separate from Facts because most diagnoses have none of them.
#pragma once

#include <vector>

#include "doctor/error/error_text.hpp"
#include "doctor/facts/probe.hpp"
#include "doctor/facts/program.hpp"

namespace berth::doctor {

/// Absent: not requested.
struct RequestFacts {
  ProbeFacts probe;
  Fact<ProgramFacts> program;
  Fact<std::vector<Recognised>> error;
};

}  // namespace berth::doctor
