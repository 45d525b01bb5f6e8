// Sorts findings so that the first one is the most likely cause of the others. Four criteria apply,
// in this order.
// 0. If the user pasted an error, findings that can cause it come first, and before them the causes
//    of these findings. If no finding can cause it, the error itself comes first (ERR01). This
//    criterion does not move information, or a finding of an unproven rule, above a finding that
//    criterion 1 or 2 puts first.
// 1. Problems that make the GPU unusable come before those that slow it down. A finding is as bad
//    as the worst finding that it explains.
// 2. An unproven rule (no public case confirms it) comes after all proven rules.
// 3. A cause comes before what it explains. Otherwise, the lower layer comes first: "no driver"
//    tells the user more than "a library finds no GPU".
#include "doctor/rules/diagnose.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <tuple>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/on_request.hpp"
#include "doctor/rules/unread_words.hpp"

namespace berth::doctor {
namespace {

using model::Diagnosis;
using model::NotChecked;

bool matches(std::string_view pattern, std::string_view id) {
  return pattern.ends_with('*') ? id.starts_with(pattern.substr(0, pattern.size() - 1))
                                : pattern == id;
}

/// 0 for information, 1 for a warning, 2 for a problem that makes the GPU unusable.
int weight_of(Severity severity) {
  return severity == Severity::kInfo ? 0 : severity == Severity::kWarning ? 1 : 2;
}

const char* words_for(ProbeState state) {
  switch (state) {
    case ProbeState::kRan:
      return msgid("ran a kernel on every GPU that it sees");
    case ProbeState::kFailed:
      return msgid("could not run a kernel");
    case ProbeState::kNoDevice:
      return msgid("sees no GPU");
    case ProbeState::kCpuBuild:
      return msgid("built for the CPU, so no kernel was run");
    case ProbeState::kNotImported:
      return msgid("cannot be imported");
    case ProbeState::kCrashed:
      return msgid("crashed");
    case ProbeState::kNoAnswer:
      return msgid("did not answer in time, and was killed");
    case ProbeState::kNotReached:
      break;
  }
  return msgid("was not started, because the time limit was reached");
}

bool may_explain(std::string_view patterns, const Finding& cause, const Finding& other) {
  // A finding that is only information explains no other finding. Examples: a program's own Xid in
  // the log, a GPU that is assigned to a virtual machine.
  if (cause.id == other.id || cause.severity == Severity::kInfo) return false;
  if (cause.confidence == Confidence::kLow && other.confidence != Confidence::kLow) return false;
  for (const std::string_view pattern : split(patterns, ' '))
    if (!pattern.empty() && matches(pattern, other.id)) return true;
  // A probe shows that something fails, but not why. Any problem in a lower layer that makes the
  // GPU unusable may explain it. In the same way, any problem of the machine may explain a driver
  // failure of unknown cause (DRV28).
  if (weight_of(cause.severity) != 2) return false;
  return (other.id.starts_with("PRB") && cause.layer < other.layer) ||
         (other.id == "DRV28" && cause.layer <= Layer::kContainer);
}

/// If the probe ran a kernel in every framework of the target, lowers the confidence of findings
/// that say that something cannot work.
void doubt_what_was_tried(Diagnosis& diagnosis, const ProbeFacts& probe) {
  if (!probe) return;
  std::string ran;
  for (const ProbeAnswer& one : *probe) {
    if (one.state != ProbeState::kRan && one.state != ProbeState::kCpuBuild) return;
    if (one.state == ProbeState::kRan) ran += (ran.empty() ? "" : ", ") + one.framework;
  }
  if (ran.empty()) return;
  for (Finding& finding : diagnosis.findings) {
    if (finding.severity != Severity::kFatal || finding.layer < Layer::kLibraries) continue;
    finding.confidence = Confidence::kLow;
    finding.evidence.push_back(text("but {} just ran a kernel on every GPU", ran));
  }
}

std::vector<model::Probed> probed_of(const std::vector<ProbeAnswer>& answers) {
  std::vector<model::Probed> all;
  for (const ProbeAnswer& answer : answers) {
    model::Probed& one = all.emplace_back();
    one.framework = answer.framework;
    one.version = answer.version;
    one.state = name(answer.state);
    one.says = tr(words_for(answer.state));
    one.message = answer.message;
    for (const ProbedDevice& device : answer.devices)
      one.devices.push_back({device.index, device.name, device.ran, device.message});
  }
  return all;
}

/// Whether the rule reports the pasted text itself.
bool is_about_the_text(std::string_view id) {
  return id == "ERR01" || id == "RT02";
}

/// How strongly a pasted error suggests this rule: 0: not at all; 1: as one of several possible
/// causes; 2: clearly.
int weight_in_error(const std::vector<Recognised>& error, const std::string& id) {
  int most = 0;
  for (const Recognised& one : error)
    if (is_about_the_text(id) || speaks_of(one, id)) most = std::max(most, one.strength);
  return most;
}

std::string_view explained_by_rule(std::span<const Rule> rules, const std::string& id) {
  for (const Rule& rule : rules)
    if (id == rule.id) return rule.explains;
  return "";
}

/// Makes text printable, because facts come from untrusted files, in particular from bundles.
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

/// Whether the driver reports a GPU, or a GPU has a device node. The nodes are needed on WSL and in
/// containers that do not show the PCI bus.
bool shows_gpu(const Facts& facts) {
  return (facts.driver.gpus && !facts.driver.gpus->empty()) ||
         !facts.nodes.nvidia_gpus().value_or({}).empty() || facts.nodes.kfd.has_value();
}

bool has_gpu_on_bus(const Facts& facts) {
  const auto& functions = facts.machine.pci;
  return functions && std::any_of(functions->begin(), functions->end(),
                                  [](const PciFunction& one) { return one.is_gpu(); });
}

constexpr std::array<std::string_view, 5> kFrameworks{"torch", "tensorflow", "jax", "onnxruntime",
                                                      "cupy"};

/// Whether the target's Python has every framework that the error message names. If the message
/// names none, one installed framework is enough.
bool has_frameworks(const Recognised& message, const Facts& facts) {
  const auto is_named = [&](std::string_view framework) {
    const auto is_same = [](char a, char b) { return (a | 0x20) == b; };
    return std::search(message.text.begin(), message.text.end(), framework.begin(), framework.end(),
                       is_same) != message.text.end();
  };
  const auto is_there = [&](std::string_view framework) {
    const auto packages = facts.python.distributions.value_or({});
    return std::any_of(packages.begin(), packages.end(), [&](const Distribution& one) {
      return one.name == framework || one.name.starts_with(std::string(framework) + "-") ||
             (framework == "jax" && one.name == "jaxlib");
    });
  };
  std::vector<std::string_view> named;
  std::copy_if(kFrameworks.begin(), kFrameworks.end(), std::back_inserter(named), is_named);
  return named.empty() ? std::any_of(kFrameworks.begin(), kFrameworks.end(), is_there)
                       : std::all_of(named.begin(), named.end(), is_there);
}

/// Whether the facts that this rule examines exist. FW rules need an installed framework, ENV10 and
/// ENV11 also a toolkit. Always true for other rules.
bool had_subject(const std::string& rule, const Recognised& message, const Facts& facts) {
  const bool about_toolkit = rule == "ENV10" || rule == "ENV11";
  if (about_toolkit && !facts.toolchain.building) return false;
  return !(about_toolkit || rule.starts_with("FW")) || has_frameworks(message, facts);
}

/// Whether every possible cause of the message was examined: there is a GPU, all rules of the
/// message ran, and the facts that they examine exist.
bool was_compared(const Recognised& message, const Diagnosis& diagnosis, const Facts& facts) {
  if (message.rules.empty() || !(shows_gpu(facts) || has_gpu_on_bus(facts))) return false;
  return std::all_of(message.rules.begin(), message.rules.end(), [&](const std::string& rule) {
    const bool looked = std::any_of(diagnosis.checked.begin(), diagnosis.checked.end(),
                                    [&](const std::string& id) { return matches(rule, id); }) ||
                        std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(),
                                    [&](const Finding& one) { return matches(rule, one.id); });
    return looked && had_subject(rule, message, facts);
  });
}

std::vector<model::KnownMessage> messages_of(const std::vector<Recognised>& error,
                                             const Diagnosis& diagnosis, const Facts* facts) {
  std::vector<model::KnownMessage> messages;
  for (const Recognised& one : error) {
    model::KnownMessage& message = messages.emplace_back();
    message.name = one.name;
    message.line = one.line;
    message.text = one.text;
    message.means = one.means;
    message.rules = one.rules;
    message.compared = facts != nullptr && was_compared(one, diagnosis, *facts);
    const auto add = [&](std::vector<std::string>& into, const std::string& id) {
      if (speaks_of(one, id) && std::find(into.begin(), into.end(), id) == into.end())
        into.push_back(id);
    };
    for (const Finding& finding : diagnosis.findings) add(message.shown_by, finding.id);
    for (const NotChecked& rule : diagnosis.not_checked) add(message.not_checked, rule.id);
  }
  return messages;
}

/// For each finding, the indices of all findings that it may explain.
std::vector<std::vector<std::size_t>> explanations(const std::vector<Finding>& findings,
                                                   std::span<const Rule> rules) {
  std::vector<std::vector<std::size_t>> explained(findings.size());
  for (std::size_t cause = 0; cause < findings.size(); ++cause) {
    const std::string_view patterns = explained_by_rule(rules, findings[cause].id);
    for (std::size_t other = 0; other < findings.size(); ++other)
      if (may_explain(patterns, findings[cause], findings[other]))
        explained[cause].push_back(other);
  }
  return explained;
}

/// The verdict if nothing is wrong. It states that there is no GPU only if HW01 was checked.
std::string verdict_without_faults(const Diagnosis& diagnosis, bool has_gpu) {
  if (model::is_empty_look(diagnosis)) return std::string(tr("nothing could be checked"));
  // If HW01, the rule that looks for a GPU, could not run, it is unknown whether there is a GPU.
  const bool looked = std::none_of(diagnosis.not_checked.begin(), diagnosis.not_checked.end(),
                                   [](const NotChecked& one) { return one.id == "HW01"; });
  if (!looked && !has_gpu)
    return std::string(
        tr("nothing wrong was found, but it was not checked whether there is a GPU"));
  const std::string well(tr("nothing wrong was found"));
  for (const Finding& one : diagnosis.findings)
    if (one.id == "HW01") return one.title + "; " + well;
  return well;
}

}  // namespace

void order_by_cause(std::vector<Finding>& findings, std::span<const Rule> rules,
                    const std::vector<Recognised>& error) {
  const std::size_t count = findings.size();
  const auto explained = explanations(findings, rules);
  // Each round passes weights from findings to their causes. There are at most `count` rounds, so
  // that a cycle of causes cannot cause an endless loop.
  std::vector<int> depth(count, 0);
  std::vector<int> weight(count), named_by_error(count);
  for (std::size_t i = 0; i < count; ++i) {
    weight[i] = weight_of(findings[i].severity);
    named_by_error[i] = weight_in_error(error, findings[i].id);
  }
  bool changed = true;
  for (std::size_t round = 0; changed && round < count; ++round) {
    changed = false;
    for (std::size_t cause = 0; cause < count; ++cause) {
      for (const std::size_t other : explained[cause]) {
        const int deeper = std::min(depth[cause] + 1, static_cast<int>(count));
        changed = changed || deeper > depth[other] || weight[other] > weight[cause] ||
                  named_by_error[other] > named_by_error[cause];
        depth[other] = std::max(depth[other], deeper);
        weight[cause] = std::max(weight[cause], weight[other]);
        named_by_error[cause] = std::max(named_by_error[cause], named_by_error[other]);
      }
    }
  }
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  const auto key = [&](std::size_t i) {
    const Finding& one = findings[i];
    const bool is_low = one.confidence == Confidence::kLow;
    const bool lifted = weight[i] != 0 && (!is_low || is_about_the_text(one.id));
    return std::tuple(lifted ? -named_by_error[i] : 0, -weight[i], is_low, -named_by_error[i],
                      depth[i], one.layer, -static_cast<int>(one.severity),
                      -static_cast<int>(one.confidence), std::string_view(one.id));
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

Diagnosis diagnose_with(std::span<const Rule> rules, const Facts& facts, const Knowledge& knowledge,
                        const RequestFacts& request) {
  Diagnosis diagnosis;
  for (const Rule& rule : rules) {
    Examination examination(facts, knowledge, rule.severity);
    {
      const UnreadableLog log;
      if (!is_on_request_rule(rule.id))
        rule.look(examination);
      else if (!check_on_request(rule.id, examination, request, diagnosis.findings))
        continue;
      // ENOENT and ENODATA are not counted here, because a missing file or fact can be normal: a
      // kernel without modules has no "/proc/modules". Each rule decides what this means. If access
      // was denied, the rule is always "not checked".
      for (const Unreadable& why : log.entries())
        if ((why.error_number != ENOENT || is_unmounted(why)) && why.error_number != ENODATA)
          examination.note_unreadable(why);
    }
    for (Finding& finding : examination.findings()) {
      complete(finding, rule);
      diagnosis.findings.push_back(std::move(finding));
    }
    if (!examination.findings().empty()) continue;
    if (examination.unread().empty())
      diagnosis.checked.emplace_back(rule.id);
    else
      diagnosis.not_checked.push_back({rule.id, said_of(examination.unread().front())});
  }
  doubt_what_was_tried(diagnosis, request.probe);
  order_by_cause(diagnosis.findings, rules, request.error.value_or({}));
  const auto worst = diagnosis.findings.begin();
  const bool well = worst == diagnosis.findings.end() || weight_of(worst->severity) == 0;
  diagnosis.verdict = well ? verdict_without_faults(diagnosis, shows_gpu(facts)) : worst->title;
  return diagnosis;
}

model::DiagnosisParts parts_of(const RequestFacts& request, const Diagnosis& diagnosis,
                               const Facts* facts) {
  model::DiagnosisParts parts;
  if (request.probe) parts.probe = probed_of(*request.probe);
  if (request.error) parts.error = messages_of(*request.error, diagnosis, facts);
  return parts;
}

Diagnosis diagnose(const Facts& facts, const Knowledge& knowledge,
                   const std::vector<std::string>& only, const RequestFacts& request) {
  std::vector<Rule> rules = all_rules();
  if (!only.empty()) {
    std::erase_if(rules, [&](const Rule& rule) {
      return std::find(only.begin(), only.end(), rule.id) == only.end();
    });
  }
  return diagnose_with(rules, facts, knowledge, request);
}

}  // namespace berth::doctor
