// Asks the driver, through the inventory's forked reader and its deadlines.
#pragma once

#include "doctor/facts/driver_answers.hpp"
#include "model/snapshot.hpp"

namespace berth::doctor {

[[nodiscard]] DriverAnswers ask_driver();
/// What a snapshot says, as answers. Pure.
[[nodiscard]] DriverAnswers answers_from(const model::Snapshot& snapshot);

}  // namespace berth::doctor
