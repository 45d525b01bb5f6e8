#include <algorithm>
#include <utility>

#include "base/json.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/knowledge/device_list.hpp"
#include "doctor/source/shell.hpp"

extern "C" {
extern const char berth_source_python_marks[];
extern const char berth_source_python_marks_end[];
extern const char berth_source_python_order[];
extern const char berth_source_python_order_end[];
extern const char berth_source_python_loops[];
extern const char berth_source_python_loops_end[];
extern const char berth_source_python_devices[];
extern const char berth_source_python_devices_end[];
extern const char berth_source_python_main[];
extern const char berth_source_python_main_end[];
}

namespace berth::doctor::source {
namespace {

using nlohmann::json;

std::string script() {
  std::string all(berth_source_python_marks, berth_source_python_marks_end);
  all += "\n";
  all.append(berth_source_python_order, berth_source_python_order_end);
  all += "\n";
  all.append(berth_source_python_loops, berth_source_python_loops_end);
  all += "\n";
  all.append(berth_source_python_devices, berth_source_python_devices_end);
  all += "\n";
  all.append(berth_source_python_main, berth_source_python_main_end);
  return all;
}

std::optional<Mark> mark_of(const json& row) {
  if (!row.is_array() || row.size() != 4 || !row[0].is_number_integer() || !row[1].is_string() ||
      !row[2].is_string() || !row[3].is_number_integer())
    return std::nullopt;
  return Mark{row[0].get<int>(),
              row[1].get<std::string>(),
              row[2].get<std::string>(),
              row[3].get<int>(),
              {}};
}

/// The option of `berth run` that replaces a value of CUDA_VISIBLE_DEVICES. "…" stands for a value
/// that is known only at run time.
std::string devices_option(const std::string& list) {
  if (list != "…" && hides_every_device(list)) return "--gpus none";
  const std::string plain = plain_device_list(list);
  return "--devices " + (plain.empty() ? "…" : shell_word(printable(plain)));
}

/// Handles a mark of the syntax tree. Variables and commands are checked by the same functions as
/// in shell scripts.
void take(Mark mark, Marks& found, CommandMarks& commands) {
  if (mark.what == "setting") {
    const std::size_t end = mark.value.find('=');
    commands.add_setting(mark.line, mark.value.substr(0, end), mark.value.substr(end + 1));
  } else if (mark.what == "command") {
    auto all = shell_commands(mark.value, mark.line);
    for (Command& command : all) {
      command.line = mark.line;
      commands.add(command);
    }
    if (const std::string alone = lone_export(all); !alone.empty()) {
      std::string value = setting_meant(alone);
      value.erase(0, value.find('=') + 1);
      found.push_back({mark.line,
                       "export_in_system",
                       alone.substr(0, alone.find('=')),
                       0,
                       {},
                       {},
                       std::move(value)});
    }
  } else {
    if (mark.what.starts_with("visible_"))
      mark.meant = devices_option(std::exchange(mark.value, {}));
    if (mark.what.starts_with("old_")) mark.meant = std::exchange(mark.value, {});
    found.push_back(std::move(mark));
  }
}

/// Whether the code contains `wanted`. Ignores blanks, and treats single quotes as double quotes.
bool holds(std::string_view code, std::string_view wanted) {
  std::string dense;
  for (const char c : code)
    if (c != ' ' && c != '\t') dense += c == '\'' ? '"' : c;
  return dense.find(wanted) != std::string::npos;
}

constexpr std::pair<std::string_view, const char*> kUnmistakable[] = {
    {"torch.cuda.set_device(\"cpu\")", "set_device_cpu"},
    {"torch.cuda.is_available=lambda:False", "is_available_replaced"},
    {"torch.cuda.amp.GradScaler(", "old_grad_scaler"},
    {"torch.cuda.amp.autocast(", "old_autocast"},
    {"fromapeximportamp", "apex_amp"},
};

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

Marks python_lines(std::string_view text) {
  Marks marks;
  bool in_text = false;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    std::size_t quotes = 0;
    for (const std::string_view three : {"\"\"\"", "'''"})
      for (std::size_t at = line.find(three); at != std::string_view::npos;
           at = line.find(three, at + 3))
        ++quotes;
    const bool inside = in_text || quotes != 0;
    if (quotes % 2 != 0) in_text = !in_text;
    const std::string_view code = trim(line.substr(0, line.find('#')));
    if (inside || code.empty() || code.size() > 1000 || code[0] == '"' || code[0] == '\'') continue;
    for (const auto& [wanted, what] : kUnmistakable)
      if (holds(code, wanted)) marks.push_back({number, what, {}, 0, {}, {}, "\"cuda\", …"});
  }
  return marks;
}

Marks python_marks(std::string_view code, const std::string& python, std::string* no_tree,
                   int* bad_line) {
  // Both interpreters together have ten seconds. If the first one hangs, five seconds remain for
  // the second.
  using std::chrono::seconds;
  const bool alone = python == "python3";
  bool late = false;
  auto answer = ask_interpreter(python, script(), code, seconds(alone ? 10 : 5), late);
  if (!answer && !alone) answer = ask_interpreter("python3", script(), code, seconds(5), late);
  const json document = answer ? json::parse(*answer, nullptr, false) : json();
  if (!answer) {
    *no_tree = late ? text("{} needs more than {} s to read this file", printable(python), 10)
                    : text("{} does not exist, or did not answer", printable(python));
    return python_lines(code);
  }
  if (const auto marks = document.find("marks"); document.is_object() && marks != document.end()) {
    Marks found;
    CommandMarks commands(found);
    commands.asks_toolkit_on_purpose = true;
    for (const json& row : *marks)
      if (auto mark = mark_of(row)) take(std::move(*mark), found, commands);
    commands.finish();
    return found;
  }
  const int line = document.is_object() ? document.value("line", 0) : 0;
  if (bad_line != nullptr) *bad_line = line;
  *no_tree = line > 0 ? text("line {} is not valid Python for {}", line, printable(python))
                      : text("{} cannot parse it", printable(python));
  return python_lines(code);
}

}  // namespace berth::doctor::source
