// Makes findings from the marks in users' files. data/source_rules.toml defines what each mark
// means.
#include "doctor/source/source.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::doctor::source {
namespace {

using model::Finding;
using model::Severity;

char letter(Kind kind) {
  switch (kind) {
    case Kind::kPython:
      return 'p';
    case Kind::kNotebook:
      return 'n';
    case Kind::kShell:
      return 's';
    case Kind::kDockerfile:
      return 'd';
    case Kind::kRequirements:
      return 'r';
    case Kind::kYaml:
      return 'y';
    case Kind::kArticle:
    case Kind::kUnknown:
      break;
  }
  return '?';
}

bool applies(const Row& row, Kind kind) {
  if (kind == Kind::kArticle) return true;  // an article can contain code of every kind
  return std::string_view(row.kinds).find(letter(kind)) != std::string_view::npos;
}

/// Inserts the values of the mark into the text.
std::string filled(std::string all, const Source& source, const Mark& mark) {
  const std::string meant = mark.meant.empty() ? "…" : mark.meant;
  constexpr std::string_view kScript = "-- python {file}";
  if (const auto at = all.find(kScript); source.kind == Kind::kNotebook && at != std::string::npos)
    all.replace(at, kScript.size(), "-- jupyter lab {file}");
  const std::string file =
      source.kind == Kind::kArticle ? "train.py" : shell_word(printable(source.path));
  for (const auto& [place, value] :
       {std::pair("{file}", file), std::pair("{0}", mark.value), std::pair("{2}", meant)})
    for (auto at = all.find(place); at != std::string::npos;
         at = all.find(place, at + value.size()))
      all.replace(at, std::strlen(place), value);
  return all;
}

Finding finding_of(const Source& source, const Mark& mark, const Row& row) {
  Finding finding;
  finding.id = row.id;
  finding.layer = model::Layer::kSource;
  finding.severity = row.severity;
  // no public report confirms these rules yet, so confidence is low
  finding.confidence = model::Confidence::kLow;
  finding.title = text(row.title, mark.value, mark.other);
  finding.evidence.push_back(mark.code);
  if (!mark.where.empty()) finding.evidence.push_back(mark.where);
  const std::string says = row.says[0] == '\0' ? "" : std::string(tr(row.says));
  finding.fix.push_back({filled(row.command, source, mark), filled(says, source, mark)});
  finding.file = source.path;
  finding.line = mark.line;
  return finding;
}

bool wanted(const std::vector<std::string>& only, const std::string& id) {
  return only.empty() || std::find(only.begin(), only.end(), id) != only.end();
}

}  // namespace

model::Diagnosis diagnose(const std::vector<Source>& sources,
                          const std::vector<std::string>& only) {
  model::Diagnosis diagnosis;
  std::map<std::string, std::string> unseen;  // rule id → why it could not be checked
  // key: id of a rule for files of these kinds; value: whether the rule has a finding
  std::map<std::string, bool> found;
  for (const Source& source : sources) {
    for (const Row& row : rows()) {
      if (!applies(row, source.kind) || !wanted(only, row.id)) continue;
      found.try_emplace(row.id, false);
      if (!source.no_tree.empty())
        unseen.try_emplace(row.id, printable(source.path) + ": " + source.no_tree);
      for (const Mark& mark : source.marks) {
        if (mark.what != row.what) continue;
        diagnosis.findings.push_back(finding_of(source, mark, row));
        found[row.id] = true;
      }
    }
  }
  for (const auto& [id, once] : found) {
    if (const auto why = unseen.find(id); why != unseen.end())
      diagnosis.not_checked.push_back({id, why->second});
    else if (!once)
      diagnosis.checked.push_back(id);
  }
  for (const std::string& id : only)
    if (!found.contains(id) && id.starts_with("SRC"))
      diagnosis.not_checked.push_back({id, text("this rule applies to other kinds of files")});
  // Sorts by file, in the order of `sources`, and by line within a file.
  std::stable_sort(diagnosis.findings.begin(), diagnosis.findings.end(),
                   [&](const Finding& a, const Finding& b) {
                     const auto place = [&](const Finding& one) {
                       return std::find_if(sources.begin(), sources.end(),
                                           [&](const Source& s) { return s.path == one.file; });
                     };
                     return std::pair(place(a), a.line) < std::pair(place(b), b.line);
                   });
  const auto worst =
      std::max_element(diagnosis.findings.begin(), diagnosis.findings.end(),
                       [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  diagnosis.verdict =
      model::is_empty_look(diagnosis) ? std::string(tr("nothing could be checked"))
      : worst == diagnosis.findings.end() || worst->severity == Severity::kInfo
          ? std::string(tr("nothing wrong was found"))
          : fmt::format("{}:{}: {}", printable(worst->file), worst->line, worst->title);
  return diagnosis;
}

}  // namespace berth::doctor::source
