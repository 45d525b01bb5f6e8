// diagnose() runs the rules on facts and returns a diagnosis.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/facts.hpp"
#include "doctor/facts/request_facts.hpp"
#include "doctor/knowledge/knowledge.hpp"
#include "doctor/rules/rule.hpp"
#include "model/diagnosis.hpp"
#include "model/diagnosis_parts.hpp"

namespace berth::doctor {

/// Runs the rules whose ids are in `only`, or all rules if `only` is empty.
[[nodiscard]] model::Diagnosis diagnose(const Facts& facts, const Knowledge& knowledge,
                                        const std::vector<std::string>& only = {},
                                        const RequestFacts& request = {});

/// Like diagnose(), but with these rules instead of the built-in ones, for tests.
[[nodiscard]] model::Diagnosis diagnose_with(std::span<const Rule> rules, const Facts& facts,
                                             const Knowledge& knowledge,
                                             const RequestFacts& request = {});

/// Sorts findings so that the most likely cause comes first, by the criteria in diagnose.cpp. Also
/// sets `explains` and `explained_by` of each finding. `error` has the known messages in a pasted
/// text.
void order_by_cause(std::vector<model::Finding>& findings, std::span<const Rule> rules,
                    const std::vector<Recognised>& error = {});

/// Returns the results of the probe. Also returns, for each known message in a pasted text, the
/// rules that were checked. `facts` is null if no machine was examined.
[[nodiscard]] model::DiagnosisParts parts_of(const RequestFacts& request,
                                             const model::Diagnosis& diagnosis,
                                             const Facts* facts = nullptr);

}  // namespace berth::doctor
