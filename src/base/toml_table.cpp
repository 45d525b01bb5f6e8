// The only source file that includes toml++; all others use TomlTable.
#include "base/toml_table.hpp"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
// toml++ 3.3 asserts a condition that untrusted text such as "[?" can violate, and then checks the
// condition anyway. The assertion would end the program, or let a compiler assume the condition. So
// it is turned off.
#define TOML_ASSERT(condition) static_assert(true)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <algorithm>

#include "base/spelling.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"

namespace berth {
namespace {

/// toml++ also has undefined behaviour for some non-ASCII characters where it expects a value or a
/// key. So we first parse a copy, where each non-ASCII character is a question mark. TOML allows
/// these characters only in strings and comments, where the replacement makes no difference;
/// elsewhere both documents are invalid.
toml::parse_result parse_toml(std::string_view document) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (document.substr(0, kByteOrderMark.size()) == kByteOrderMark)
    document.remove_prefix(kByteOrderMark.size());
  std::string ascii(document);
  std::replace_if(
      ascii.begin(), ascii.end(), [](char c) { return static_cast<signed char>(c) < 0; }, '?');
  toml::parse_result parsed = toml::parse(ascii, std::string_view{});
  return parsed ? toml::parse(document, std::string_view{}) : std::move(parsed);
}

}  // namespace

struct TomlTable::Parts {
  const toml::table& table;
  const std::string& origin;
  const std::string& page;
  std::vector<std::string> known;
  std::optional<Error> error;

  const toml::node* find(const char* key, bool required) {
    known.emplace_back(key);
    const toml::node* node = table.get(key);
    if (node == nullptr && required) fail("E0606", table, text("'{}' is missing", key));
    return node;
  }
  const toml::array* array(const char* key, bool required, std::string_view wanted) {
    const toml::node* node = find(key, required);
    if (node == nullptr) return nullptr;
    if (node->as_array() == nullptr) wrong_type(key, *node, wanted);
    return node->as_array();
  }
  void nested(const toml::table& inner_table, const Read& read) {
    Parts inner{inner_table, origin, page, {}, {}};
    TomlTable reader(inner);
    read(reader);
    inner.finish();
    if (inner.error && !error) error = std::move(inner.error);
  }
  /// A key that was not read is unknown, so it is reported as an error.
  void finish() {
    for (const auto& [key, node] : table) {
      const std::string word(key.str());
      if (std::find(known.begin(), known.end(), word) != known.end()) continue;
      const std::string near = nearest(word, known);
      fail("E0603", node, text("unknown key '{}'", printable(word)),
           near.empty() ? "" : text("did you mean {}?", near));
    }
  }
  void checked_text(const char* key, const toml::node& node, const std::string& value,
                    std::string& into, std::size_t most = kMostText) {
    if (value.size() > most)
      return fail("E0605", node, text("{}: longer than {} bytes", key, most));
    if (printable(value) != value)
      return fail("E0605", node, text("{}: has characters that cannot be shown", key));
    into = value;
  }
  void in_range(const char* key, const toml::node& node, std::int64_t value, std::int64_t least,
                std::int64_t most, std::int64_t& into) {
    if (value < least || value > most)
      return fail("E0605", node, text("{} = {}: must be {} to {}", key, value, least, most));
    into = value;
  }
  void wrong_type(const char* key, const toml::node& node, std::string_view wanted) {
    fail("E0604", node, text("{}: must be {}", key, wanted));
  }
  void fail(const char* id, const toml::node& node, const std::string& message,
            const std::string& more = "") {
    if (error) return;
    const std::string where = origin + ":" + std::to_string(node.source().begin.line);
    error =
        Error{ErrorCode::kInvalidArgument, id, where + ": " + message, more.empty() ? page : more};
  }
};

Status TomlTable::read(std::string_view document, const std::string& origin,
                       const std::string& page, const Read& read) {
  const toml::parse_result parsed = parse_toml(document);
  if (!parsed)
    return Error{ErrorCode::kInvalidArgument, "E0602",
                 text("{}:{}: not TOML: {}", origin, parsed.error().source().begin.line,
                      printable(std::string(parsed.error().description()))),
                 "https://toml.io"};
  Parts parts{parsed.table(), origin, page, {}, {}};
  TomlTable top(parts);
  read(top);
  parts.finish();
  if (parts.error) return *std::move(parts.error);
  return Done{};
}

void TomlTable::string(const char* key, std::string& into, bool required, std::size_t most) {
  const toml::node* node = parts_.find(key, required);
  if (node == nullptr) return;
  if (const auto* value = node->as_string())
    parts_.checked_text(key, *node, value->get(), into, most);
  else
    parts_.wrong_type(key, *node, tr("text"));
}

void TomlTable::number(const char* key, std::int64_t& into, std::int64_t least, std::int64_t most,
                       bool required) {
  const toml::node* node = parts_.find(key, required);
  if (node == nullptr) return;
  if (const auto* value = node->as_integer())
    parts_.in_range(key, *node, value->get(), least, most, into);
  else
    parts_.wrong_type(key, *node, tr("a whole number"));
}

void TomlTable::real(const char* key, double& into, double least, double most) {
  const toml::node* node = parts_.find(key, false);
  if (node == nullptr) return;
  const auto value = node->value<double>();
  if (!node->is_number() || !value) return parts_.wrong_type(key, *node, tr("a number"));
  if (!(*value >= least && *value <= most))
    return parts_.fail("E0605", *node, text("{} = {}: must be {} to {}", key, *value, least, most));
  into = *value;
}

void TomlTable::flag(const char* key, bool& into) {
  const toml::node* node = parts_.find(key, false);
  if (node == nullptr) return;
  if (const auto* value = node->as_boolean())
    into = value->get();
  else
    parts_.wrong_type(key, *node, tr("true or false"));
}

void TomlTable::size(const char* key, std::uint64_t& into, bool required) {
  const toml::node* node = parts_.find(key, required);
  if (node == nullptr) return;
  const auto* value = node->as_string();
  if (value == nullptr) return parts_.wrong_type(key, *node, tr("a size such as \"24GiB\""));
  const auto bytes = parse_size(value->get());
  if (!bytes) return parts_.fail("E0605", *node, text("{}: {}", key, bytes.error().message));
  if (*bytes > (std::uint64_t{1} << 50U))
    return parts_.fail("E0605", *node, text("{}: more than 1 PiB", key));
  into = *bytes;
}

void TomlTable::duration(const char* key, std::chrono::milliseconds& into,
                         std::chrono::milliseconds most) {
  const toml::node* node = parts_.find(key, false);
  if (node == nullptr) return;
  const auto* value = node->as_string();
  if (value == nullptr) return parts_.wrong_type(key, *node, tr("a duration such as \"20ms\""));
  const auto time = parse_duration(value->get());
  if (!time) return parts_.fail("E0605", *node, text("{}: {}", key, time.error().message));
  if (*time > most)
    return parts_.fail("E0605", *node, text("{}: more than {}", key, show_duration(most)));
  into = *time;
}

void TomlTable::strings(const char* key, std::vector<std::string>& into, bool required) {
  const toml::array* list = parts_.array(key, required, tr("a list of strings"));
  if (list == nullptr) return;
  into.clear();
  for (const toml::node& item : *list) {
    const auto* value = item.as_string();
    if (value == nullptr) return parts_.wrong_type(key, item, tr("a list of strings"));
    parts_.checked_text(key, item, value->get(), into.emplace_back());
  }
}

void TomlTable::numbers(const char* key, std::vector<std::int64_t>& into, std::int64_t least,
                        std::int64_t most) {
  const toml::array* list = parts_.array(key, false, tr("a list of whole numbers"));
  if (list == nullptr) return;
  into.clear();
  for (const toml::node& item : *list) {
    const auto* value = item.as_integer();
    if (value == nullptr) return parts_.wrong_type(key, item, tr("a list of whole numbers"));
    parts_.in_range(key, item, value->get(), least, most, into.emplace_back());
  }
}

void TomlTable::choice(const char* key, int& into, const std::vector<std::string>& words) {
  const toml::node* node = parts_.find(key, false);
  if (node == nullptr) return;
  const auto* value = node->as_string();
  const auto found =
      value == nullptr ? words.end() : std::find(words.begin(), words.end(), value->get());
  if (found == words.end())
    return parts_.wrong_type(key, *node, fmt::format("{}", fmt::join(words, ", ")));
  into = static_cast<int>(found - words.begin());
}

void TomlTable::tables(const char* key, const Read& read) {
  const toml::array* list = parts_.array(key, false, tr("a list of tables"));
  if (list == nullptr) return;
  for (const toml::node& item : *list) {
    if (item.as_table() == nullptr) return parts_.wrong_type(key, item, tr("a list of tables"));
    parts_.nested(*item.as_table(), read);
  }
}

void TomlTable::table(const char* key, const Read& read) {
  const toml::node* node = parts_.find(key, false);
  if (node == nullptr) return;
  if (node->as_table() == nullptr) return parts_.wrong_type(key, *node, tr("a table"));
  parts_.nested(*node->as_table(), read);
}

void TomlTable::named_tables(const char* key,
                             const std::function<void(const std::string& name, TomlTable&)>& read) {
  const toml::node* node = parts_.find(key, false);
  if (node == nullptr) return;
  if (node->as_table() == nullptr) return parts_.wrong_type(key, *node, tr("a table"));
  for (const auto& [name, inner] : *node->as_table()) {
    const std::string word(name.str());
    if (inner.as_table() == nullptr) return parts_.wrong_type(key, inner, tr("a table"));
    parts_.nested(*inner.as_table(), [&](TomlTable& reader) { read(word, reader); });
  }
}

bool TomlTable::has(const char* key) const {
  return parts_.table.contains(key);
}

void TomlTable::finish() {
  parts_.finish();
}

bool TomlTable::is_sound() const {
  return !parts_.error;
}

void TomlTable::check(const std::optional<std::string>& problem) {
  if (problem) parts_.fail("E0605", parts_.table, *problem);
}

}  // namespace berth
