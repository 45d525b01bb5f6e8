// Help pages from the verb table, in either language, wrapped to the terminal and at most 100
// columns wide.
#include <algorithm>

#include "base/text.hpp"
#include "cli/verb.hpp"

namespace berth::cli {
namespace {

using output::Style;
using output::Terminal;

constexpr int kIndent = 2;
constexpr int kGap = 2;
constexpr int kWidest = 100;
constexpr std::array kGroups{Group::kLook, Group::kUse, Group::kOperate, Group::kMeasure};

const char* title(Group group) {
  switch (group) {
    case Group::kLook:
      return msgid("Look");
    case Group::kUse:
      return msgid("Use");
    case Group::kOperate:
      return msgid("Operate");
    case Group::kMeasure:
      return msgid("Measure");
  }
  return "";
}

struct Row {
  std::string left, right;
};

std::string blanks(int count) {
  return std::string(static_cast<std::size_t>(std::max(0, count)), ' ');
}

/// Prints two columns. The left column is at most `most` wide. If a left text is wider, its right
/// text begins on the next line.
std::string two_columns(const std::vector<Row>& rows, int most, const Terminal& terminal) {
  const int width = std::min(terminal.width, kWidest);
  int left = 0;
  for (const Row& row : rows) {
    const int own = output::display_width(row.left);
    if (own <= most) left = std::max(left, own);
  }
  const int at = kIndent + left + kGap;
  std::string out;
  for (const Row& row : rows) {
    out += blanks(kIndent) + row.left;
    int column = kIndent + output::display_width(row.left);
    for (const std::string& line : output::wrap(row.right, std::max(20, width - at))) {
      if (column > kIndent + left) {
        out += '\n';
        column = 0;
      }
      out += blanks(at - column) + line;
      column = kWidest;
    }
    out += '\n';
  }
  return out;
}

std::string shown_name(const Option& option) {
  std::string names = option.names;
  if (const auto comma = names.find(','); comma != std::string::npos) names.insert(comma + 1, " ");
  return option.value == nullptr ? names : names + " " + option.value;
}

std::string options_of(std::span<const Option> options, const Terminal& terminal) {
  std::vector<Row> rows;
  for (const Option& option : options)
    rows.push_back({shown_name(option), std::string(tr(option.help))});
  return two_columns(rows, 28, terminal);
}

std::string heading(const char* words, const Terminal& terminal) {
  return "\n" + terminal.paint(Style::kBold, tr(words)) + "\n";
}

std::string lines(const std::vector<std::string>& wrapped) {
  std::string out;
  for (const std::string& line : wrapped) out += line + "\n";
  return out;
}

std::string examples_of(const Verb& verb, const Terminal& terminal) {
  std::vector<Row> rows;
  for (const Example& example : verb.examples)
    rows.push_back({example.command, std::string(tr(example.says))});
  return heading(msgid("Examples"), terminal) + two_columns(rows, 54, terminal);
}

std::string overview(const Terminal& terminal) {
  const int width = std::min(terminal.width, kWidest);
  std::string out =
      lines(output::wrap(tr("Berth gives every job its place on the GPUs of a machine."), width));
  out += "\n" + text("usage: {}", "berth " + std::string(tr("[VERB] [OPTIONS]"))) + "\n";
  for (const Group group : kGroups) {
    std::vector<Row> rows;
    for (const Verb& verb : verbs())
      if (verb.group == group)
        rows.push_back({verb.name[0] == '\0' ? "berth" : std::string("berth ") + verb.name,
                        std::string(tr(verb.summary))});
    if (!rows.empty()) out += heading(title(group), terminal) + two_columns(rows, 20, terminal);
  }
  const Verb* alone = find_verb("");
  if (alone != nullptr && !alone->options.empty())
    out += heading(msgid("Options"), terminal) + options_of(alone->options, terminal);
  out += heading(msgid("Options of every verb"), terminal) + options_of(common_options(), terminal);
  if (alone != nullptr && !alone->examples.empty()) out += examples_of(*alone, terminal);
  return out + "\n" + lines(output::wrap(tr("More about one verb: berth VERB --help"), width));
}

std::string page(const Verb& verb, const Terminal& terminal) {
  const int width = std::min(terminal.width, kWidest);
  std::string out = lines(output::wrap(
      std::string("berth ") + verb.name + " — " + std::string(tr(verb.summary)), width));
  const std::string operands = verb.operands[0] == '\0' ? "" : std::string(" ") + verb.operands;
  out += "\n" +
         text("usage: {}",
              std::string("berth ") + verb.name + " " + std::string(tr("[OPTIONS]")) + operands) +
         "\n";
  if (!verb.options.empty())
    out += heading(msgid("Options"), terminal) + options_of(verb.options, terminal);
  out += heading(msgid("Options of every verb"), terminal) + options_of(common_options(), terminal);
  return verb.examples.empty() ? out : out + examples_of(verb, terminal);
}

}  // namespace

std::string help(const Verb* verb, const Terminal& terminal) {
  return terminal.spell(verb == nullptr || verb->name[0] == '\0' ? overview(terminal)
                                                                 : page(*verb, terminal));
}

}  // namespace berth::cli
