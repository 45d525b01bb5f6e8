// Which of several true findings is the cause? Four things decide, in this order.
// 0. Somebody who pastes an error asks about that one: what it can come from stands first, and what
//    explains that before it. A piece of information, and a rule that no public case has shown
//    right, are lifted by it only among those that are their like by 1 and 2.
// 1. What keeps the GPU from being used stands before what only slows it; a lesser finding that
//    explains a greater one counts as the greater.
// 2. A rule that no public case has shown right never stands above one that has been shown.
// 3. What explains another stands before it; else the lower layer first: a GPU without a driver
//    says more than the library that does not find it.
#include "doctor/diagnose.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <tuple>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/asked.hpp"
#include "doctor/unread_words.hpp"

namespace berth::doctor {
namespace {

using model::Diagnosis;
using model::NotChecked;

bool matches(std::string_view pattern, std::string_view id) {
  return pattern.ends_with('*') ? id.starts_with(pattern.substr(0, pattern.size() - 1))
                                : pattern == id;
}

/// Info, warning, or what keeps the GPU from being used.
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
      return msgid("built for the CPU: nothing to probe");
    case ProbeState::kNotImported:
      return msgid("cannot be imported");
    case ProbeState::kCrashed:
      return msgid("crashed");
    case ProbeState::kNoAnswer:
      return msgid("no answer in time; it was ended");
    case ProbeState::kNotReached:
      break;
  }
  return msgid("its turn did not come in time");
}

bool may_explain(std::string_view patterns, const Finding& cause, const Finding& other) {
  // A program's own fault in the log, or a GPU lent to a guest, is the cause of nothing worse.
  if (cause.id == other.id || cause.severity == Severity::kInfo) return false;
  if (cause.confidence == Confidence::kLow && other.confidence != Confidence::kLow) return false;
  for (const std::string_view pattern : split(patterns, ' '))
    if (!pattern.empty() && matches(pattern, other.id)) return true;
  // A probe shows that something fails, and never why: whatever keeps from the GPU below explains
  // it. So does whatever is wrong with the machine for a driver that fails for no known reason.
  if (weight_of(cause.severity) != 2) return false;
  return (other.id.starts_with("PRB") && cause.layer < other.layer) ||
         (other.id == "DRV28" && cause.layer <= Layer::kContainer);
}

/// A finding says that something cannot work, and every framework of the target has just done it:
/// then the rule knows less than it thinks.
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
    finding.evidence.push_back(text("yet {} ran a kernel on every GPU just now", ran));
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

/// How much a pasted error speaks of this rule: 0 not at all, 1 among many, 2 plainly.
int asked_about(const std::vector<Recognised>& error, const std::string& id) {
  int most = 0;
  for (const Recognised& one : error)
    for (const std::string& rule : one.rules)
      if (matches(rule, id)) most = std::max(most, one.strength);
  return most;
}

std::string_view explained_by_rule(std::span<const Rule> rules, const std::string& id) {
  for (const Rule& rule : rules)
    if (id == rule.id) return rule.explains;
  return "";
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

std::vector<model::KnownMessage> messages_of(const std::vector<Recognised>& error,
                                             const Diagnosis& diagnosis) {
  std::vector<model::KnownMessage> messages;
  for (const Recognised& one : error) {
    model::KnownMessage& message = messages.emplace_back();
    message.name = one.name;
    message.line = one.line;
    message.text = one.text;
    message.means = one.means;
    message.rules = one.rules;
    const auto add = [&](std::vector<std::string>& into, const std::string& id) {
      const bool is_one = std::any_of(one.rules.begin(), one.rules.end(),
                                      [&](const std::string& rule) { return matches(rule, id); });
      if (is_one && std::find(into.begin(), into.end(), id) == into.end()) into.push_back(id);
    };
    for (const Finding& finding : diagnosis.findings) add(message.shown_by, finding.id);
    for (const NotChecked& rule : diagnosis.not_checked) add(message.not_checked, rule.id);
  }
  return messages;
}

/// For each finding those that it may explain, by their places.
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

/// A driver has answered for one, or its node is here: on WSL and in containers without the bus.
bool shows_gpu(const Facts& facts) {
  return (facts.driver.gpus && !facts.driver.gpus->empty()) ||
         !facts.nodes.nvidia_gpus().value_or({}).empty() || facts.nodes.kfd.has_value();
}

/// No GPU is a verdict, and nothing that was looked at is none.
std::string verdict_without_faults(const Diagnosis& diagnosis, bool has_gpu) {
  if (model::is_empty_look(diagnosis)) return std::string(tr("nothing could be checked"));
  // Of a GPU that nobody could look for, nothing is known, and least of all that it is well.
  const bool looked = std::none_of(diagnosis.not_checked.begin(), diagnosis.not_checked.end(),
                                   [](const NotChecked& one) { return one.id == "HW01"; });
  if (!looked && !has_gpu)
    return std::string(tr("nothing wrong was found, but whether there is a GPU was not checked"));
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
  // Explanations go up, layer by layer; a cycle in the rules' table would be our mistake, and the
  // bound keeps it from hanging us.
  std::vector<int> depth(count, 0);
  std::vector<int> weight(count), asked(count);
  for (std::size_t i = 0; i < count; ++i) {
    weight[i] = weight_of(findings[i].severity);
    asked[i] = asked_about(error, findings[i].id);
  }
  bool changed = true;
  for (std::size_t round = 0; changed && round < count; ++round) {
    changed = false;
    for (std::size_t cause = 0; cause < count; ++cause) {
      for (const std::size_t other : explained[cause]) {
        const int deeper = std::min(depth[cause] + 1, static_cast<int>(count));
        changed = changed || deeper > depth[other] || weight[other] > weight[cause] ||
                  asked[other] > asked[cause];
        depth[other] = std::max(depth[other], deeper);
        weight[cause] = std::max(weight[cause], weight[other]);
        asked[cause] = std::max(asked[cause], asked[other]);
      }
    }
  }
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  const auto key = [&](std::size_t i) {
    const Finding& one = findings[i];
    const bool is_low = one.confidence == Confidence::kLow;
    return std::tuple(is_low || weight[i] == 0 ? 0 : -asked[i], -weight[i], is_low, -asked[i],
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
                        const AskedFacts& asked) {
  Diagnosis diagnosis;
  for (const Rule& rule : rules) {
    Examination examination(facts, knowledge, rule.severity);
    {
      const Witness witness;
      if (!is_asked_rule(rule.id))
        rule.look(examination);
      else if (!look_asked(rule.id, examination, asked))
        continue;
      // What is not where it is expected ("/proc/modules" of a kernel without modules, or of a
      // simulated machine: ENODATA) is the rule's own to say, like what nobody was asked to read; a
      // refusal never is.
      for (const Unreadable& why : witness.told())
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
  doubt_what_was_tried(diagnosis, asked.probe);
  order_by_cause(diagnosis.findings, rules, asked.error.value_or({}));
  const auto worst = diagnosis.findings.begin();
  const bool well = worst == diagnosis.findings.end() || weight_of(worst->severity) == 0;
  diagnosis.verdict = well ? verdict_without_faults(diagnosis, shows_gpu(facts)) : worst->title;
  return diagnosis;
}

model::DiagnosisParts parts_of(const AskedFacts& asked, const Diagnosis& diagnosis) {
  model::DiagnosisParts parts;
  if (asked.probe) parts.probe = probed_of(*asked.probe);
  if (asked.error) parts.error = messages_of(*asked.error, diagnosis);
  return parts;
}

Diagnosis diagnose(const Facts& facts, const Knowledge& knowledge,
                   const std::vector<std::string>& only, const AskedFacts& asked) {
  std::vector<Rule> rules = all_rules();
  if (!only.empty()) {
    std::erase_if(rules, [&](const Rule& rule) {
      return std::find(only.begin(), only.end(), rule.id) == only.end();
    });
  }
  return diagnose_with(rules, facts, knowledge, asked);
}

}  // namespace berth::doctor
