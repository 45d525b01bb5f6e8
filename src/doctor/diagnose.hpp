// diagnose(): facts in, diagnosis out. Pure.
#pragma once

#include <string>
#include <vector>

#include "doctor/asked.hpp"
#include "doctor/facts.hpp"
#include "doctor/knowledge.hpp"
#include "doctor/rule.hpp"
#include "model/diagnosis.hpp"
#include "model/diagnosis_parts.hpp"

namespace berth::doctor {

/// `only`: ids of rules to run; empty: all.
[[nodiscard]] model::Diagnosis diagnose(const Facts& facts, const Knowledge& knowledge,
                                        const std::vector<std::string>& only = {},
                                        const AskedFacts& asked = {});

/// The same with these rules (for tests).
[[nodiscard]] model::Diagnosis diagnose_with(std::span<const Rule> rules, const Facts& facts,
                                             const Knowledge& knowledge,
                                             const AskedFacts& asked = {});

/// Findings by cause: whatever explains another stands before it; then layer, severity, confidence.
/// A finding that a proven one explains never stands above it. What a pasted error speaks of stands
/// first, below what explains it; a rule that was never shown right gains by it among its like
/// only.
void order_by_cause(std::vector<model::Finding>& findings, std::span<const Rule> rules,
                    const std::vector<Recognised>& error = {});

/// What was tried, and what became of each known message of a pasted text.
[[nodiscard]] model::DiagnosisParts parts_of(const AskedFacts& asked,
                                             const model::Diagnosis& diagnosis);

}  // namespace berth::doctor
