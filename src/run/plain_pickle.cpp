#include "run/plain_pickle.hpp"

#include <algorithm>
#include <cstring>

namespace berth::run {

namespace {

constexpr std::size_t kMostNodes = 8 << 20;
constexpr std::uint32_t kMark = 0xffffffff;  // on the stack

}  // namespace

/// The stack machine of the format (pickletools in Python's library describes each operation).
class PickleReader {
 public:
  using Kind = PlainPickle::Kind;
  using Node = PlainPickle::Node;

  explicit PickleReader(std::string_view bytes) : rest_(bytes) {}

  std::optional<PlainPickle> run() {
    while (!rest_.empty()) {
      const auto operation = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      if (operation == '.') {
        if (stack_.size() != 1 || stack_.back() == kMark) return std::nullopt;
        made_.root_ = stack_.back();
        return std::move(made_);
      }
      if (!act(operation) || made_.nodes_.size() > kMostNodes || stack_.size() > kMostNodes)
        return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  bool act(unsigned char operation) {
    switch (operation) {
      case 0x80:  // PROTO
        return take(1).has_value();
      case '(':
        stack_.push_back(kMark);
        return true;
      case 'N':
        return push({});
      case 0x88:
      case 0x89:
        return push_number(Kind::kBool, operation == 0x88 ? 1 : 0);
      case 'K':
        return push_integer(1, false);
      case 'M':
        return push_integer(2, false);
      case 'J':
        return push_integer(4, true);
      case 0x8a:
        return push_long();
      case 'G':  // a double; its value is of no use here
        return take(8).has_value() && push_number(Kind::kReal, 0);
      case 'X':
        return push_text(4);
      case 0x8c:
        return push_text(1);
      case 'q':
        return keep(1);
      case 'r':
        return keep(4);
      case 'h':
        return fetch(1);
      case 'j':
        return fetch(4);
      default:
        return act_on_container(operation);
    }
  }

  bool act_on_container(unsigned char operation) {
    switch (operation) {
      case '}':
        return push_container(Kind::kDict, {});
      case ']':
      case ')':
        return push_container(Kind::kList, {});
      case 0x85:
      case 0x86:
      case 0x87:
        return make_tuple(static_cast<std::size_t>(operation - 0x84));
      case 't': {
        const auto items = pop_to_mark();
        return items && push_container(Kind::kList, *items);
      }
      case 'a':
        return add(Kind::kList, pop(1));
      case 's':
        return add(Kind::kDict, pop(2));
      case 'e':
        return add(Kind::kList, pop_to_mark());
      case 'u':
        return add(Kind::kDict, pop_to_mark());
      default:  // GLOBAL, REDUCE, BUILD, …: not plain data
        return false;
    }
  }

  using Items = std::vector<std::uint32_t>;

  std::optional<std::string_view> take(std::size_t count) {
    if (rest_.size() < count) return std::nullopt;
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  /// Little-endian.
  std::optional<std::uint64_t> take_number(std::size_t count) {
    const auto bytes = take(count);
    if (!bytes) return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>((*bytes)[i]);
    return value;
  }

  bool push(Node node) {
    made_.nodes_.push_back(std::move(node));
    stack_.push_back(static_cast<std::uint32_t>(made_.nodes_.size() - 1));
    return true;
  }
  bool push_number(Kind kind, std::int64_t number) {
    Node node;
    node.kind = kind;
    node.number = number;
    return push(std::move(node));
  }
  bool push_integer(std::size_t count, bool is_signed) {
    const auto value = take_number(count);
    if (!value) return false;
    return push_number(Kind::kNumber, is_signed ? static_cast<std::int32_t>(*value)
                                                : static_cast<std::int64_t>(*value));
  }
  bool push_long() {
    const auto count = take_number(1);
    if (!count || *count > 8) return false;
    const auto value = take_number(*count);
    if (!value) return false;
    const auto bits = 8 * *count;
    const bool is_negative = bits > 0 && (*value >> (bits - 1) & 1) != 0;
    const std::uint64_t sign = is_negative && bits < 64 ? ~std::uint64_t{0} << bits : 0;
    return push_number(Kind::kNumber, static_cast<std::int64_t>(*value | sign));
  }
  bool push_text(std::size_t size_bytes) {
    const auto size = take_number(size_bytes);
    const auto text = size ? take(*size) : std::nullopt;
    if (!text) return false;
    Node node;
    node.kind = Kind::kText;
    node.text = *text;
    return push(std::move(node));
  }
  bool push_container(Kind kind, Items items) {
    Node node;
    node.kind = kind;
    node.items = std::move(items);
    return push(std::move(node));
  }

  std::optional<Items> pop(std::size_t count) {
    if (stack_.size() < count) return std::nullopt;
    Items items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    if (std::find(items.begin(), items.end(), kMark) != items.end()) return std::nullopt;
    return items;
  }
  std::optional<Items> pop_to_mark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    if (mark == stack_.rend()) return std::nullopt;
    auto items = pop(static_cast<std::size_t>(mark - stack_.rbegin()));
    stack_.pop_back();
    return items;
  }
  bool make_tuple(std::size_t count) {
    auto items = pop(count);
    return items && push_container(Kind::kList, *std::move(items));
  }
  bool add(Kind kind, const std::optional<Items>& items) {
    if (!items || stack_.empty() || stack_.back() == kMark) return false;
    Node& to = made_.nodes_[stack_.back()];
    added_ += items->size();  // through the memo, one value can be added many times
    if (to.kind != kind || added_ > kMostNodes) return false;
    if (kind == Kind::kDict && items->size() % 2 != 0) return false;
    to.items.insert(to.items.end(), items->begin(), items->end());
    return true;
  }
  bool keep(std::size_t size_bytes) {
    const auto place = take_number(size_bytes);
    if (!place || *place > kMostNodes || stack_.empty() || stack_.back() == kMark) return false;
    if (memo_.size() <= *place) memo_.resize(*place + 1, kMark);
    memo_[*place] = stack_.back();
    return true;
  }
  bool fetch(std::size_t size_bytes) {
    const auto place = take_number(size_bytes);
    if (!place || *place >= memo_.size() || memo_[*place] == kMark) return false;
    stack_.push_back(memo_[*place]);
    return true;
  }

  std::string_view rest_;
  PlainPickle made_;
  std::vector<std::uint32_t> stack_, memo_;
  std::size_t added_ = 0;
};

std::optional<PlainPickle> PlainPickle::parse(std::string_view bytes) {
  return PickleReader(bytes).run();
}

const PlainPickle::Node* PlainPickle::find(const Node& dict, std::string_view key) const {
  if (dict.kind != Kind::kDict) return nullptr;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const Node& name = nodes_[dict.items[i]];
    if (name.kind == Kind::kText && name.text == key) return &nodes_[dict.items[i + 1]];
  }
  return nullptr;
}

}  // namespace berth::run
