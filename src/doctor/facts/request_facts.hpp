// Optional parts of a diagnosis: a probe, a command, a pasted error, the broker's answer. They are
// not in Facts because most diagnoses have none of them.
#pragma once

#include <vector>

#include "doctor/error/error_text.hpp"
#include "doctor/facts/probe.hpp"
#include "doctor/facts/program.hpp"
#include "model/ledger.hpp"

namespace berth::doctor {

/// An absent fact was not requested.
struct RequestFacts {
  ProbeFacts probe;
  Fact<ProgramFacts> program;
  Fact<std::vector<Recognised>> error;
  /// devices that the broker gives to no job; absent: no broker
  Fact<std::vector<model::Holding>> aside;
};

}  // namespace berth::doctor
