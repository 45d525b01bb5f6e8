// Rules about what the user requested (RequestFacts). If the user did not request a rule, it counts
// neither as checked nor as not checked.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "doctor/facts/request_facts.hpp"
#include "doctor/rules/rule.hpp"

namespace berth::doctor {

std::span<const Rule> on_request_rules();
[[nodiscard]] bool is_on_request_rule(std::string_view id);
/// Runs the rule with this id. Returns false if the user did not request it. `findings` are those
/// of the rules that ran before.
bool check_on_request(std::string_view id, Examination& look, const RequestFacts& request,
                      const std::vector<Finding>& findings);

}  // namespace berth::doctor
