#include "doctor/tree/recorded_machine.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <optional>
#include <vector>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "doctor/tree/bundle.hpp"
#include "doctor/tree/byte_text.hpp"

namespace berth::doctor {
namespace {

using nlohmann::json;

constexpr std::string_view kFirstLine = "berth recorded machine 1";
constexpr std::size_t kMostBytes = 32 << 20;
constexpr std::size_t kMostEntries = 1 << 19;
// total length of the paths of device nodes and unreadable paths
constexpr std::size_t kMostSpecialBytes = 16 << 20;
constexpr int kMostBases = 8;
constexpr std::array<std::string_view, 7> kParts{"environment",  "kernel.log", "driver.json",
                                                 "process.json", "probe.json", "expect.json",
                                                 "redacted.txt"};

/// A machine that is described by several files. A file names its base; its changes apply to the
/// machine that the base describes.
struct Layers {
  RecordedMachine machine;
  std::size_t special_bytes = 0;
};

std::optional<unsigned> number_in(std::string_view word, unsigned base) {
  const auto value = size_in(word, base);
  if (!value || *value > UINT_MAX) return std::nullopt;
  return static_cast<unsigned>(*value);
}

/// The words of a line, separated by spaces.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words = split(line, ' ');
  std::erase(words, std::string_view());
  return words;
}

/// Applies the changes `by` to `base`. For an object, keys of `by` replace those of `base`. For a
/// list, {"0": {…}} changes the first entry, and {"*": {…}} all entries.
void change(json& base, const json& by, int depth = 0) {
  if (!by.is_object() || depth > 8) {
    base = by;
  } else if (base.is_array()) {
    if (const auto each = by.find("*"); each != by.end())
      for (json& one : base) change(one, *each, depth + 1);
    for (std::size_t i = 0; i < base.size(); ++i)
      if (const auto one = by.find(std::to_string(i)); one != by.end())
        change(base[i], *one, depth + 1);
  } else {
    if (!base.is_object()) base = json::object();
    for (const auto& [key, value] : by.items()) change(base[key], value, depth + 1);
  }
}

/// Whether the document is nested more deeply than any recorded document. Parsing such a document
/// could overflow the stack.
bool is_too_deep(std::string_view document) {
  int depth = 0;
  bool in_word = false;
  for (std::size_t i = 0; i < document.size(); ++i) {
    const char c = document[i];
    if (c == '"') in_word = !in_word;
    if (c == '\\') ++i;
    if (in_word) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > 64) return true;
  }
  return false;
}

/// Applies changes to an environment: "NAME=value" sets a variable, "- NAME" removes it.
std::string changed_environment(std::string_view base, std::string_view by) {
  std::vector<std::string_view> rows = split(base, '\n');
  for (const std::string_view line : split(by, '\n')) {
    if (line.empty()) continue;
    const bool removes = line.starts_with("- ");
    const std::string name =
        std::string(removes ? line.substr(2) : line.substr(0, line.find('='))) + "=";
    const auto old = std::find_if(rows.begin(), rows.end(),
                                  [&](std::string_view row) { return row.starts_with(name); });
    if (old == rows.end()) {
      if (!removes) rows.push_back(line);
    } else if (removes) {
      rows.erase(old);
    } else {
      *old = line;
    }
  }
  std::string text;
  for (const std::string_view row : rows)
    if (!row.empty()) (text += row) += '\n';
  return text;
}

class Reader {
 public:
  Reader(std::string_view text, std::string origin, Layers& layers, int depth)
      : lines_(split(text, '\n')), origin_(std::move(origin)), layers_(layers), depth_(depth) {
    for (std::string_view& line : lines_)
      if (line.ends_with('\r')) line.remove_suffix(1);
  }

  Status read() {
    if (lines_.empty() || lines_[0] != kFirstLine)
      return wrong(text("the first line must be: {}", kFirstLine));
    for (at_ = 1; at_ < lines_.size(); ++at_) {
      const std::string_view line = lines_[at_];
      if (line.find('\0') != std::string_view::npos)
        return wrong(std::string(tr("the line contains a zero byte")));
      const std::string_view words = trim(line);
      if (words.empty() || words.starts_with('#')) continue;
      if (auto read = statement(line); !read) return read;
      if (machine().files.size() > kMostEntries || layers_.special_bytes > kMostSpecialBytes)
        return wrong(std::string(tr("the recording contains too many files")));
    }
    return Done{};
  }

 private:
  RecordedMachine& machine() { return layers_.machine; }

  [[nodiscard]] Error wrong(const std::string& what) const {
    return malformed_bundle(origin_, at_ + 1, what);
  }
  [[nodiscard]] Error wrong_path(const std::string& path) const {
    return wrong(text("{} cannot be created here: it exists already, or its parent is a file",
                      printable(path)));
  }

  Status statement(std::string_view line) {
    if (line.starts_with("  ")) {
      if (folder_.empty())
        return wrong(std::string(tr("this entry needs a line with its folder above it")));
      const std::string_view rest = line.substr(2);
      if (rest.starts_with("- ")) return remove(rest.substr(2), folder_);
      return entry(rest, folder_, 4);
    }
    if (line.starts_with("- ")) return remove(line.substr(2), "");
    if (line.starts_with('/') || line.starts_with('"')) return entry(line, "", 2);
    folder_.clear();
    if (line.starts_with("like = ")) return like(std::string(line.substr(7)));
    return part(line);
  }

  Status like(const std::string& name) {
    if (!is_first_) return wrong(std::string(tr("“like” must be the first line after the header")));
    is_first_ = false;
    constexpr std::string_view kSigns = "-_.+";
    if (name.empty() || name[0] == '.' || !std::all_of(name.begin(), name.end(), [&](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 kSigns.find(c) != std::string_view::npos;
        }))
      return wrong(std::string(tr("“like” must be the name of a file in the same folder")));
    if (depth_ >= kMostBases) return wrong(std::string(tr("too many nested “like” lines")));
    const auto slash = origin_.rfind('/');
    const std::string path =
        (slash == std::string::npos ? "" : origin_.substr(0, slash + 1)) + name + ".machine";
    int problem = 0;
    const auto base = slurp(path, kMostBytes + 1, &problem);
    if (!base) return wrong(printable(path) + ": " + error_words(problem));
    if (base->size() > kMostBytes) return wrong(text("{} is too large", printable(path)));
    if (auto read = Reader(*base, path, layers_, depth_ + 1).read(); !read) return read;
    machine().files.next_layer();
    machine().parts.erase("expect.json");
    return Done{};
  }

  /// The text of the next lines, as long as they are indented by at least `indent`. This
  /// indentation is removed.
  std::string block(std::size_t indent) {
    std::string text;
    std::size_t empty = 0;
    for (std::size_t next = at_ + 1; next < lines_.size(); ++next) {
      const std::string_view line = lines_[next];
      if (line.empty()) {
        ++empty;
        continue;
      }
      if (line.find_first_not_of(' ') < indent || line.size() < indent) break;
      text.append(empty, '\n');
      (text += line.substr(indent)) += '\n';
      empty = 0;
      at_ = next;
    }
    return text;
  }

  /// Parses the content of an entry. "= " precedes one line. "|" precedes a block; with "|-", the
  /// block's last newline does not belong to it. If there is none of these, the content is empty.
  std::optional<std::string> content(std::string_view rest, std::size_t indent) {
    if (rest.empty()) return "";
    if (rest.starts_with("= \"")) {
      std::string_view after;
      auto text = unquoted(rest.substr(2), after);
      return after.empty() ? text : std::nullopt;
    }
    if (rest.starts_with("= ")) return std::string(rest.substr(2)) + "\n";
    if (rest != "|" && rest != "|-") return std::nullopt;
    std::string text = block(indent);
    if (rest == "|-" && !text.empty()) text.pop_back();
    return text;
  }

  Status part(std::string_view line) {
    is_first_ = false;
    const std::string name(line.substr(0, line.find(' ')));
    const std::string_view rest = name.size() == line.size() ? "" : line.substr(name.size() + 1);
    if (std::find(kParts.begin(), kParts.end(), name) == kParts.end())
      return wrong(text("{} is not a part of a recorded machine", printable(name)));
    if (rest == "+") return change_part(name);
    auto text = content(rest, 2);
    if (!text || (name.ends_with(".json") && is_too_deep(*text))) return wrong(name);
    machine().parts[name] = *std::move(text);
    return Done{};
  }

  Status change_part(const std::string& name) {
    std::string& part = machine().parts[name];
    const std::string by = block(2);
    if (name == "environment") {
      part = changed_environment(part, by);
    } else if (name.ends_with(".json")) {
      json document = json::parse(part.empty() ? "{}" : part, nullptr, false);
      const json changes = json::parse(is_too_deep(by) ? "" : by, nullptr, false);
      if (!document.is_object() || !changes.is_object())
        return wrong(std::string(tr("not a JSON object")));
      change(document, changes);
      part = document.dump(-1, ' ', true, json::error_handler_t::replace);
    } else {
      part += by;
    }
    return Done{};
  }

  /// The path of the name at the start of `line`; empty if it is invalid. `rest` becomes the text
  /// after the name.
  static std::string path_in(std::string_view line, const std::string& folder,
                             std::string_view& rest) {
    std::string name;
    if (line.starts_with('"')) {
      name = unquoted(line, rest).value_or("");
      if (!rest.empty() && rest[0] != ' ') return "";
    } else {
      name = line.substr(0, line.find(' '));
      rest = line.substr(name.size());
    }
    if (!rest.empty()) rest.remove_prefix(1);
    if (name.empty() || name.starts_with('/') != folder.empty()) return "";
    std::string path = folder + name;
    if (path == "/") return path;
    if (path.size() >= PATH_MAX || path.find('\0') != std::string::npos) return "";
    auto parts = split(std::string_view(path).substr(1), '/');
    if (parts.back().empty()) parts.pop_back();
    for (const std::string_view part : parts)
      if (part.empty() || part == "." || part == ".." || part.size() > NAME_MAX) return "";
    return path;
  }

  Status entry(std::string_view line, const std::string& folder, std::size_t indent) {
    is_first_ = false;
    std::string_view rest;
    const std::string path = path_in(line, folder, rest);
    if (path.empty()) return wrong(text("{} is not a path", printable(line)));
    if (folder.empty()) folder_.clear();
    if (path.ends_with('/')) {
      if (!folder.empty() || !rest.empty()) return wrong_path(path);
      folder_ = path;
      return heading();
    }
    if (rest.starts_with("-> ")) {
      std::string_view after;
      std::string target(rest.substr(3));
      if (target.starts_with('"')) target = unquoted(rest.substr(3), after).value_or("");
      if (!after.empty() || target.find('\0') != std::string::npos) return wrong_path(path);
      if (machine().files.put_link(path, std::move(target)) == nullptr) return wrong_path(path);
      return Done{};
    }
    return file_or_node(path, rest, indent);
  }

  /// Handles a heading, which names a folder. If nothing is below the heading, creates the folder.
  /// Files below it also create it, but device nodes do not.
  Status heading() {
    for (std::size_t next = at_ + 1; next < lines_.size(); ++next) {
      const std::string_view words = trim(lines_[next]);
      if (words.empty() || words.starts_with('#')) continue;
      if (lines_[next].starts_with("  ")) return Done{};
      break;
    }
    if (machine().files.make_folder(folder_) == nullptr) return wrong_path(folder_);
    return Done{};
  }

  Status file_or_node(const std::string& path, std::string_view rest, std::size_t indent) {
    const auto words = words_of(rest);
    const std::string kind(words.empty() ? "" : words[0]);
    if (kind == "unreadable" || node_type_named(kind)) return special(path, words);
    mode_t mode = 0644;
    if (kind.size() == 6 && kind[0] == '[' && kind[5] == ']') {
      const auto bits = number_in(kind.substr(1, 4), 8);
      if (!bits) return wrong(kind);
      mode = *bits;
      rest.remove_prefix(std::min<std::size_t>(rest.size(), 7));
    }
    std::optional<FileTree::Content> content;
    if (rest.starts_with("hex ") || rest.starts_with("base64 ")) {
      content = bytes(rest, indent);
    } else if (auto text = this->content(rest, indent)) {
      content.emplace(*text);
    }
    if (!content)
      return wrong(text("{}: the recording has no valid content for this file", printable(path)));
    if (machine().files.put_file(path, *std::move(content), mode) == nullptr)
      return wrong_path(path);
    return Done{};
  }

  /// Parses "hex SIZE" and rows "OFFSET: bytes". Bytes that no row contains are zero.
  std::optional<FileTree::Content> bytes(std::string_view rest, std::size_t indent) {
    const bool is_hex = rest.starts_with("hex");
    const auto size = size_in(rest.substr(rest.find(' ') + 1), 10);
    if (!size) return std::nullopt;
    FileTree::Content content;
    content.resize(*size);
    for (const std::string_view row : split(std::string_view(block_ = block(indent)), '\n')) {
      if (row.empty()) continue;
      const auto colon = row.find(": ");
      if (colon == std::string_view::npos) return std::nullopt;
      const auto offset = size_in(row.substr(0, colon), 16);
      const auto part =
          is_hex ? from_hex(row.substr(colon + 2)) : from_base64(row.substr(colon + 2));
      if (!offset || !part || *offset > *size || part->size() > *size - *offset)
        return std::nullopt;
      content.write(*offset, *part);
    }
    return content;
  }

  /// Parses the attributes of a node or an unreadable path: "char 195:0 0666 0:0 open=EPERM", "file
  /// 0644 0:0 empty changed=1700000000", "unreadable EIO".
  Status special(const std::string& path, const std::vector<std::string_view>& words) {
    Special special;
    if (words[0] == "unreadable") {
      const auto error = words.size() == 2 ? error_named(words[1]) : std::nullopt;
      if (!error) return wrong(std::string(words[0]));
      special.error = *error;
    } else {
      Node node;
      node.type = *node_type_named(words[0]);
      node.open_error = 0;
      for (std::size_t i = 1; i < words.size(); ++i)
        if (!is_told(node, words[i], i)) return wrong(printable(words[i]));
      special.node = node;
    }
    layers_.special_bytes += path.size();
    machine().specials.insert_or_assign(path, special);
    return Done{};
  }

  /// Parses one attribute of a node. Returns false if the attribute is unknown. For a device, the
  /// first attribute is the major and minor number.
  static bool is_told(Node& node, std::string_view word, std::size_t place) {
    const bool is_device = node.type == NodeType::kCharacter || node.type == NodeType::kBlock;
    if (word == "empty") return node.is_empty = true;
    if (word.starts_with("open=")) {
      node.open_error = error_named(word.substr(5));
      return node.open_error.has_value();
    }
    if (word.starts_with("changed=")) {
      const auto when = size_in(word.substr(8), 10);
      node.changed = static_cast<std::int64_t>(when.value_or(0));
      return when.has_value();
    }
    if (word.find(':') == std::string_view::npos) {
      const auto mode = number_in(word, 8);
      node.mode = mode.value_or(0) & 07777;
      return mode.has_value();
    }
    const auto first = number_in(word.substr(0, word.find(':')), 10);
    const auto second = number_in(word.substr(word.find(':') + 1), 10);
    if (!first || !second) return false;
    if (is_device && place == 1) {
      node.major = *first;
      node.minor = *second;
    } else {
      node.uid = *first;
      node.gid = *second;
    }
    return true;
  }

  Status remove(std::string_view line, const std::string& folder) {
    is_first_ = false;
    if (folder.empty()) folder_.clear();
    std::string_view rest;
    std::string path = path_in(line, folder, rest);
    if (path.empty() || !rest.empty()) return wrong(text("{} is not a path", printable(line)));
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    // If the path does not exist, that is no error, because another base may have removed it.
    static_cast<void>(machine().files.remove(path));
    auto& specials = machine().specials;
    for (auto row = specials.lower_bound(path); row != specials.end();) {
      if (!row->first.starts_with(path)) break;
      const bool is_below = row->first.size() == path.size() || row->first[path.size()] == '/';
      row = is_below ? specials.erase(row) : std::next(row);
    }
    return Done{};
  }

  std::vector<std::string_view> lines_;
  std::size_t at_ = 0;
  std::string origin_;
  Layers& layers_;
  int depth_;
  bool is_first_ = true;
  // folder of the last heading, with the final "/"; empty before the first heading
  std::string folder_;
  std::string block_;
};

}  // namespace

Result<RecordedMachine> parse_machine(std::string_view text, const std::string& origin) {
  Layers layers;
  if (auto read = Reader(text, origin, layers, 0).read(); !read) return std::move(read).error();
  return std::move(layers.machine);
}

Result<RecordedMachine> read_machine(const std::string& path) {
  int problem = 0;
  const auto text = slurp(path, kMostBytes + 1, &problem);
  if (!text) return malformed_bundle(path, 1, error_words(problem));
  if (text->size() > kMostBytes)
    return malformed_bundle(path, 1, berth::text("{} is too large", printable(path)));
  return parse_machine(*text, path);
}

}  // namespace berth::doctor
