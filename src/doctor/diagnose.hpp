// diagnose(): facts in, diagnosis out. Pure.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.hpp"
#include "doctor/knowledge.hpp"
#include "doctor/rule.hpp"
#include "model/diagnosis.hpp"

namespace berth::doctor {

/// `only`: ids of rules to run; empty: all.
[[nodiscard]] model::Diagnosis diagnose(const Facts& facts, const Knowledge& knowledge,
                                        const std::vector<std::string>& only = {});

/// The same with these rules (for tests).
[[nodiscard]] model::Diagnosis diagnose_with(std::span<const Rule> rules, const Facts& facts,
                                             const Knowledge& knowledge);

/// Findings by cause: whatever explains another stands before it; then layer, severity, confidence.
/// A finding that a proven one explains never stands above it.
void order_by_cause(std::vector<model::Finding>& findings, std::span<const Rule> rules);

}  // namespace berth::doctor
