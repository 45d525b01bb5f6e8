// A notebook: its code cells as one Python text, its `!` and `%` lines as commands.
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/device_list.hpp"
#include "doctor/source/shell.hpp"

namespace berth::doctor::source {
namespace {

using nlohmann::json;

struct Place {
  int cell = 0;  // counted from 1, code cells alone
  int line = 0;  // in the cell
  int file = 1;  // the line of the file that it stands in
  std::string code;
};

/// The cells' lines, and where in the file each stands.
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
  /// Notebooks keep a string a line; one that is written in another way keeps the line before.
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

/// What the first line of a cell makes of it.
enum class CellKind { kPython, kShell, kOther };

CellKind kind_of_cell(std::string_view first) {
  if (!first.starts_with("%%")) return CellKind::kPython;
  const std::string_view name = first.substr(
      2, first.find(' ') == std::string_view::npos ? std::string_view::npos : first.find(' ') - 2);
  if (name == "bash" || name == "sh") return CellKind::kShell;
  if (name == "time" || name == "timeit" || name == "capture") return CellKind::kPython;
  return CellKind::kOther;
}

bool is_about_devices(std::string_view name) {
  for (const std::string_view begin : {"CUDA_", "NVIDIA_", "HIP_", "ROCR_", "NCCL_", "TF_", "XLA_",
                                       "JAX_", "PYTORCH_", "LD_LIBRARY_PATH"})
    if (name.starts_with(begin)) return true;
  return false;
}

class NotebookMarks {
 public:
  explicit NotebookMarks(std::vector<Place> places)
      : places_(std::move(places)), commands_(marks_) {}

  /// Marks by the number of the line in all cells together.
  Marks of(const std::string& interpreter, std::string* no_tree) {
    std::string python;
    CellKind kind = CellKind::kPython;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].line == 1) kind = kind_of_cell(trim(places_[i].code));
      python += line(static_cast<int>(i) + 1, places_[i].code, kind) + "\n";
    }
    commands_.finish();
    for (Mark& mark : python_marks(python, interpreter, no_tree)) marks_.push_back(std::move(mark));
    return std::move(marks_);
  }

 private:
  /// What stands for the line in the Python text.
  std::string line(int number, std::string_view code, CellKind kind) {
    const std::string_view word = trim(code);
    if (kind == CellKind::kOther) return "";
    if (kind == CellKind::kShell) {
      if (!word.starts_with("%%")) run(number, word);
      return "";
    }
    if (!word.starts_with('!') && !word.starts_with('%') && !word.ends_with('?'))
      return std::string(code);
    const std::string blanks(code.substr(0, code.find_first_not_of(" \t")));
    if (word.starts_with('!')) escape(number, word.substr(1));
    if (word.starts_with("%pip ") || word.starts_with("%conda ")) run(number, word.substr(1));
    for (const std::string_view magic : {"%env ", "%set_env "})
      if (word.starts_with(magic)) set(number, trim(word.substr(magic.size())));
    return word.starts_with("%%") ? "" : blanks + "pass";
  }

  void run(int number, std::string_view text) {
    for (const Command& command : shell_commands(text, number)) commands_.add(command);
  }

  void set(int number, std::string_view text) {
    const std::size_t end = text.find_first_of("= ");
    if (end != std::string_view::npos)
      commands_.add_setting(number, text.substr(0, end), trim(text.substr(end + 1)));
  }

  /// The setting as %env takes it.
  static std::string meant_by(const std::string& name, const std::string& word) {
    if (word.size() <= name.size()) return name + "=…";
    const std::string value = word.substr(name.size() + 1);
    const bool list = name == "CUDA_VISIBLE_DEVICES" && !hides_every_device(value);
    const std::string plain = list ? plain_device_list(value) : value;
    return name + "=" + (contains(value, "$") || (list && plain.empty()) ? "…" : plain);
  }

  void escape(int number, std::string_view text) {
    const auto commands = shell_commands(text, number);
    // A variable exported for what follows in the same line does what it should.
    if (commands.size() == 1 && commands[0].words.size() >= 2 && commands[0].words[0] == "export" &&
        is_about_devices(commands[0].words[1])) {
      const std::string& word = commands[0].words[1];
      const std::string name = word.substr(0, word.find('='));
      marks_.push_back({number, "export_in_subshell", name, 0, {}, {}, meant_by(name, word)});
    }
    for (const Command& command : commands) commands_.add(command);
  }

  std::vector<Place> places_;
  Marks marks_;
  CommandMarks commands_;
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

Marks notebook_marks(std::string_view bytes, const std::string& python, std::string* no_tree) {
  const json document = parsed(bytes);
  if (!has_cells(document)) {
    *no_tree = tr("it is no notebook of format 4");
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
