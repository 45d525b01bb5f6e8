// diagnose() turns facts into a diagnosis. Pure.
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

/// `only` has the ids of the rules to run; empty: all.
[[nodiscard]] model::Diagnosis diagnose(const Facts& facts, const Knowledge& knowledge,
                                        const std::vector<std::string>& only = {},
                                        const RequestFacts& request = {});

/// Like diagnose(), but with other rules than the built-in ones, for tests.
[[nodiscard]] model::Diagnosis diagnose_with(std::span<const Rule> rules, const Facts& facts,
                                             const Knowledge& knowledge,
                                             const RequestFacts& request = {});

/// Sorts findings. A cause comes before what it explains; otherwise the order is by layer,
/// severity, and confidence. A finding never comes before a proven one that explains it. Findings
/// related to a pasted error come first, after their causes; an unproven rule only moves up among
/// similar findings.
void order_by_cause(std::vector<model::Finding>& findings, std::span<const Rule> rules,
                    const std::vector<Recognised>& error = {});

/// The answers of the probes, and the result for each known message of a pasted text. If `facts` is
/// null, there was no machine to examine.
[[nodiscard]] model::DiagnosisParts parts_of(const RequestFacts& request,
                                             const model::Diagnosis& diagnosis,
                                             const Facts* facts = nullptr);

}  // namespace berth::doctor
