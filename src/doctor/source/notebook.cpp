// Reads a notebook. Its code cells become one Python text, without the lines that begin with `!` or
// `%`. Those lines are read as commands.
#include <algorithm>
#include <cctype>
#include <utility>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/knowledge/device_list.hpp"
#include "doctor/source/shell.hpp"

namespace berth::doctor::source {
namespace {

using nlohmann::json;

struct Place {
  int cell = 0;  // number of the code cell, from 1
  int line = 0;  // line number in the cell
  int file = 1;  // line number in the file
  std::string code;
};

/// The lines of all code cells, with their line numbers in the file.
class Cells {
 public:
  explicit Cells(std::string_view bytes) : bytes_(bytes) {}

  void add(const json& source) {
    ++cell_;
    int line = 0;
    std::vector<std::string> parts;
    if (source.is_string()) parts.push_back(source.get<std::string>());
    if (source.is_array())
      for (const json& part : source)
        if (part.is_string()) parts.push_back(part.get<std::string>());
    for (const std::string& part : parts) {
      find(part);
      const std::string_view whole =
          part.ends_with('\n') ? std::string_view(part).substr(0, part.size() - 1) : part;
      for (const std::string_view one : split(whole, '\n'))
        places.push_back({cell_, ++line, file_line_, std::string(one)});
    }
  }

  std::vector<Place> places;

 private:
  /// Moves file_line_ to the line of the file that contains `part`. Notebooks have one JSON string
  /// per line. If `part` is not found, file_line_ does not change.
  void find(const std::string& part) {
    const std::string written = json(part).dump(-1, ' ', false, json::error_handler_t::replace);
    const std::size_t found = bytes_.find(written, at_);
    if (found == std::string_view::npos) return;
    for (; at_ < found; ++at_)
      if (bytes_[at_] == '\n') ++file_line_;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  int file_line_ = 1;
  int cell_ = 0;
};

/// Whether the line assigns a value that is not Python: "gpus = !nvidia-smi", "shape = %env A".
bool assigns_escape(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  const std::string_view value = trim(word.substr(equals + 1));
  const bool plain = word.substr(0, equals).find_first_of("\"'([{<>!") == std::string_view::npos;
  return plain && value.size() > 1 &&
         (value[0] == '!' ||
          (value[0] == '%' && std::isalpha(static_cast<unsigned char>(value[1]))));
}

/// Whether the line is a command that IPython accepts without "!" or "%": "pip install torch".
bool is_bare_command(std::string_view word) {
  for (const std::string_view begin :
       {"pip install ", "pip3 install ", "pip uninstall ", "conda install ", "mamba install ",
        "cd ", "ls ", "ls -", "mkdir ", "cp ", "mv ", "rm ", "cat "})
    if (word.starts_with(begin))
      return std::string_view("=.([:,").find(word.substr(begin.size(), 1)) ==
                 std::string_view::npos ||
             word.substr(begin.size()).starts_with("..") ||
             word.substr(begin.size()).starts_with("./");
  return false;
}

/// Whether the statement continues in the next line.
bool goes_on(std::string_view code) {
  const std::string_view word = trim(code);
  return !word.empty() &&
         std::string_view(",([{\\+-*/%=").find(word.back()) != std::string_view::npos;
}

/// The number of opening brackets minus that of closing brackets, without those in strings.
int opened_by(std::string_view code) {
  int depth = 0;
  char quote = '\0';
  for (std::size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    if (c == '\\') {
      ++i;
    } else if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      break;
    } else {
      depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    }
  }
  return depth;
}

/// The kind of a cell. Its first line determines the kind.
enum class CellKind { kPython, kShell, kOther };

CellKind kind_of_cell(std::string_view first) {
  if (!first.starts_with("%%")) return CellKind::kPython;
  const std::string_view name = first.substr(
      2, first.find(' ') == std::string_view::npos ? std::string_view::npos : first.find(' ') - 2);
  if (name == "bash" || name == "sh" || name == "!" || first.starts_with("%%script bash") ||
      first.starts_with("%%script sh"))
    return CellKind::kShell;
  if (name == "time" || name == "timeit" || name == "capture" || name == "prun")
    return CellKind::kPython;
  return CellKind::kOther;
}

class NotebookMarks {
 public:
  explicit NotebookMarks(std::vector<Place> places)
      : places_(std::move(places)), commands_(marks_) {}

  /// The marks of all cells. A line number counts the lines of all cells, as if they were one text.
  Marks of(const std::string& interpreter, std::string* no_tree) {
    std::vector<std::string> python;
    CellKind kind = CellKind::kPython;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].line == 1) {
        end_cell();
        kind = kind_of_cell(trim(places_[i].code));
        joined_.clear();
        inside_ = false;
        depth_ = 0;
      }
      python.push_back(line(static_cast<int>(i) + 1, places_[i].code, kind));
    }
    end_cell();
    commands_.finish();
    for (Mark& mark : marks_of_cells(std::move(python), interpreter, no_tree))
      marks_.push_back(std::move(mark));
    for (Mark& mark : marks_)
      if (mark.what == "library_path_too_late") mark.what = "library_path_in_notebook";
    // Setting this variable late is no mistake if the notebook starts programs with "!", because
    // they inherit it.
    if (runs_programs_)
      std::erase_if(marks_,
                    [](const Mark& mark) { return mark.what == "library_path_in_notebook"; });
    return std::move(marks_);
  }

 private:
  /// The marks of the Python code in all cells. If a cell is not valid Python, for example because
  /// of an unknown magic, it is reported and left out. The other cells are then parsed again.
  Marks marks_of_cells(std::vector<std::string> python, const std::string& interpreter,
                       std::string* no_tree) const {
    constexpr int kMost = 5;
    std::string told;
    for (int tries = 0;; ++tries) {
      std::string all;
      for (const std::string& one : python) all += one + "\n";
      std::string why;
      int line = 0;
      Marks marks = python_marks(all, interpreter, &why, &line);
      if (why.empty() || line < 1 || static_cast<std::size_t>(line) > places_.size() ||
          tries == kMost) {
        *no_tree = why.empty() ? told : why;
        return marks;
      }
      const int cell = places_[static_cast<std::size_t>(line) - 1].cell;
      if (told.empty()) told = text("code cell {} is not Python", cell);
      for (std::size_t i = 0; i < places_.size(); ++i)
        if (places_[i].cell == cell) python[i].clear();
    }
  }

  /// Converts a line of a cell to a line of Python. Shell commands and unknown magics become "" or
  /// "pass".
  std::string line(int number, std::string_view code, CellKind kind) {
    const std::string_view word = trim(code);
    if (kind == CellKind::kOther) return "";
    if (kind == CellKind::kShell) {
      if (word.starts_with("%%")) return "";
      for (Command& command : shell_commands(word, number)) {
        commands_.add(command);
        cell_.push_back(std::move(command));
      }
      return "";
    }
    const bool is_magic =
        word.size() > 1 && word[0] == '%' &&
        (word[1] == '%' || std::isalpha(static_cast<unsigned char>(word[1])) != 0);
    const bool is_escape = !inside_ && (word.starts_with('!') || is_magic || word.ends_with('?') ||
                                        word.starts_with('?') || is_bare_command(word));
    if (joined_.empty() && !is_escape && !assigns_escape(word)) {
      depth_ = std::max(0, depth_ + opened_by(code));
      inside_ = depth_ > 0 || goes_on(code);
      return std::string(code);
    }
    const std::string blanks(code.substr(0, std::min(code.find_first_not_of(" \t"), code.size())));
    const bool is_first = joined_.empty();
    if (is_first) first_line_ = number;
    joined_ += word;
    if (word.ends_with('\\')) {
      joined_.back() = ' ';
      return is_first ? blanks + "pass" : "";
    }
    const std::string whole = std::exchange(joined_, {});
    const bool ran = std::exchange(runs_programs_, false);
    read(first_line_, whole);
    const bool runs = runs_programs_;
    runs_programs_ = ran || runs;
    if (whole.starts_with("%%") || !is_first) return "";
    if (const std::string same = as_python(whole); !same.empty()) return blanks + same;
    // a program that inherits the variables
    if (runs && whole.starts_with('!')) return blanks + "subprocess.run(_)";
    return assigns_escape(word) ? std::string(code.substr(0, code.find('='))) + "= None"
                                : blanks + "pass";
  }

  void read(int number, std::string_view word) {
    if (word.starts_with('!')) escape(number, word.substr(1));
    if (assigns_escape(word)) {
      const std::string_view value = trim(word.substr(word.find('=') + 1));
      if (value.starts_with('!')) escape(number, value.substr(1));
    }
    if (is_bare_command(word)) run(number, word);
    if (word.starts_with("%pip ") || word.starts_with("%conda ")) run(number, word.substr(1));
    for (const std::string_view magic : {"%env ", "%set_env "})
      if (word.starts_with(magic)) set(number, trim(word.substr(magic.size())));
  }

  void run(int number, std::string_view text) {
    for (const Command& command : shell_commands(text, number)) commands_.add(command);
  }

  void set(int number, std::string_view text) {
    const std::size_t end = text.find_first_of("= ");
    if (end == std::string_view::npos) return;
    const std::string_view name = text.substr(0, end);
    if (as_python("%env " + std::string(text)).empty())
      commands_.add_setting(number, name, trim(text.substr(end + 1)));
    if (name == "LD_LIBRARY_PATH" || name == "LD_PRELOAD")
      marks_.push_back({number, "library_path_in_notebook", std::string(name), 0, {}, {}, {}});
  }

  void escape(int number, std::string_view text) {
    const auto commands = shell_commands(text, number);
    for (const Command& command : commands) {
      const std::string& program = command.words.front();
      runs_programs_ = runs_programs_ || program.starts_with("python") ||
                       program.starts_with("./") || program == "bash" || program == "torchrun" ||
                       program == "accelerate";
    }
    // An exported variable has no effect if no other command follows in the same line.
    if (const std::string alone = lone_export(commands); !alone.empty()) mark_export(number, alone);
    for (const Command& command : commands) commands_.add(command);
  }

  void mark_export(int number, const std::string& setting) {
    marks_.push_back({number,
                      "export_in_subshell",
                      setting.substr(0, setting.find('=')),
                      0,
                      {},
                      {},
                      setting_meant(setting)});
  }

  /// Call this after each cell. Reports a shell cell that only sets variables: its shell exits, so
  /// they have no effect.
  void end_cell() {
    if (const std::string alone = lone_export(cell_); !alone.empty())
      for (const Command& command : cell_)
        if (command.words.size() > 1 && command.words[1] == alone) {
          mark_export(command.line, alone);
          break;
        }
    cell_.clear();
  }

  /// The Python statement that replaces a magic and has the same effect; "" if there is none.
  static std::string as_python(std::string_view word) {
    for (const std::string_view magic : {"%env ", "%set_env "}) {
      if (!word.starts_with(magic)) continue;
      const std::string_view text = trim(word.substr(magic.size()));
      const std::size_t end = text.find_first_of("= ");
      if (end == std::string_view::npos || text.substr(0, end) != "CUDA_VISIBLE_DEVICES") return "";
      const std::string_view value = trim(text.substr(end + 1));
      const bool known = value.find_first_of("${") == std::string_view::npos;
      return "os.environ['CUDA_VISIBLE_DEVICES'] = " + (known ? text_of(value) : std::string("_"));
    }
    if (word.starts_with("%timeit "))
      return "timeit.timeit(" + text_of(word.substr(8)) + ", globals=globals())";
    return "";
  }

  /// Returns the value as a Python string literal.
  static std::string text_of(std::string_view value) {
    return json(std::string(value)).dump(-1, ' ', true, json::error_handler_t::replace);
  }

  std::vector<Command> cell_;  // commands of the current cell if it is a shell cell
  std::vector<Place> places_;
  Marks marks_;
  CommandMarks commands_;
  std::string joined_;  // the parts of a command that continues in the next line
  int first_line_ = 0;
  int depth_ = 0;               // number of open brackets
  bool inside_ = false;         // the next line continues a Python statement
  bool runs_programs_ = false;  // a command in the notebook starts a program
};

}  // namespace

namespace {

json parsed(std::string_view bytes) {
  const auto shallow = [](int depth, json::parse_event_t, json&) { return depth <= 8; };
  return json::parse(bytes, shallow, false);
}

bool has_cells(const json& document) {
  return document.is_object() && document.contains("cells") && document["cells"].is_array();
}

}  // namespace

bool is_notebook(std::string_view bytes) {
  return has_cells(parsed(bytes));
}

Marks cell_marks(const std::vector<std::string>& lines, const std::string& python,
                 std::string* no_tree) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < lines.size(); ++i)
    places.push_back({1, static_cast<int>(i) + 1, static_cast<int>(i) + 1, lines[i]});
  return NotebookMarks(std::move(places)).of(python, no_tree);
}

Marks notebook_marks(std::string_view bytes, const std::string& python, std::string* no_tree) {
  const json document = parsed(bytes);
  if (!has_cells(document)) {
    *no_tree = tr("it is not a notebook in format 4");
    return {};
  }
  Cells read(bytes);
  for (const json& cell : document["cells"])
    if (cell.is_object() && cell.contains("source") && cell.value("cell_type", json()) == "code")
      read.add(cell["source"]);
  const std::vector<Place> places = read.places;
  Marks marks = NotebookMarks(places).of(python, no_tree);
  std::erase_if(marks, [&](const Mark& mark) {
    return mark.line < 1 || static_cast<std::size_t>(mark.line) > places.size();
  });
  for (Mark& mark : marks) {
    const Place& place = places[static_cast<std::size_t>(mark.line) - 1];
    mark.code = place.code;
    mark.where = text("code cell {}, line {}", place.cell, place.line);
    if (mark.other > 0 && static_cast<std::size_t>(mark.other) <= places.size())
      mark.other = places[static_cast<std::size_t>(mark.other) - 1].file;
    mark.line = place.file;
  }
  return marks;
}

}  // namespace berth::doctor::source
