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
  Fact<std::vector<model::Holding>> aside;  // units that the broker set aside; absent: no broker
};

}  // namespace berth::doctor
