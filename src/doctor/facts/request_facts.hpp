// Optional parts of a diagnosis: a probe, a command, a pasted error. They are not in Facts because
// most diagnoses have none of them.
#pragma once

#include <vector>

#include "doctor/error/error_text.hpp"
#include "doctor/facts/probe.hpp"
#include "doctor/facts/program.hpp"

namespace berth::doctor {

/// An absent fact was not requested.
struct RequestFacts {
  ProbeFacts probe;
  Fact<ProgramFacts> program;
  Fact<std::vector<Recognised>> error;
};

}  // namespace berth::doctor
