#include "output/diagnosis.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "output/diagnosis_parts.hpp"
#include "output/json_writer.hpp"
#include "output/software.hpp"

namespace berth::output {
namespace {

using model::Finding;
using model::Severity;

constexpr std::size_t kInFull = 3;

Style style_of(Severity severity) {
  switch (severity) {
    case Severity::kFatal:
    case Severity::kError:
      return Style::kRed;
    case Severity::kWarning:
      return Style::kYellow;
    case Severity::kInfo:
      return Style::kPlain;
  }
  return Style::kPlain;
}

/// A sentence with its identifier at the right edge, if both fit in one line.
std::string headline(const std::string& sentence, const std::string& id, Style style,
                     const Terminal& terminal) {
  const int room = std::min(terminal.width, 104) - display_width(id) - 2;
  const auto lines = wrap(sentence, std::max(40, room));
  std::string out;
  for (const std::string& part : lines) {
    out += terminal.paint(style, out.empty() ? pad(part, std::max(40, room)) : part);
    if (&part == &lines.front()) out += "  " + id;
    out += '\n';
  }
  return out;
}

/// "  label   text", wrapped with a hanging indent; only the first line has the label.
std::string labelled(std::string_view label, const std::string& what, int column) {
  std::string out;
  for (const std::string_view whole : split(what, '\n')) {
    // Do not wrap a command, because the user may paste it.
    out += (out.empty() ? pad(std::string(label), column)
                        : std::string(static_cast<std::size_t>(column), ' ')) +
           std::string(whole) + "\n";
  }
  return out;
}

std::string in_full(const Finding& finding, const Terminal& terminal) {
  const std::string how = "  " + std::string(tr("how we know")) + "   ";
  const std::string mend = "  " + std::string(tr("do this")) + "   ";
  const std::string other = "  " + std::string(tr("or")) + "   ";
  const int column = std::max(display_width(how), display_width(mend));
  std::string out = headline(finding.title, finding.id, style_of(finding.severity), terminal);
  if (!finding.evidence.empty() || !finding.fix.empty()) out += '\n';
  for (std::size_t i = 0; i < finding.evidence.size(); ++i)
    out += folded(i == 0 ? how : "", finding.evidence[i], column, terminal);
  for (std::size_t i = 0; i < finding.fix.size(); ++i) {
    const model::Fix& fix = finding.fix[i];
    const std::string label = i == 0 ? mend : pad(other, column, true);
    if (!fix.command.empty()) out += labelled(label, fix.command, column);
    if (!fix.says.empty())
      out += folded(fix.command.empty() ? label : "", fix.says, column, terminal);
  }
  return out;
}

std::string in_short(std::string_view label, const Finding& finding, int column,
                     const Terminal& terminal) {
  const std::string id = "  " + finding.id;
  const int room = std::max(30, std::min(terminal.width, 104) - column - display_width(id));
  std::string more;
  if (finding.line > 0)
    more = text_n(", and {} more like this", ", and {} more like this", finding.line, finding.line);
  std::string out;
  for (const std::string& part : wrap(finding.title + more, room))
    out += out.empty() ? pad(std::string(label), column) + pad(part, room) + id + "\n"
                       : pad("", column) + part + "\n";
  return out;
}

std::string the_rest(const std::vector<Finding>& findings, std::size_t from,
                     const Terminal& terminal) {
  const std::string also = std::string(tr("also")) + "   ";
  const int column = display_width(also);
  std::string out;
  for (std::size_t i = from; i < findings.size(); ++i)
    out += in_short(out.empty() ? also : "", findings[i], column, terminal);
  return out;
}

/// The ids of the rules that could be checked.
std::set<std::string_view> looked_of(const model::Diagnosis& diagnosis) {
  std::set<std::string_view> looked(diagnosis.checked.begin(), diagnosis.checked.end());
  for (const Finding& one : diagnosis.findings) looked.insert(one.id);
  return looked;
}

/// The line "not checked   57 of 280 rules: /dev/kmsg: Operation not permitted (57)".
std::string not_checked(const model::Diagnosis& diagnosis, const Terminal& terminal) {
  // The reasons, each only once, with the number of rules that it applies to.
  std::vector<std::pair<std::string, int>> reasons;
  for (const model::NotChecked& one : diagnosis.not_checked) {
    const auto known = std::find_if(reasons.begin(), reasons.end(),
                                    [&](const auto& row) { return row.first == one.why; });
    if (known == reasons.end())
      reasons.emplace_back(one.why, 1);
    else
      ++known->second;
  }
  if (reasons.empty()) return "";
  std::set<std::string_view> both = looked_of(diagnosis);
  std::set<std::string_view> unseen;
  for (const model::NotChecked& one : diagnosis.not_checked) unseen.insert(one.id);
  both.insert(unseen.begin(), unseen.end());
  const auto total = static_cast<long long>(both.size());
  std::string all = text_n("{} of {} rule", "{} of {} rules", total, unseen.size(), total);
  const char* before = ": ";
  for (const auto& [why, rules] : reasons) {
    all += before + why + (rules > 1 ? fmt::format(" ({})", rules) : "");
    before = "; ";
  }
  const std::string label = std::string(tr("not checked")) + "   ";
  return folded(label, all, display_width(label), terminal);
}

std::string_view word_of(Severity severity) {
  return severity == Severity::kInfo      ? tr("info")
         : severity == Severity::kWarning ? tr("warning")
                                          : tr("error");
}

/// A finding in a source file: "train.py:12   the line   why   error SRC02", and then what to write
/// or do instead.
std::string in_source(const Finding& finding, int place, int code, const Terminal& terminal) {
  const std::string id = fmt::format("{} {}", word_of(finding.severity), finding.id);
  const int width = std::min(terminal.width, 140);
  const int beside = width - place - code - 6 - display_width(id) - 2;
  const std::string shift(static_cast<std::size_t>(place) + 3, ' ');
  const std::string where = fmt::format("{}:{}", printable(finding.file), finding.line);
  const std::string line = finding.evidence.empty() ? "" : finding.evidence.front();
  const Style style = style_of(finding.severity);
  std::string out = pad(where, place) + "   ";
  if (display_width(finding.title) <= beside) {
    out += pad(clip(line, code), code) + "   " + terminal.paint(style, pad(finding.title, beside)) +
           "  " + id + "\n";
  } else {
    const int room = std::max(20, width - place - 3 - display_width(id) - 2);
    out += pad(clip(line, room), room) + "  " + id + "\n";
    for (const std::string& part : wrap(finding.title, std::max(40, width - place - 3)))
      out += shift + terminal.paint(style, part) + "\n";
  }
  for (std::size_t i = 1; i < finding.evidence.size(); ++i)
    out += shift + finding.evidence[i] + "\n";
  for (const model::Fix& fix : finding.fix) {
    if (!fix.command.empty()) out += labelled(shift + "→  ", fix.command, place + 6);
    if (!fix.says.empty())
      out += folded(fix.command.empty() ? shift + "→  " : "", fix.says, place + 6, terminal);
  }
  return out;
}

std::string source_text(const std::vector<Finding>& findings, const Terminal& terminal) {
  int place = 0;
  int code = 0;
  for (const Finding& one : findings) {
    place = std::max(place, display_width(fmt::format("{}:{}", printable(one.file), one.line)));
    if (!one.evidence.empty()) code = std::max(code, display_width(one.evidence.front()));
  }
  std::string out;
  for (const Finding& one : findings)
    out += in_source(one, std::min(place, 40), std::min(code, 44), terminal);
  return out;
}

bool is_same_fix(const model::Fix& a, const model::Fix& b) {
  return a.command == b.command && a.says == b.says;
}

/// If the list already has this finding with the same fix for another GPU, merges `one` into it and
/// returns true.
bool joins_its_like(std::vector<Finding>& shown, const Finding& one) {
  const auto like = std::find_if(shown.begin(), shown.end(), [&](const Finding& other) {
    return other.id == one.id && other.severity == one.severity &&
           other.explained_by == one.explained_by &&
           std::equal(other.fix.begin(), other.fix.end(), one.fix.begin(), one.fix.end(),
                      is_same_fix);
  });
  if (like == shown.end()) return false;
  like->evidence.push_back(one.title);
  like->line += 1;  // `line` of a finding about the machine is free to count the merged findings
  return true;
}

/// The text for findings about the machine: a verdict if there is nothing to do, and the findings
/// that are shown in full. The other findings are added to `brief`.
std::string machine_text(const model::Diagnosis& diagnosis, const std::vector<Finding>& findings,
                         const Terminal& terminal, bool all, std::vector<Finding>& brief) {
  // A finding with a known cause needs no fix of its own, and a finding of severity "info" needs no
  // action. All others are shown in full, up to a limit.
  std::vector<Finding> full;
  for (const Finding& one : findings) {
    const bool worth = one.explained_by.empty() && one.severity != Severity::kInfo;
    std::vector<Finding>& into = all || (worth && full.size() < kInFull) ? full : brief;
    if (all || !(joins_its_like(full, one) || joins_its_like(brief, one))) into.push_back(one);
  }
  std::string out;
  if (findings.empty() || findings.front().severity == Severity::kInfo) {
    const bool silent = findings.size() == diagnosis.findings.size();
    out += silent ? diagnosis.verdict : std::string(tr("nothing wrong was found on this machine"));
    // If the verdict already says that there is no GPU, leave out the finding that says the same.
    if (silent && !all)
      std::erase_if(brief, [&](const Finding& one) {
        return one.id == "HW01" && diagnosis.verdict.starts_with(one.title);
      });
    // If some rules could not be checked, the number of checked rules is printed at the end
    // instead, with the reasons.
    const auto count = static_cast<long long>(looked_of(diagnosis).size());
    if (count > 0 && diagnosis.not_checked.empty())
      out += "   " + text_n("{} rule checked", "{} rules checked", count, count);
    out += "\n";
  }
  for (const Finding& one : full) out += (out.empty() ? "" : "\n") + in_full(one, terminal);
  return out;
}

}  // namespace

std::string folded(std::string_view label, const std::string& what, int column,
                   const Terminal& terminal) {
  std::string joined;
  for (const std::string& part : wrap(what, std::max(40, terminal.width - column)))
    joined += (joined.empty() ? "" : "\n") + part;
  return labelled(label, joined, column);
}

std::string diagnosis_text(const model::Diagnosis& diagnosis, const Terminal& terminal, bool all,
                           const model::DiagnosisParts& parts) {
  std::vector<Finding> machine, sources, brief;
  for (const Finding& one : diagnosis.findings)
    (one.layer == model::Layer::kSource ? sources : machine).push_back(one);
  std::string out = command_text(parts, terminal);
  // Print the part about the machine, unless only source files were examined.
  if (sources.empty() || !machine.empty() || parts.command) {
    const std::string told = machine_text(diagnosis, machine, terminal, all, brief);
    out += (out.empty() ? "" : "\n") + told;
  }
  if (!sources.empty()) out += (out.empty() ? "" : "\n") + source_text(sources, terminal);
  const std::string rest = (brief.empty() ? "" : the_rest(brief, 0, terminal)) +
                           python_text(parts, terminal) +
                           (parts.software ? software_text(*parts.software, terminal) : "") +
                           probe_text(parts, terminal) + error_text(parts, diagnosis, terminal) +
                           not_checked(diagnosis, terminal);
  if (!rest.empty()) out += "\n" + rest;
  return terminal.spell(out);
}

namespace {

void write_finding(JsonWriter& json, const Finding& one) {
  json.field("id", one.id);
  json.field("severity", model::name(one.severity));
  json.field("confidence", model::name(one.confidence));
  json.field("layer", model::name(one.layer));
  json.field("title", one.title);
  json.field("evidence", one.evidence);
  json.rows("fix", one.fix, [&](const model::Fix& fix) {
    json.text_field("command", fix.command);
    json.text_field("says", fix.says);
  });
  json.field("explains", one.explains);
  json.text_field("explained_by", one.explained_by);
  if (one.file.empty()) return;
  json.field("file", one.file);
  json.field("line", one.line);
}

}  // namespace

std::string diagnosis_json(const model::Diagnosis& diagnosis, const model::DiagnosisParts& parts) {
  JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("verdict", diagnosis.verdict);
  json.rows("findings", diagnosis.findings, [&](const Finding& one) { write_finding(json, one); });
  json.rows("not_checked", diagnosis.not_checked, [&](const model::NotChecked& one) {
    json.field("id", one.id);
    json.field("why", one.why);
  });
  json.field("checked", diagnosis.checked);
  add_parts(json, parts);
  json.close('}');
  return json.finish();
}

}  // namespace berth::output
