// The driver, toolkit, libraries and frameworks that the target uses, for `berth doctor` and `berth
// ls --details`.
#pragma once

#include "doctor/facts/facts.hpp"
#include "doctor/knowledge/knowledge.hpp"
#include "model/software.hpp"

namespace berth::doctor {

[[nodiscard]] model::Software software_of(const Facts& facts, const Knowledge& knowledge);

}  // namespace berth::doctor
