#include "base/pickle.hpp"

#include <algorithm>
#include <unordered_map>

namespace berth {

namespace {

constexpr std::size_t kMostValues = 4'000'000, kMostText = 64U << 20U, kMostName = 65'536;
// stands for a mark on the stack, in place of a value's index
constexpr Pickle::Index kMark = 0xFFFFFFFF;

}  // namespace

/// Runs the stack machine of the pickle format. Python's module pickletools describes each opcode.
class PickleReader {
 public:
  PickleReader(Cursor& cursor, Pickle::Contents contents)
      : cursor_(cursor), is_plain_(contents == Pickle::Contents::kPlain) {}

  std::optional<Pickle> run() {
    while (cursor_.ok()) {
      const std::uint8_t opcode = cursor_.byte();
      if (!cursor_.ok()) return std::nullopt;
      if (opcode == '.') {
        if (stack_.size() != 1 || stack_.back() == kMark) return std::nullopt;
        made_.root_ = stack_.back();
        return std::move(made_);
      }
      if (!step(opcode) || made_.values_.size() > kMostValues || stack_.size() > kMostValues ||
          copied_ > 4 * kMostValues)
        return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  using Index = Pickle::Index;
  using Items = std::vector<Index>;
  using Kind = Pickle::Kind;

  bool push(Kind kind, Items items = {}) { return push_value({kind, 0, {}, std::move(items)}); }
  bool push_number(std::int64_t number) { return push_value({Kind::kNumber, number, {}, {}}); }
  bool push_value(Pickle::Value value) {
    made_.values_.push_back(std::move(value));
    stack_.push_back(static_cast<Index>(made_.values_.size() - 1));
    return true;
  }
  bool push_text(std::uint64_t length) {
    if (length > kMostText - text_bytes_) return false;
    text_bytes_ += length;
    return push_value({Kind::kText, 0, cursor_.bytes(length, kMostText), {}});
  }
  bool push_global(const std::string& module, const std::string& name) {
    // A short pickle can name the same long global many times through the memo. So each copy of the
    // names counts against the limit for text.
    text_bytes_ += module.size() + name.size();
    return text_bytes_ <= kMostText && push_value({Kind::kGlobal, 0, module + " " + name, {}});
  }
  bool push_bytes(std::uint64_t length) { return cursor_.skip(length), push(Kind::kNone); }
  bool push_long(std::uint64_t length) {
    // Sizes in a model file fit into 8 bytes. Skip longer integers, such as seeds, because our
    // readers do not use them.
    if (length > 8) return push_bytes(length);
    std::uint64_t value = cursor_.number(static_cast<std::size_t>(length));
    const unsigned bits = static_cast<unsigned>(length) * 8;
    if (bits > 0 && bits < 64 && (value >> (bits - 1)) != 0) value |= ~std::uint64_t{0} << bits;
    return push_number(static_cast<std::int64_t>(value));
  }

  bool pop(Index& into) {
    if (stack_.empty() || stack_.back() == kMark) return false;
    into = stack_.back();
    stack_.pop_back();
    return true;
  }
  /// The topmost `count` values, in the order in which they were pushed.
  bool pop(std::size_t count, Items& into) {
    into.resize(count);
    for (std::size_t i = count; i > 0; --i)
      if (!pop(into[i - 1])) return false;
    return true;
  }
  /// Removes the last mark, and returns everything after it.
  bool pop_to_mark(Items& into) {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    if (mark == stack_.rend()) return false;
    into.assign(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    copied_ += into.size();
    return true;
  }
  /// Adds the items to the container on top of the stack. The result of a call (kObject) also
  /// counts as a container.
  bool add(Kind kind, const Items& items) {
    if (stack_.empty() || stack_.back() == kMark) return false;
    Pickle::Value& to = made_.values_[stack_.back()];
    if (to.kind != kind && to.kind != Kind::kObject) return false;
    if (kind == Kind::kDict && items.size() % 2 != 0) return false;
    to.items.insert(to.items.end(), items.begin(), items.end());
    // one value in the memo can be added many times, so each added copy counts against the limit
    copied_ += items.size();
    return true;
  }
  bool keep(std::uint64_t key) {
    if (stack_.empty() || stack_.back() == kMark || memo_.size() > kMostValues) return false;
    memo_[key] = stack_.back();
    return true;
  }
  bool recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) return false;
    return stack_.push_back(found->second), true;
  }
  std::string line() {
    std::string out;
    for (char one = 0; cursor_.ok() && out.size() < kMostName; out += one) {
      one = static_cast<char>(cursor_.byte());
      if (one == '\n') return out;
    }
    cursor_.fail();
    return out;
  }

  bool step(std::uint8_t opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        return cursor_.skip(1), true;
      case 0x95:  // FRAME
        return cursor_.skip(8), true;
      case 'N':
        return push(Kind::kNone);
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        return push_value({Kind::kBool, opcode == 0x88 ? 1 : 0, {}, {}});
      case 'J':
        return push_number(static_cast<std::int32_t>(cursor_.number(4)));
      case 'K':
        return push_number(static_cast<std::int64_t>(cursor_.number(1)));
      case 'M':
        return push_number(static_cast<std::int64_t>(cursor_.number(2)));
      case 0x8a:  // LONG1
        return push_long(cursor_.number(1));
      case 0x8b:  // LONG4
        return push_long(cursor_.number(4));
      case 'G':  // BINFLOAT
        return cursor_.skip(8), push(Kind::kReal);
      default:
        return step_text(opcode);
    }
  }

  bool step_text(std::uint8_t opcode) {
    switch (opcode) {
      case 'X':  // BINUNICODE
      case 'T':  // BINSTRING
        return push_text(cursor_.number(4));
      case 0x8c:  // SHORT_BINUNICODE
      case 'U':   // SHORT_BINSTRING
        return push_text(cursor_.number(1));
      case 0x8d:  // BINUNICODE8
        return push_text(cursor_.number(8));
      case 'B':  // BINBYTES
        return push_bytes(cursor_.number(4));
      case 'C':  // SHORT_BINBYTES
        return push_bytes(cursor_.number(1));
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return push_bytes(cursor_.number(8));
      default:
        return step_container(opcode);
    }
  }

  bool step_container(std::uint8_t opcode) {
    Items items;
    switch (opcode) {
      case '(':
        return stack_.push_back(kMark), true;
      case ')':   // EMPTY_TUPLE
      case ']':   // EMPTY_LIST
      case 0x8f:  // EMPTY_SET
        return push(Kind::kList);
      case '}':
        return push(Kind::kDict);
      case 't':   // TUPLE
      case 'l':   // LIST
      case 0x91:  // FROZENSET
        return pop_to_mark(items) && push(Kind::kList, std::move(items));
      case 0x85:
      case 0x86:
      case 0x87:  // TUPLE1 to TUPLE3
        return pop(opcode - 0x84U, items) && push(Kind::kList, std::move(items));
      case 'a':
        return pop(1, items) && add(Kind::kList, items);
      case 'e':
      case 0x90:  // APPENDS, ADDITEMS
        return pop_to_mark(items) && add(Kind::kList, items);
      case 's':
        return pop(2, items) && add(Kind::kDict, items);
      case 'u':
        return pop_to_mark(items) && add(Kind::kDict, items);
      default:
        return step_stack(opcode);
    }
  }

  bool step_stack(std::uint8_t opcode) {
    Items items;
    switch (opcode) {
      case '0':
        return pop(1, items);
      case '1':
        return pop_to_mark(items);
      case '2':  // DUP
        return pop(1, items) && (stack_.insert(stack_.end(), 2, items[0]), true);
      case 'q':
        return keep(cursor_.number(1));
      case 'r':
        return keep(cursor_.number(4));
      case 0x94:  // MEMOIZE
        return keep(memo_.size());
      case 'h':
        return recall(cursor_.number(1));
      case 'j':
        return recall(cursor_.number(4));
      default:
        return !is_plain_ && step_object(opcode);
    }
  }

  bool step_object(std::uint8_t opcode) {
    Items items;
    switch (opcode) {
      case 'c': {
        const std::string module = line();
        return push_global(module, line());
      }
      case 0x93:  // STACK_GLOBAL
        return pop(2, items) && push_global(text_of(items[0]), text_of(items[1]));
      case 'R':   // REDUCE
      case 0x81:  // NEWOBJ
        return pop(2, items) && call(std::move(items));
      case 0x92:  // NEWOBJ_EX, which has named arguments too
        return pop(3, items) && call({items[0], items[1]});
      case 'b':  // BUILD
        return pop(1, items) && build(items[0]);
      case 'Q':
        return pop(1, items) && push(Kind::kPersistent, std::move(items));
      default:
        return false;
    }
  }

  [[nodiscard]] const std::string& text_of(Index index) const { return made_.values_[index].text; }

  bool call(Items callee_and_arguments) {
    if (made_.values_[callee_and_arguments[1]].kind != Kind::kList) return false;
    const std::string& name = text_of(callee_and_arguments[0]);
    if (name == "collections OrderedDict" || name == "collections defaultdict" ||
        name == "builtins dict")
      return push(Kind::kDict);
    return push(Kind::kObject, std::move(callee_and_arguments));
  }

  /// Runs the BUILD opcode: sets the state of the object on top of the stack.
  bool build(Index state) {
    if (stack_.empty() || stack_.back() == kMark) return false;
    Pickle::Value& object = made_.values_[stack_.back()];
    // If the object is a dictionary, ignore its state (such as `_metadata` of a PyTorch state
    // dict). It is not an entry of the dictionary.
    if (object.kind == Kind::kObject) object.items.push_back(state);
    return true;
  }

  Cursor& cursor_;
  bool is_plain_;
  Pickle made_;
  std::vector<Index> stack_;
  std::unordered_map<std::uint64_t, Index> memo_;
  std::uint64_t text_bytes_ = 0;
  std::size_t copied_ = 0;  // items
};

std::optional<Pickle> Pickle::read(Cursor& cursor, Contents contents) {
  return PickleReader(cursor, contents).run();
}

std::optional<Pickle> Pickle::read_plain(std::string_view bytes) {
  const FileBytes file = file_of(bytes);
  Cursor cursor(file, 0, file.size);
  return read(cursor, Contents::kPlain);
}

const Pickle::Value* Pickle::find(const Value& dict, std::string_view key) const {
  if (dict.kind != Kind::kDict) return nullptr;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const Value& name = at(dict.items[i]);
    if (name.kind == Kind::kText && name.text == key) return &at(dict.items[i + 1]);
  }
  return nullptr;
}

}  // namespace berth
