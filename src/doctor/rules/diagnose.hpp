// diagnose(): converts facts to a diagnosis. Pure.
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

/// `only`: ids of rules to run; empty: all.
[[nodiscard]] model::Diagnosis diagnose(const Facts& facts, const Knowledge& knowledge,
                                        const std::vector<std::string>& only = {},
                                        const RequestFacts& request = {});

/// The same with the given rules (for tests).
[[nodiscard]] model::Diagnosis diagnose_with(std::span<const Rule> rules, const Facts& facts,
                                             const Knowledge& knowledge,
                                             const RequestFacts& request = {});

/// Sorts findings: a cause before what it explains; then by layer, severity, confidence. A finding
/// that a proven one explains is never before it. Findings related to a pasted error come first,
/// after their causes; for an unproven rule this only changes the order among similar findings.
void order_by_cause(std::vector<model::Finding>& findings, std::span<const Rule> rules,
                    const std::vector<Recognised>& error = {});

/// The probes, and what was found for each known message of a pasted text. Without `facts`, nothing
/// was compared with a machine.
[[nodiscard]] model::DiagnosisParts parts_of(const RequestFacts& request,
                                             const model::Diagnosis& diagnosis,
                                             const Facts* facts = nullptr);

}  // namespace berth::doctor
