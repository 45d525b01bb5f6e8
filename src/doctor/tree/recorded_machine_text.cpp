// Writes a recorded machine as text. tests/doctor/machine_file.py writes the same text.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/tree/bundle.hpp"
#include "doctor/tree/byte_text.hpp"
#include "doctor/tree/recorded_machine.hpp"

namespace berth::doctor {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestLine = 200;
constexpr std::size_t kMostHex = 1024;

std::string name_of(std::string_view path) {
  const bool is_plain =
      std::all_of(path.begin(), path.end(), [](char c) { return c > ' ' && c < 0x7f && c != '"'; });
  return is_plain && path[0] != '-' && path[0] != '#' ? std::string(path) : in_quotes(path);
}

bool has_controls(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t') || c == 0x7f;
  });
}

bool is_mostly_text(std::string_view text) {
  return is_utf8(text) &&
         std::count_if(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < ' '; }) *
                 4 <
             static_cast<std::ptrdiff_t>(text.size());
}

/// Indents each line. Empty lines stay empty, except those at the end of the text.
std::string block(std::string_view text, std::string_view indent) {
  const std::size_t last = text.find_last_not_of('\n');
  std::string out;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (end > start || last == std::string_view::npos || start > last) out += indent;
    (out += text.substr(start, end - start)) += '\n';
    start = end + 1;
  }
  return out;
}

/// The text that follows the name of a part or of a text file. Returns nullopt if the content is
/// binary.
std::optional<std::string> text_of(const std::string& text, std::string_view indent) {
  if (text.empty()) return "\n";
  const bool is_line = text.find('\n') + 1 == text.size();
  if (!is_utf8(text) || has_controls(text)) {
    if (text.size() > 16 && (text.size() > kLongestLine || !is_mostly_text(text)))
      return std::nullopt;
    return " = " + in_quotes(text) + "\n";
  }
  if (is_line && text.size() > 1 && text.size() <= kLongestLine && text[0] != '"' &&
      text[0] != ' ' && text[text.size() - 2] != ' ' && text[text.size() - 2] != '\t')
    return " = " + text;
  if (is_line && text.size() == 1) return " = \"\\n\"\n";
  if (text.find('\n') == std::string::npos && text.size() <= kLongestLine)
    return " = " + in_quotes(text) + "\n";
  // With "|", the final newline is kept. With "|-", a text that ends in empty lines would lose one
  // of them.
  if (text.ends_with('\n')) return " |\n" + block(text, indent);
  return " |-\n" + block(text, indent);
}

/// Writes rows of 16 bytes as hex, or of 48 bytes as base64. Rows that contain only zero bytes are
/// left out.
std::string binary(const FileTree::Content& content, std::string_view indent) {
  const bool is_hex = content.size() <= kMostHex;
  const std::size_t width = is_hex ? 16 : 48;
  std::string out = fmt::format(" {} {}\n", is_hex ? "hex" : "base64", content.size());
  for (const auto& [offset, page] : content.pages())
    for (std::size_t i = 0; i < page.size(); i += width) {
      const std::string_view row = std::string_view(page).substr(i, width);
      if (row.find_first_not_of('\0') == std::string_view::npos) continue;
      out += fmt::format("{}{:02x}: {}\n", indent, offset + i, is_hex ? hex(row) : base64(row));
    }
  return out;
}

/// Whether all pages of the content are stored.
bool is_dense(const FileTree::Content& content) {
  std::uint64_t next = 0;
  for (const auto& [offset, page] : content.pages()) {
    if (offset != next) return false;
    next += page.size();
  }
  return next == content.size();
}

/// The text that follows the name of an entry and describes the entry.
std::string told(const FileTree::Entry& entry, std::string_view indent) {
  if (entry.type == NodeType::kLink)
    return " -> " +
           (name_of(entry.target) == entry.target ? entry.target : in_quotes(entry.target)) + "\n";
  std::string mode;
  if (entry.mode != 0644) mode = fmt::format(" [{:04o}]", entry.mode & 07777);
  if (is_dense(entry.content))
    if (auto text = text_of(entry.content.read(0, entry.content.size()), indent))
      return mode + *text;
  return mode + binary(entry.content, indent);
}

/// The path of the only entry in a folder, relative to that folder; "" if there is none, or
/// several.
std::string only_entry(const FileTree::Entry& folder, const FileTree::Entry*& entry) {
  if (folder.below.size() != 1) return "";
  const auto& [name, below] = *folder.below.begin();
  if (below->type != NodeType::kFolder) {
    entry = below.get();
    return name;
  }
  const std::string rest = only_entry(*below, entry);
  return rest.empty() ? "" : name + "/" + rest;
}

void write_folder(const std::string& path, const FileTree::Entry& folder, std::string& out) {
  std::vector<std::pair<std::string, const FileTree::Entry*>> here, later;
  for (const auto& [name, entry] : folder.below) {
    const FileTree::Entry* only = entry.get();
    if (entry->type != NodeType::kFolder) {
      here.emplace_back(name, only);
    } else if (const std::string rest = only_entry(*entry, only); !rest.empty()) {
      here.emplace_back(name + "/" + rest, only);
    } else {
      later.emplace_back(name, only);
    }
  }
  if (here.size() == 1) {
    out += name_of(path + here[0].first) + told(*here[0].second, "  ");
  } else if (here.size() > 1 || (later.empty() && path != "/")) {
    out += name_of(path) + "\n";
    for (const auto& [name, entry] : here) out += "  " + name_of(name) + told(*entry, "    ");
  }
  for (const auto& [name, entry] : later) write_folder(path + name + "/", *entry, out);
}

std::string row_of(const Special& special) {
  if (!special.node) return " unreadable " + error_name(special.error) + "\n";
  const Node& node = *special.node;
  std::string row = " " + node_type_name(node.type);
  if (node.type == NodeType::kCharacter || node.type == NodeType::kBlock)
    row += fmt::format(" {}:{}", node.major, node.minor);
  row += fmt::format(" {:04o} {}:{}", node.mode, node.uid, node.gid);
  if (node.is_empty) row += " empty";
  if (node.type == NodeType::kFile && node.changed != 0)
    row += fmt::format(" changed={}", node.changed);
  if (const int error = node.open_error.value_or(0); error != 0)
    row += " open=" + error_name(error);
  return row + "\n";
}

void write_specials(const std::map<std::string, Special>& specials, std::string& out) {
  for (auto row = specials.begin(); row != specials.end();) {
    const std::string folder = row->first.substr(0, row->first.rfind('/') + 1);
    std::vector<std::pair<std::string, std::string>> rows;
    for (; row != specials.end() && row->first.rfind('/') + 1 == folder.size() &&
           row->first.starts_with(folder);
         ++row)
      rows.emplace_back(row->first.substr(folder.size()), row_of(row->second));
    if (rows.size() == 1) {
      out += name_of(folder + rows[0].first) + rows[0].second;
      continue;
    }
    out += name_of(folder) + "\n";
    for (const auto& [name, text] : rows) out += "  " + name_of(name) + text;
  }
}

/// Writes each key, and each object in a list, on its own line. The file is then easy to edit, and
/// its diffs are small.
std::string json_lines(const std::string& text) {
  const Json document = Json::parse(text, nullptr, false);
  if (!document.is_object() || document.empty()) return text;
  const auto dump = [](const Json& one) {
    return one.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string out = "{";
  for (const auto& [key, value] : document.items()) {
    out += (out.size() > 1 ? ",\n " : "") + dump(key) + ": ";
    if (!value.is_array() || value.empty() || !value[0].is_object()) {
      out += dump(value);
      continue;
    }
    std::string rows;
    for (const Json& row : value) rows += (rows.empty() ? "[\n  " : ",\n  ") + dump(row);
    out += rows + "]";
  }
  return out + "}\n";
}

}  // namespace

std::string machine_to_text(const RecordedMachine& machine) {
  std::string out = "berth recorded machine 1\n";
  for (const char* name : {"expect.json", "redacted.txt", "process.json", "environment",
                           "driver.json", "kernel.log", "probe.json"}) {
    const auto part = machine.parts.find(name);
    if (part == machine.parts.end()) continue;
    std::string text = part->second;
    if (std::string_view(name).ends_with(".json")) text = json_lines(text);
    out += fmt::format("\n{}", name);
    if (text.empty())
      out += "\n";
    else if (const auto told = text_of(text, "  "); told && told->starts_with(" |"))
      out += *told;
    else
      out += is_utf8(text) && !has_controls(text) && text.ends_with('\n')
                 ? " |\n" + block(text, "  ")
                 : " = " + in_quotes(text) + "\n";
  }
  std::string files;
  write_folder("/", machine.files.root(), files);
  out += "\n" + files;
  write_specials(machine.specials, out);
  return out;
}

}  // namespace berth::doctor
