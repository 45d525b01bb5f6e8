#include "doctor/tree/bundle.hpp"

#include <array>
#include <cerrno>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"

namespace berth::doctor {
namespace {

using nlohmann::json;

struct NamedError {
  std::string_view name;
  int number;
};
constexpr auto kErrors = std::to_array<NamedError>({
    {"EPERM", EPERM},
    {"ENOENT", ENOENT},
    {"EIO", EIO},
    {"ENXIO", ENXIO},
    {"EACCES", EACCES},
    {"EBUSY", EBUSY},
    {"ENODEV", ENODEV},
    {"EINVAL", EINVAL},
    {"EROFS", EROFS},
    {"ELOOP", ELOOP},
    {"ENOSYS", ENOSYS},
    {"ENOTCONN", ENOTCONN},
    {"ENODATA", ENODATA},
});
struct NamedType {
  std::string_view name;
  NodeType type;
};
constexpr auto kTypes = std::to_array<NamedType>({
    {"char", NodeType::kCharacter},
    {"block", NodeType::kBlock},
    {"fifo", NodeType::kFifo},
    {"socket", NodeType::kSocket},
    {"file", NodeType::kFile},
});

/// Parses one row of nodes.jsonl and keeps the first key with an error.
class Row {
 public:
  explicit Row(const json& object) : object_(object) {}

  std::string word(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end()) return "";
    if (!found->is_string()) return bad(key), "";
    return found->get<std::string>();
  }
  unsigned number(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end()) return 0;
    if (!found->is_number_unsigned() || found->get<std::uint64_t>() > 0xffffffffU)
      return bad(key), 0;
    return found->get<unsigned>();
  }
  template <typename Table>
  auto one_of(const char* key, const Table& table) -> decltype(&table[0]) {
    const std::string given = word(key);
    if (given.empty()) return nullptr;
    for (const auto& row : table)
      if (row.name == given) return &row;
    bad(key);
    return nullptr;
  }
  bool flag(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end()) return false;
    if (!found->is_boolean()) return bad(key), false;
    return found->get<bool>();
  }
  void bad(std::string_view key) {
    if (bad_.empty()) bad_ = key;
  }
  [[nodiscard]] const std::string& first_bad() const { return bad_; }

 private:
  const json& object_;
  std::string bad_;
};

Special special_of(Row& row) {
  Special special;
  const auto* type = row.one_of("type", kTypes);
  const auto* error = row.one_of("open", kErrors);
  if (type == nullptr) {
    if (error == nullptr) row.bad("open");
    special.error = error == nullptr ? 0 : error->number;
    return special;
  }
  Node node;
  node.type = type->type;
  const std::string mode = row.word("mode");
  for (const char digit : mode) {
    if (digit < '0' || digit > '7') row.bad("mode");
    node.mode = (node.mode << 3 | static_cast<mode_t>(digit - '0')) & 07777;
  }
  node.uid = row.number("uid");
  node.gid = row.number("gid");
  node.major = row.number("major");
  node.minor = row.number("minor");
  node.is_empty = row.flag("empty");
  node.changed = row.number("changed");
  node.open_error = error == nullptr ? 0 : error->number;
  special.node = node;
  return special;
}

Status read_specials(const std::string& file, Tree& tree) {
  int problem = 0;
  const auto rows = slurp(file, 1 << 22, &problem);
  if (!rows && problem == ENOENT) return Done{};
  if (!rows) return malformed_bundle(file, 1, error_words(problem));
  std::size_t number = 0;
  for (const std::string_view line : split(*rows, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    const json object = json::parse(line, nullptr, false);
    if (!object.is_object())
      return malformed_bundle(file, number, std::string(tr("not a JSON object")));
    Row row(object);
    std::string path = row.word("path");
    if (!path.starts_with('/')) row.bad("path");
    Special special = special_of(row);
    if (!row.first_bad().empty()) return malformed_bundle(file, number, row.first_bad());
    tree.add_special(std::move(path), special);
  }
  return Done{};
}

}  // namespace

Error malformed_bundle(const std::string& file, std::size_t line, const std::string& what) {
  return {ErrorCode::kInvalidArgument, "E0802",
          text("{}:{}: cannot read this line of the bundle: {}", printable(file), line, what),
          "berth help doctor"};
}

std::optional<int> error_named(std::string_view name) {
  for (const NamedError& one : kErrors)
    if (one.name == name) return one.number;
  return std::nullopt;
}

std::string error_name(int number) {
  for (const NamedError& one : kErrors)
    if (one.number == number) return std::string(one.name);
  return "EIO";
}

std::optional<NodeType> node_type_named(std::string_view name) {
  for (const NamedType& one : kTypes)
    if (one.name == name) return one.type;
  return std::nullopt;
}

std::string node_type_name(NodeType type) {
  for (const NamedType& one : kTypes)
    if (one.type == type) return std::string(one.name);
  return "file";
}

std::string special_to_json(const std::string& path, const Special& special) {
  json row{{"path", path}};
  int error = special.error;
  if (special.node) {
    const Node& node = *special.node;
    row["type"] = node_type_name(node.type);
    row["mode"] = fmt::format("{:04o}", node.mode);
    row["uid"] = node.uid;
    row["gid"] = node.gid;
    row["major"] = node.major;
    row["minor"] = node.minor;
    if (node.is_empty) row["empty"] = true;
    if (node.type == NodeType::kFile && node.changed != 0) row["changed"] = node.changed;
    error = node.open_error.value_or(0);
  }
  if (error != 0) row["open"] = error_name(error);
  return row.dump(-1, ' ', true, json::error_handler_t::replace);
}

Result<Tree> bundle_tree(const std::string& folder) {
  Tree tree(folder + "/root");
  if (!tree.exists("/")) {
    return Error{ErrorCode::kInvalidArgument, "E0801",
                 text("there is no bundle in {}: it has no folder named root", printable(folder)),
                 "ls " + shell_word(printable(folder))};
  }
  if (auto read = read_specials(folder + "/nodes.jsonl", tree); !read) return read.error();
  return tree;
}

}  // namespace berth::doctor
