// Which of several true findings is the cause? Three things decide, in this order.
// 1. What keeps the GPU from being used stands before what only slows it; a lesser finding that
//    explains a greater one counts as the greater.
// 2. A rule that no public case has shown right never stands above one that has been shown.
// 3. What explains another stands before it; else the lower layer first: a GPU without a driver
//    says more than the library that does not find it.
#include "doctor/diagnose.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::doctor {
namespace {

using model::Diagnosis;
using model::NotChecked;

bool matches(std::string_view pattern, std::string_view id) {
  return pattern.ends_with('*') ? id.starts_with(pattern.substr(0, pattern.size() - 1))
                                : pattern == id;
}

bool may_explain(std::string_view patterns, const Finding& cause, const Finding& other) {
  if (cause.id == other.id) return false;
  if (cause.confidence == Confidence::kLow && other.confidence != Confidence::kLow) return false;
  for (const std::string_view pattern : split(patterns, ' '))
    if (!pattern.empty() && matches(pattern, other.id)) return true;
  return false;
}

/// Info, warning, or what keeps the GPU from being used.
int weight_of(Severity severity) {
  return severity == Severity::kInfo ? 0 : severity == Severity::kWarning ? 1 : 2;
}

std::string_view explained_by_rule(std::span<const Rule> rules, const std::string& id) {
  for (const Rule& rule : rules)
    if (id == rule.id) return rule.explains;
  return "";
}

NotChecked not_checked(const Rule& rule, const Unreadable& why) {
  const char* reason = why.error_number == 0 ? nullptr : ::strerrordesc_np(why.error_number);
  return {rule.id, reason == nullptr ? why.where : fmt::format("{}: {}", why.where, reason)};
}

/// Facts come from files that anyone may have written, a bundle above all: nothing in them reaches
/// a terminal as it is.
std::string fit_to_show(const std::string& text) {
  std::string shown;
  for (const std::string_view line : split(text, '\n'))
    shown += (shown.empty() ? "" : "\n") + printable(line);
  return shown;
}

void complete(Finding& finding, const Rule& rule) {
  finding.title = fit_to_show(finding.title);
  for (std::string& line : finding.evidence) line = fit_to_show(line);
  for (model::Fix& fix : finding.fix) {
    fix.command = fit_to_show(fix.command);
    fix.says = fit_to_show(fix.says);
  }
  finding.id = rule.id;
  finding.layer = rule.layer;
  finding.confidence = rule.proven ? Confidence::kHigh : Confidence::kLow;
}

}  // namespace

void order_by_cause(std::vector<Finding>& findings, std::span<const Rule> rules) {
  const std::size_t count = findings.size();
  std::vector<std::vector<std::size_t>> explained(count);
  for (std::size_t cause = 0; cause < count; ++cause) {
    const std::string_view patterns = explained_by_rule(rules, findings[cause].id);
    for (std::size_t other = 0; other < count; ++other)
      if (may_explain(patterns, findings[cause], findings[other]))
        explained[cause].push_back(other);
  }
  // Explanations go up, layer by layer; a cycle in the rules' table would be our mistake, and the
  // bound keeps it from hanging us.
  std::vector<int> depth(count, 0);
  std::vector<int> weight(count);
  for (std::size_t i = 0; i < count; ++i) weight[i] = weight_of(findings[i].severity);
  for (std::size_t round = 0; round < count; ++round) {
    for (std::size_t cause = 0; cause < count; ++cause) {
      for (const std::size_t other : explained[cause]) {
        depth[other] = std::max(depth[other], std::min(depth[cause] + 1, static_cast<int>(count)));
        weight[cause] = std::max(weight[cause], weight[other]);
      }
    }
  }
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  const auto key = [&](std::size_t i) {
    const Finding& one = findings[i];
    return std::tuple(-weight[i], one.confidence == Confidence::kLow, depth[i], one.layer,
                      -static_cast<int>(one.severity), -static_cast<int>(one.confidence),
                      std::string_view(one.id));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  std::vector<Finding> sorted;
  for (const std::size_t i : order) {
    Finding& cause = findings[i];
    for (const std::size_t other : explained[i]) {
      cause.explains.push_back(findings[other].id);
      if (findings[other].explained_by.empty()) findings[other].explained_by = cause.id;
    }
    std::sort(cause.explains.begin(), cause.explains.end());
    cause.explains.erase(std::unique(cause.explains.begin(), cause.explains.end()),
                         cause.explains.end());
  }
  sorted.reserve(count);
  for (const std::size_t i : order) sorted.push_back(std::move(findings[i]));
  findings = std::move(sorted);
}

Diagnosis diagnose_with(std::span<const Rule> rules, const Facts& facts,
                        const Knowledge& knowledge) {
  Diagnosis diagnosis;
  for (const Rule& rule : rules) {
    Examination examination(facts, knowledge, rule.severity);
    rule.look(examination);
    for (Finding& finding : examination.findings()) {
      complete(finding, rule);
      diagnosis.findings.push_back(std::move(finding));
    }
    if (!examination.findings().empty()) continue;
    if (examination.unread().empty())
      diagnosis.checked.emplace_back(rule.id);
    else
      diagnosis.not_checked.push_back(not_checked(rule, examination.unread().front()));
  }
  order_by_cause(diagnosis.findings, rules);
  const auto worst = diagnosis.findings.begin();
  diagnosis.verdict = worst == diagnosis.findings.end() || weight_of(worst->severity) == 0
                          ? std::string(tr("nothing wrong was found"))
                          : worst->title;
  return diagnosis;
}

Diagnosis diagnose(const Facts& facts, const Knowledge& knowledge,
                   const std::vector<std::string>& only) {
  std::vector<Rule> rules = all_rules();
  if (!only.empty()) {
    std::erase_if(rules, [&](const Rule& rule) {
      return std::find(only.begin(), only.end(), rule.id) == only.end();
    });
  }
  return diagnose_with(rules, facts, knowledge);
}

}  // namespace berth::doctor
