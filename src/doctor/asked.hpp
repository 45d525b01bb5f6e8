// What the doctor was asked beside the machine and its Python, and what came of it: a kernel that
// was tried, a command, a pasted error. Facts of their own, because most diagnoses have none of
// them.
#pragma once

#include <vector>

#include "doctor/error/error_text.hpp"
#include "doctor/facts/probe.hpp"
#include "doctor/facts/program.hpp"

namespace berth::doctor {

/// Absent: not asked.
struct AskedFacts {
  ProbeFacts probe;
  Fact<ProgramFacts> program;
  Fact<std::vector<Recognised>> error;
};

}  // namespace berth::doctor
