#include "cli/manual.hpp"

#include <array>

#include "base/json.hpp"
#include "base/text.hpp"
#include "cli/exit_code.hpp"
#include "cli/verb.hpp"
#include "cli/version.hpp"

namespace berth::cli {
namespace {

std::string called(const Verb& verb) {
  return verb.name[0] == '\0' ? "berth" : std::string("berth ") + verb.name;
}

/// The names of an option and its value, as the help shows them: "-d, --device LIST".
std::string shown(const Option& option) {
  std::string names = option.names;
  if (const auto comma = names.find(','); comma != std::string::npos) names.insert(comma + 1, " ");
  return option.value == nullptr ? names : names + " " + option.value;
}

/// The names of an option: {"-d", "--device"} for "-d,--device".
std::vector<std::string> names_of(const Option& option) {
  const std::string names = option.names;
  const auto comma = names.find(',');
  if (comma == std::string::npos) return {names};
  return {names.substr(0, comma), names.substr(comma + 1)};
}

std::string usage(const Verb& verb) {
  std::string out = called(verb) + " " + std::string(tr("[OPTIONS]"));
  return verb.operands[0] == '\0' ? out : out + " " + verb.operands;
}

/// Escapes text for roff: no line starts a roff command, and hyphens remain ASCII, so that readers
/// can copy them.
std::string roff(std::string_view text) {
  std::string out;
  if (!text.empty() && (text[0] == '.' || text[0] == '\'')) out = "\\&";
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string roff_row(std::string_view term, std::string_view says) {
  return ".TP\n.B " + roff(term) + "\n" + roff(says) + "\n";
}

std::string roff_options(std::span<const Option> options) {
  std::string out;
  for (const Option& option : options) out += roff_row(shown(option), tr(option.help));
  return out;
}

std::string roff_examples(const Verb& verb) {
  if (verb.examples.empty()) return {};
  std::string out = ".SH EXAMPLES\n";
  for (const Example& example : verb.examples)
    out += ".PP\n" + roff(tr(example.says)) + ":\n.RS\n" + roff(example.command) + "\n.RE\n";
  return out;
}

/// The name of a verb's man page: "berth-run" for `berth run`.
std::string page_name(const Verb& verb) {
  return verb.name[0] == '\0' ? "berth" : std::string("berth-") + verb.name;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

/// Escapes text for a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string markdown_options(std::span<const Option> options) {
  std::string out = "\n| option | |\n|---|---|\n";
  for (const Option& option : options)
    out += "| `" + cell(shown(option)) + "` | " + cell(tr(option.help)) + " |\n";
  return out;
}

std::string markdown_verb(const Verb& verb) {
  std::string out = "\n## " + called(verb) + "\n\n" + std::string(tr(verb.summary)) + "\n\n    " +
                    usage(verb) + "\n";
  if (!verb.options.empty()) out += markdown_options(verb.options);
  if (!verb.examples.empty()) out += "\n| example | |\n|---|---|\n";
  for (const Example& example : verb.examples)
    out += "| `" + cell(example.command) + "` | " + cell(tr(example.says)) + " |\n";
  return out;
}

nlohmann::ordered_json json_of(std::span<const Option> options) {
  auto rows = nlohmann::ordered_json::array();
  for (const Option& option : options)
    rows.push_back({{"names", names_of(option)},
                    {"value", option.value == nullptr ? nlohmann::ordered_json(nullptr)
                                                      : nlohmann::ordered_json(option.value)},
                    {"help", option.help},
                    {"repeatable", option.repeatable}});
  return rows;
}

struct Variable {
  const char* name;
  const char* says;  // msgid
};
constexpr std::array kVariables{
    Variable{"LC_ALL, LC_MESSAGES, LANG", msgid("language of the text, unless --lang is given")},
    Variable{"NO_COLOR", msgid("no colour if this variable is set and not empty")},
    Variable{"COLUMNS", msgid("width of the text (default: the width of the terminal; in a pipe "
                              "100, and tables are not cut)")},
    Variable{"BERTH_ROOT", msgid("a folder with recorded proc, sys, dev and etc to read instead of "
                                 "those of this machine")},
    Variable{"BERTH_NVML_LIBRARY, BERTH_OPENCL_LIBRARY",
             msgid("libraries to load instead of libnvidia-ml.so.1 and libOpenCL.so.1")},
    Variable{"BERTH_RUNTIME_DIR", msgid("the folder of running jobs (default: in XDG_RUNTIME_DIR, "
                                        "/run/user/UID or the temporary folder)")},
};

constexpr std::array kFiles{
    Variable{"$XDG_RUNTIME_DIR/berth", msgid("running jobs, and the socket of the user's broker")},
    Variable{"$XDG_STATE_HOME/berth/HOSTNAME",
             msgid("the user's broker: its journal, and the output of queued jobs")},
    Variable{"/run/berth/berth.sock", msgid("the socket of the broker for all users")},
    Variable{"/var/lib/berth", msgid("the journal of the broker for all users")},
    Variable{"/etc/berth/berth.toml", msgid("settings of the broker for all users")},
    Variable{
        "/run/lock/berth",
        msgid("one lock for each device, so that two users' brokers do not use the same device")},
};

std::string closing_sections() {
  std::string out = ".SH EXIT STATUS\n";
  for (const ExitCodeRow& row : exit_codes())
    out += roff_row(std::to_string(row.code), tr(row.meaning));
  out += ".SH ENVIRONMENT\n";
  for (const Variable& variable : kVariables) out += roff_row(variable.name, tr(variable.says));
  out += ".SH FILES\n";
  for (const Variable& file : kFiles) out += roff_row(file.name, tr(file.says));
  return out;
}

}  // namespace

std::string man_page() {
  const Verb& alone = *find_verb("");
  std::string out =
      ".TH BERTH 1\n.SH NAME\nberth \\- " +
      roff(tr("gives every job its place on the GPUs of a machine")) +
      "\n.SH SYNOPSIS\n.B berth\n[VERB] " + roff(tr("[OPTIONS]")) + "\n.SH DESCRIPTION\n" +
      roff(tr("Berth shows the GPUs of a machine and who uses them. It runs jobs on free GPUs with "
              "the right environment, and queues jobs that have to wait. It says why a program "
              "does not find its GPU. Without a verb, it prints one screen about this machine.")) +
      "\n.SH VERBS\n";
  for (const Verb& verb : verbs())
    if (verb.name[0] != '\0') out += roff_row(page_name(verb) + "(1)", tr(verb.summary));
  out += ".SH OPTIONS\n" + roff_options(alone.options) + ".SS " +
         roff(tr("Options of every verb")) + "\n" + roff_options(common_options());
  return out + roff_examples(alone) + closing_sections();
}

std::string man_page(const Verb& verb) {
  if (verb.name[0] == '\0') return man_page();
  std::string out =
      ".TH " + upper(roff(page_name(verb))) + " 1\n.SH NAME\n" + roff(page_name(verb)) + " \\- " +
      roff(tr(verb.summary)) + "\n.SH SYNOPSIS\n.B " + roff(usage(verb)) + "\n.SH DESCRIPTION\n" +
      roff(tr(verb.summary)) + ".\n.SH OPTIONS\n" + roff_options(verb.options) + ".SS " +
      roff(tr("Options of every verb")) + "\n" + roff_options(common_options());
  return out + roff_examples(verb) + closing_sections() + ".SH SEE ALSO\n.BR berth (1)\n";
}

std::string markdown_page() {
  std::string out =
      "<!-- Made by `./dev docs` from the verb table in src/cli/verbs.cpp. -->\n# berth\n\n" +
      std::string(tr("Berth gives every job its place on the GPUs of a machine.")) + "\n";
  for (const Verb& verb : verbs()) out += markdown_verb(verb);
  out += "\n## " + std::string(tr("Options of every verb")) + "\n" +
         markdown_options(common_options());
  out += "\n## " + std::string(tr("Exit codes")) + "\n\n| code | |\n|---|---|\n";
  for (const ExitCodeRow& row : exit_codes())
    out += "| " + std::to_string(row.code) + " | " + cell(tr(row.meaning)) + " |\n";
  return out;
}

std::string version_json() {
  const bool known = version_revision() != "no revision";
  const nlohmann::ordered_json document{
      {"schema", 1},
      {"version", version_number()},
      {"revision",
       known ? nlohmann::ordered_json(version_revision()) : nlohmann::ordered_json(nullptr)},
      {"compiler", version_compiler()}};
  return document.dump() + "\n";
}

std::string verbs_json() {
  static constexpr const char* kGroups[] = {"look", "use", "operate", "measure"};
  nlohmann::ordered_json document{{"schema", 1}, {"verbs", nlohmann::ordered_json::array()}};
  for (const Verb& verb : verbs()) {
    auto examples = nlohmann::ordered_json::array();
    for (const Example& example : verb.examples)
      examples.push_back({{"command", example.command}, {"says", example.says}});
    document["verbs"].push_back({{"name", verb.name},
                                 {"group", kGroups[static_cast<int>(verb.group)]},
                                 {"summary", verb.summary},
                                 {"operands", verb.operands},
                                 {"takes_command", verb.takes_command},
                                 {"options", json_of(verb.options)},
                                 {"examples", std::move(examples)}});
  }
  document["common_options"] = json_of(common_options());
  document["exit_codes"] = nlohmann::ordered_json::array();
  for (const ExitCodeRow& row : exit_codes())
    document["exit_codes"].push_back(
        {{"code", static_cast<int>(row.code)}, {"meaning", row.meaning}});
  return document.dump() + "\n";
}

}  // namespace berth::cli
