// `berth doctor`: collects facts, runs the rules, shows the findings.
#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <iterator>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/spelling.hpp"
#include "base/text.hpp"
#include "cli/doctor_target.hpp"
#include "cli/verbs.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/place.hpp"
#include "doctor/record/record.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/rule_words.hpp"
#include "doctor/rules/software.hpp"
#include "doctor/rules/unread_words.hpp"
#include "doctor/source/source.hpp"
#include "output/diagnosis.hpp"
#include "output/diagnosis_parts.hpp"
#include "output/json_writer.hpp"

namespace berth::cli {
namespace {

using doctor::Rule;

/// Ids of all rules: first those about the machine, then those about files.
std::vector<std::string> known_ids() {
  std::vector<std::string> known;
  for (const Rule& rule : doctor::all_rules()) known.emplace_back(rule.id);
  for (const doctor::source::Row& row : doctor::source::rows())
    if (known.back() != row.id) known.emplace_back(row.id);
  return known;
}

Error no_such_rule(const std::string& id, const std::vector<std::string>& known) {
  const std::string near = nearest(id, known);
  return {ErrorCode::kInvalidArgument, "E0803", text("the doctor has no rule {}", printable(id)),
          (near.empty() ? "" : text("did you mean {}?", near) + "   ") + "berth doctor --list"};
}

void write_rule(output::JsonWriter& json, const Rule& rule) {
  json.field("id", rule.id);
  json.field("layer", model::name(rule.layer));
  json.field("severity", model::name(rule.severity));
  json.field("proven", rule.proven);
  json.field("about", tr(rule.about));
  json.field("explains", rule.explains);
  const doctor::RuleWords words = doctor::words_of_rule(rule.id);
  json.field("looks_at", tr(words.looks_at));
  json.field("mended_by", tr(words.mended_by));
  json.field("refuted_by", tr(words.refuted_by));
}

/// The kinds of files to which a row applies: "Python files, notebooks", from the letters in the
/// row.
std::string kinds_of(const doctor::source::Row& row) {
  constexpr std::array<std::pair<char, const char*>, 6> kKinds{
      {{'p', msgid("Python files")},
       {'n', msgid("notebooks")},
       {'s', msgid("shell and batch scripts")},
       {'d', msgid("Dockerfiles")},
       {'r', msgid("requirements files")},
       {'y', msgid("YAML files")}}};
  std::string all;
  for (const auto& [letter, name] : kKinds)
    if (std::string_view(row.kinds).find(letter) != std::string_view::npos)
      all += (all.empty() ? "" : ", ") + std::string(tr(name));
  return all;
}

/// Replaces the placeholders in a row's text by an example.
std::string as_example(std::string words) {
  for (const auto& [place, example] :
       {std::pair("{file}", "train.py"), std::pair("{0}", "…"), std::pair("{2}", "…")})
    if (const auto at = words.find(place); at != std::string::npos)
      words.replace(at, std::string_view(place).size(), example);
  return words;
}

std::string in_capitals(std::string_view word) {
  std::string id(trim(word));
  std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  });
  return id;
}

/// The report of a rule about files, as an example: "torch.cuda.set_device('cpu'): raises …". "…"
/// stands for text from the file.
std::string about(const doctor::source::Row& row) {
  return fmt::format("{}: {}", row.seen, text(row.title, "…", "…"));
}

void write_row(output::JsonWriter& json, const doctor::source::Row& row) {
  json.field("id", row.id);
  json.field("layer", model::name(model::Layer::kSource));
  json.field("severity", model::name(row.severity));
  json.field("proven", false);
  json.field("about", about(row));
  json.field("explains", "");
  json.field("looks_at", kinds_of(row));
  json.field("mended_by",
             as_example(row.command[0] == '\0' ? std::string(tr(row.says)) : row.command));
  json.field("refuted_by", tr(doctor::words_of_rule(row.id).refuted_by));
}

/// Explains a rule about files. As text, shows all rows of the rule; as JSON, only the first row.
bool explain_source(const Context& context, const std::string& id) {
  std::string all;
  for (const doctor::source::Row& row : doctor::source::rows()) {
    if (id != row.id) continue;
    if (context.json) {
      output::JsonWriter json;
      json.open('{');
      json.field("schema", 1);
      write_row(json, row);
      json.close('}');
      context.out(json.finish());
      return true;
    }
    all += fmt::format("{}  {}\n", row.id, about(row));
    if (row.command[0] != '\0') all += fmt::format("       {}\n", as_example(row.command));
    if (row.says[0] != '\0')
      all += fmt::format("       {}\n", as_example(std::string(tr(row.says))));
    all += fmt::format("       {}: {}\n", tr("looks at"), kinds_of(row));
  }
  if (!all.empty())
    all +=
        fmt::format("       {}: {}\n", tr("refuted by"), tr(doctor::words_of_rule(id).refuted_by));
  context.out(all);
  return !all.empty();
}

/// Explains one rule: what it looks for, and how it relates to other rules.
Result<int> explain(const Context& context, const std::string& word) {
  const auto rules = doctor::all_rules();
  const std::string id = in_capitals(word);
  if (explain_source(context, id)) return 0;
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const Rule& one) { return id == one.id; });
  if (rule == rules.end()) return no_such_rule(id, known_ids());
  if (context.json) {
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    write_rule(json, *rule);
    json.close('}');
    context.out(json.finish());
    return 0;
  }
  context.out(fmt::format("{}  {}\n\n", rule->id, tr(rule->about)));
  context.out(text("severity {}, layer {}", model::name(rule->severity), model::name(rule->layer)) +
              "\n");
  context.out(std::string(rule->proven ? tr("public cases have confirmed this rule")
                                       : tr("no public case has confirmed this rule yet; confirmed "
                                            "rules are listed before it")) +
              "\n");
  if (*rule->explains != '\0')
    context.out(text("if this rule applies, it explains the findings of {}", rule->explains) +
                "\n");
  const doctor::RuleWords words = doctor::words_of_rule(rule->id);
  std::string more;
  for (const auto& [label, says] :
       {std::pair(tr("looks at"), words.looks_at), std::pair(tr("to fix it"), words.mended_by),
        std::pair(tr("refuted by"), words.refuted_by)})
    if (*says != '\0')
      more += output::folded(std::string(label) + "   ", std::string(tr(says)),
                             output::display_width(label) + 3, context.out_terminal);
  context.out("\n" + context.out_terminal.spell(more));
  return 0;
}

/// The ids in a list such as "HW01,DRV05", in upper case; fails if one does not exist.
Result<std::vector<std::string>> chosen(const Context& context) {
  const auto known = known_ids();
  std::vector<std::string> ids;
  for (const std::string& list : context.arguments.values("--only")) {
    for (const std::string_view word : split(list, ',')) {
      std::string id = in_capitals(word);
      if (id.empty()) continue;
      if (std::find(known.begin(), known.end(), id) == known.end()) return no_such_rule(id, known);
      ids.push_back(std::move(id));
    }
  }
  return ids;
}

/// Fails if --only names rules about files when a machine is examined, or other rules when files
/// are examined.
Status check_only(const Context& context, const std::vector<std::string>& only) {
  if (only.empty() || context.arguments.has_separator) return Done{};
  const bool files = !context.arguments.positional.empty();
  const auto other = std::find_if(only.begin(), only.end(), [&](const std::string& id) {
    return id.starts_with("SRC") != files;
  });
  if (other == only.end()) return Done{};
  return Error{
      ErrorCode::kInvalidArgument, "E0824",
      files ? text("{} checks a machine, not files", *other)
            : text("{} checks files, but no file was given", *other),
      files ? "berth doctor --only " + *other : "berth doctor --only " + *other + " train.py"};
}

void list_rules(const Context& context) {
  if (!context.json) {
    for (const Rule& rule : doctor::all_rules())
      context.out(fmt::format("{:<7}{}\n", rule.id, tr(rule.about)));
    for (const doctor::source::Row& row : doctor::source::rows())
      context.out(fmt::format("{:<7}{}\n", row.id, about(row)));
    return;
  }
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.key("rules");
  json.open('[');
  for (const Rule& rule : doctor::all_rules()) {
    json.open('{');
    write_rule(json, rule);
    json.close('}');
  }
  for (const doctor::source::Row& row : doctor::source::rows()) {
    json.open('{');
    write_row(json, row);
    json.close('}');
  }
  json.close(']');
  json.close('}');
  context.out(json.finish());
}

int show(const Context& context, const model::Diagnosis& diagnosis,
         const model::DiagnosisParts& parts) {
  context.out(context.json ? output::diagnosis_json(diagnosis, parts)
                           : output::diagnosis_text(diagnosis, context.out_terminal,
                                                    context.arguments.has("--all"), parts));
  const bool wrong = std::any_of(
      diagnosis.findings.begin(), diagnosis.findings.end(),
      [](const model::Finding& one) { return one.severity >= model::Severity::kError; });
  return wrong || model::is_empty_look(diagnosis) ? 1 : 0;
}

/// Fails if the path is on a mount whose server does not answer, because reading it would block.
Status check_answers(const doctor::Tree& tree, const std::string& path) {
  std::error_code ignored;
  if (!tree.is_silent(std::filesystem::absolute(path, ignored).string())) return Done{};
  return Error{ErrorCode::kInvalidArgument, "E0807",
               text("{}: {}", printable(path), error_words(ETIMEDOUT)), "findmnt"};
}

/// Checks the paths in options.
Status check_paths(const Context& context) {
  if (!context.arguments.has("--from") && !context.arguments.has("--record") &&
      !context.arguments.has("--error"))
    return Done{};
  const doctor::Tree tree = doctor::answering_tree();
  for (const char* option : {"--from", "--record", "--error"})
    if (const auto path = context.arguments.value(option); path && *path != "-")
      if (auto fit = check_answers(tree, *path); !fit) return fit;
  return Done{};
}

Result<std::vector<doctor::source::Source>> read_files(const std::vector<std::string>& paths,
                                                       const std::string& python) {
  std::vector<doctor::source::Source> sources;
  const doctor::Tree tree = doctor::answering_tree();
  for (const std::string& path : paths) {
    if (path != "-")
      if (auto fit = check_answers(tree, path); !fit) return fit.error();
    auto source = doctor::source::read(path, python);
    if (!source) return std::move(source).error();
    sources.push_back(std::move(*source));
  }
  return sources;
}

/// Examines files without executing them and without reading this machine.
Result<int> examine_files(const Context& context, const std::vector<std::string>& only) {
  auto error = pasted_error(context);
  if (!error) return std::move(error).error();
  const auto python = parsing_python(context);
  if (!python) return python.error();
  const auto sources = read_files(context.arguments.positional, *python);
  if (!sources) return sources.error();
  const model::Diagnosis diagnosis = doctor::source::diagnose(*sources, only);
  doctor::RequestFacts asked;
  asked.error = *std::move(error);
  return show(context, diagnosis, doctor::parts_of(asked, diagnosis));
}

/// Adds findings about the scripts in the command.
void add_files(model::Diagnosis& diagnosis, const DoctorTarget& target,
               const std::vector<std::string>& only) {
  std::vector<doctor::source::Source> sources;
  for (const std::string& path : target.command->files)
    if (auto source = doctor::source::read(
            path, target.sources.python.empty() ? "python3" : target.sources.python))
      sources.push_back(std::move(*source));
  model::Diagnosis of_files = doctor::source::diagnose(sources, only);
  const bool well = std::none_of(
      diagnosis.findings.begin(), diagnosis.findings.end(),
      [](const model::Finding& one) { return one.severity != model::Severity::kInfo; });
  if (well && !of_files.findings.empty()) diagnosis.verdict = of_files.verdict;
  const auto append = [](auto& into, auto& from) {
    into.insert(into.end(), std::move_iterator(from.begin()), std::move_iterator(from.end()));
  };
  append(diagnosis.findings, of_files.findings);
  append(diagnosis.not_checked, of_files.not_checked);
  append(diagnosis.checked, of_files.checked);
}

/// Why no Python was examined: there is none, or some folders could not be searched.
std::string why_no_python(const doctor::Sources& sources, const doctor::PythonFacts& python) {
  if (python.interpreter) return "";
  if (!sources.python.empty())
    return text("{} is not a Python interpreter", printable(sources.python));
  if (python.interpreter.is_unreadable())
    return text("cannot find out whether there is a Python: {}",
                doctor::said_of(python.interpreter.why()));
  if (doctor::variable(sources.process.environment, "PATH").empty())
    return text("no Python was found in {} (PATH is not set)", doctor::kUsualPath);
  return std::string(tr("no Python was found in PATH"));
}

/// If there is no GPU, no rule reports a CPU build of PyTorch. But such a build may cause the
/// pasted error, so add a note to that message.
void note_builds(const doctor::PythonFacts& python, std::vector<model::KnownMessage>& messages) {
  if (!python.torch || !python.torch->cuda.is_absent()) return;
  for (model::KnownMessage& one : messages)
    if (one.name == "cpu-pytorch")
      one.seen = fmt::format("torch {}, {}: cuda = None", printable(python.torch->version),
                             printable(python.torch->path));
}

Result<int> examine(const Context& context, const DoctorTarget& target,
                    const std::vector<std::string>& only) {
  const doctor::RequestFacts& asked = target.sources.request;
  const doctor::Facts facts = doctor::collect(target.sources);
  model::Diagnosis diagnosis = doctor::diagnose(facts, {}, only, asked);
  if (target.command) add_files(diagnosis, target, only);
  model::DiagnosisParts parts = doctor::parts_of(asked, diagnosis, &facts);
  if (parts.error) note_builds(facts.python, *parts.error);
  parts.command = target.command;
  if (only.empty()) parts.software = doctor::software_of(facts, {});
  parts.python = {facts.python.interpreter.value_or(""), facts.python.release,
                  why_no_python(target.sources, facts.python)};
  return show(context, diagnosis, parts);
}

Result<int> record_machine(const Context& context, doctor::Sources& sources,
                           const std::string& path) {
  const auto told = doctor::record(sources, path);
  if (!told) return told.error();
  if (context.json) {
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    json.field("bundle", path);
    json.field("redacted", *told);
    json.close('}');
    context.out(json.finish());
    return 0;
  }
  const std::string list = path.ends_with(".machine") ? path : path + "/redacted.txt";
  context.out(text("wrote {}; before you share it, check what was removed: {}", printable(path),
                   printable(list)) +
              "\n");
  return 0;
}

}  // namespace

Result<int> run_doctor(const Context& context) {
  if (context.arguments.has("--list")) {
    list_rules(context);
    return 0;
  }
  if (const auto fit = check_doctor_options(context); !fit) return fit.error();
  if (const auto word = context.arguments.value("--explain")) return explain(context, *word);
  const auto only = chosen(context);
  if (!only) return only.error();
  if (const auto fit = check_only(context, *only); !fit) return fit.error();
  if (const auto fit = check_paths(context); !fit) return fit.error();
  if (!context.arguments.positional.empty()) return examine_files(context, *only);
  auto target = doctor_target(context);
  if (!target) return std::move(target).error();
  if (const auto path = context.arguments.value("--record"))
    return record_machine(context, target->sources, *path);
  return examine(context, *target, *only);
}

}  // namespace berth::cli
