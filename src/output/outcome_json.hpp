// How a job ended, as JSON. For sources that use nlohmann-json themselves.
#pragma once

#include <nlohmann/json.hpp>

#include "model/run.hpp"

namespace berth::output {

inline nlohmann::ordered_json outcome_json(const model::Outcome& outcome) {
  nlohmann::ordered_json out{
      {"class", model::name(outcome.kind)}, {"exit_code", outcome.exit_code}, {"signal", nullptr}};
  if (outcome.signal) out["signal"] = *outcome.signal;
  return out;
}

}  // namespace berth::output
