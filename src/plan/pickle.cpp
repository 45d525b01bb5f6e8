#include "plan/pickle.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "plan/readers.hpp"

namespace berth::plan {
namespace {

// Values are indices into a list, so that neither cycles nor depth need care when they are freed.
using Index = std::uint32_t;

enum class Kind { kNone, kNumber, kText, kList, kDict, kGlobal, kObject, kStorage, kTensor, kMark };

struct Value {
  Kind kind = Kind::kNone;
  std::int64_t number = 0;  // kStorage: its elements
  std::string text;         // kGlobal: "torch FloatStorage"; kStorage: its key
  // kList: the items. kDict: key, value, key, value. kObject: what was called, its arguments and
  // its state. kTensor: storage, shape.
  std::vector<Index> items;
};

constexpr std::size_t kMostValues = 4'000'000, kMostText = 16U << 20U;
constexpr int kMostDepth = 64;  // of modules inside modules

struct StorageType {
  std::string_view word, type;
  unsigned bytes;
};
constexpr std::array kStorageTypes{
    StorageType{"FloatStorage", "f32", 4},        StorageType{"HalfStorage", "f16", 2},
    StorageType{"BFloat16Storage", "bf16", 2},    StorageType{"DoubleStorage", "f64", 8},
    StorageType{"LongStorage", "i64", 8},         StorageType{"IntStorage", "i32", 4},
    StorageType{"ShortStorage", "i16", 2},        StorageType{"CharStorage", "i8", 1},
    StorageType{"ByteStorage", "u8", 1},          StorageType{"BoolStorage", "bool", 1},
    StorageType{"UntypedStorage", "u8", 1},       StorageType{"QInt8Storage", "i8", 1},
    StorageType{"QUInt8Storage", "u8", 1},        StorageType{"QInt32Storage", "i32", 4},
    StorageType{"ComplexFloatStorage", "c64", 8}, StorageType{"ComplexDoubleStorage", "c128", 16}};

const StorageType* storage_type(std::string_view global) {
  const std::size_t space = global.rfind(' ');
  const std::string_view word = space == std::string_view::npos ? global : global.substr(space + 1);
  const auto* const found = std::find_if(kStorageTypes.begin(), kStorageTypes.end(),
                                         [&](const StorageType& one) { return one.word == word; });
  return found == kStorageTypes.end() ? nullptr : found;
}

struct TensorType {
  std::string_view word, type;
  unsigned bytes;
};
/// Types without a storage class of their own: `torch.float8_e4m3fn` with an UntypedStorage.
constexpr std::array kTensorTypes{
    TensorType{"float32", "f32", 4},    TensorType{"float16", "f16", 2},
    TensorType{"bfloat16", "bf16", 2},  TensorType{"float8_e4m3fn", "f8", 1},
    TensorType{"float8_e5m2", "f8", 1}, TensorType{"uint16", "u16", 2},
    TensorType{"uint32", "u32", 4},     TensorType{"uint64", "u64", 8}};

class Machine {
 public:
  explicit Machine(Cursor& cursor) : cursor_(cursor) { add({}); }

  bool run() {
    if (cursor_.byte() != 0x80) return false;  // PROTO; torch.save writes protocol 2 to 5
    cursor_.skip(1);
    while (cursor_.ok()) {
      const std::uint8_t opcode = cursor_.byte();
      if (opcode == '.') return cursor_.ok() && stack_.size() == 1;
      if (!cursor_.ok() || !step(opcode) || values_.size() > kMostValues ||
          stack_.size() > kMostValues || work_ > 4 * kMostValues)
        return false;
    }
    return false;
  }

  [[nodiscard]] Index result() const { return stack_.front(); }
  [[nodiscard]] const Value& at(Index index) const { return values_[index]; }
  [[nodiscard]] const std::vector<Index>& storages() const { return storages_; }

 private:
  Index add(Value value) {
    values_.push_back(std::move(value));
    return static_cast<Index>(values_.size() - 1);
  }
  bool push(Value value) { return stack_.push_back(add(std::move(value))), true; }
  bool push_number(std::int64_t number) { return push({Kind::kNumber, number, {}, {}}); }
  bool push_text(std::uint64_t length) {
    if (length > kMostText) return false;
    text_bytes_ += length;
    if (text_bytes_ > kMostText) return false;
    return push({Kind::kText, 0, cursor_.bytes(length, kMostText), {}});
  }
  bool push_bytes(std::uint64_t length) { return cursor_.skip(length), push({}); }
  bool pop(Index& into) {
    if (stack_.empty() || at(stack_.back()).kind == Kind::kMark) return false;
    into = stack_.back();
    stack_.pop_back();
    return true;
  }
  /// Everything after the last mark, which is removed too.
  bool pop_mark(std::vector<Index>& into) {
    const auto mark = std::find_if(stack_.rbegin(), stack_.rend(),
                                   [&](Index one) { return at(one).kind == Kind::kMark; });
    if (mark == stack_.rend()) return false;
    into.assign(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    work_ += into.size();
    return true;
  }
  bool push_list(std::size_t count) {
    Value list{Kind::kList, 0, {}, std::vector<Index>(count)};
    for (std::size_t i = count; i > 0; --i)
      if (!pop(list.items[i - 1])) return false;
    return push(std::move(list));
  }
  bool append(const std::vector<Index>& items) {
    if (stack_.empty()) return false;
    auto& into = values_[stack_.back()].items;
    into.insert(into.end(), items.begin(), items.end());
    work_ += items.size();
    return true;
  }
  bool memoize(std::uint64_t key) {
    if (stack_.empty() || memo_.size() > kMostValues) return false;
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
      case 'N':
        return push({});
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        return push_number(opcode == 0x88 ? 1 : 0);
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
      case 'G':  // a floating-point number: no shape has one
        return cursor_.skip(8), push({});
      case 'X':  // BINUNICODE
      case 'T':  // BINSTRING
        return push_text(cursor_.number(4));
      case 'B':  // BINBYTES
        return push_bytes(cursor_.number(4));
      case 0x8c:  // SHORT_BINUNICODE
      case 'U':   // SHORT_BINSTRING
        return push_text(cursor_.number(1));
      case 'C':  // SHORT_BINBYTES
        return push_bytes(cursor_.number(1));
      case 0x8d:  // BINUNICODE8
        return push_text(cursor_.number(8));
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return push_bytes(cursor_.number(8));
      case 0x95:  // FRAME
        return cursor_.skip(8), true;
      default:
        return step_container(opcode);
    }
  }

  bool push_long(std::uint64_t length) {
    // Shapes and sizes have at most 8 bytes. Larger numbers, such as seeds, have no meaning here.
    if (length > 8) return cursor_.skip(length), push({});
    std::uint64_t value = cursor_.number(static_cast<std::size_t>(length));
    const unsigned bits = static_cast<unsigned>(length) * 8;
    if (bits > 0 && bits < 64 && (value >> (bits - 1)) != 0) value |= ~std::uint64_t{0} << bits;
    return push_number(static_cast<std::int64_t>(value));
  }

  bool step_container(std::uint8_t opcode) {
    std::vector<Index> items;
    Index one = 0;
    switch (opcode) {
      case '(':
        return push({Kind::kMark, 0, {}, {}});
      case ')':   // EMPTY_TUPLE
      case ']':   // EMPTY_LIST
      case 0x8f:  // EMPTY_SET
        return push({Kind::kList, 0, {}, {}});
      case '}':
        return push({Kind::kDict, 0, {}, {}});
      case 't':   // TUPLE
      case 'l':   // LIST
      case 0x91:  // FROZENSET
        return pop_mark(items) && push({Kind::kList, 0, {}, std::move(items)});
      case 0x85:
      case 0x86:
      case 0x87:  // TUPLE1 to TUPLE3
        return push_list(opcode - 0x84U);
      case 'a':
        return pop(one) && append({one});
      case 'e':
      case 0x90:  // APPENDS, ADDITEMS
        return pop_mark(items) && append(items);
      case 's':
        items.resize(2);
        return pop(items[1]) && pop(items[0]) && append(items);
      case 'u':
        return pop_mark(items) && items.size() % 2 == 0 && append(items);
      case '0':
        return pop(one);
      case '1':
        return pop_mark(items);
      case '2':
        return pop(one) && (stack_.push_back(one), stack_.push_back(one), true);
      default:
        return step_object(opcode);
    }
  }

  bool step_object(std::uint8_t opcode) {
    Index callee = 0, argument = 0;
    switch (opcode) {
      case 'q':
        return memoize(cursor_.number(1));
      case 'r':
        return memoize(cursor_.number(4));
      case 0x94:  // MEMOIZE
        return memoize(memo_.size());
      case 'h':
        return recall(cursor_.number(1));
      case 'j':
        return recall(cursor_.number(4));
      case 'c': {
        std::string name = line();
        name += ' ';
        name += line();
        return push({Kind::kGlobal, 0, std::move(name), {}});
      }
      case 0x93:  // STACK_GLOBAL
        return pop(argument) && pop(callee) &&
               push({Kind::kGlobal, 0, at(callee).text + " " + at(argument).text, {}});
      case 'R':   // REDUCE
      case 0x81:  // NEWOBJ
        return pop(argument) && pop(callee) && call(callee, argument);
      case 0x92: {  // NEWOBJ_EX
        Index named = 0;
        return pop(named) && pop(argument) && pop(callee) && call(callee, argument);
      }
      case 'b':  // BUILD: a state for the object below it
        return pop(argument) && build(argument);
      case 'Q':
        return pop(argument) && persistent(argument);
      default:
        return false;
    }
  }

  bool build(Index state) {
    if (stack_.empty()) return false;
    Value& object = values_[stack_.back()];
    // A dictionary's own state is not one of its entries (`_metadata` of a state dict).
    if (object.kind == Kind::kObject) object.items.push_back(state);
    return true;
  }

  bool call(Index callee, Index arguments) {
    if (at(arguments).kind != Kind::kList) return false;
    const std::string& name = at(callee).text;
    const std::vector<Index>& given = at(arguments).items;
    const auto is = [&](std::string_view word) { return name == word; };
    if (is("collections OrderedDict") || is("collections defaultdict") || is("builtins dict"))
      return push({Kind::kDict, 0, {}, {}});
    if (is("torch Size") && given.size() == 1) return stack_.push_back(given[0]), true;
    const bool is_parameter =
        is("torch._utils _rebuild_parameter") || is("torch._utils _rebuild_parameter_with_state");
    if (is_parameter && !given.empty()) return stack_.push_back(given[0]), true;
    const bool is_tensor =
        name.starts_with("torch._utils _rebuild_tensor") || is("torch._utils _rebuild_qtensor");
    // (storage, offset, shape, stride, …); a meta tensor has no storage.
    if (is_tensor && given.size() >= 3 && at(given[0]).kind == Kind::kStorage) {
      Value tensor{Kind::kTensor, 0, {}, {given[0], given[2]}};
      // _rebuild_tensor_v3 names the type of the elements.
      if (name.ends_with("_v3") && given.size() >= 7) tensor.text = at(given[6]).text;
      return push(std::move(tensor));
    }
    return push({Kind::kObject, 0, {}, {callee, arguments}});
  }

  /// ('storage', type, key, device, elements, …); ('module', class, …) before PyTorch 1.6.
  bool persistent(Index index) {
    const std::vector<Index>& given = at(index).items;
    if (at(index).kind != Kind::kList || given.empty()) return false;
    const std::string& what = at(given[0]).text;
    if (what == "module" && given.size() >= 2) return stack_.push_back(given[1]), true;
    if (what != "storage" || given.size() < 5 || at(given[4]).kind != Kind::kNumber ||
        at(given[1]).kind != Kind::kGlobal)
      return false;
    const std::int64_t elements = at(given[4]).number;
    if (elements < 0 || elements > (1LL << 56) || storage_type(at(given[1]).text) == nullptr)
      return false;
    push({Kind::kStorage, elements, at(given[2]).text, {given[1]}});
    return storages_.push_back(stack_.back()), true;
  }

  Cursor& cursor_;
  std::vector<Value> values_;
  std::vector<Index> stack_, storages_;
  std::unordered_map<std::uint64_t, Index> memo_;
  std::uint64_t text_bytes_ = 0;
  std::size_t work_ = 0;  // items copied
};

/// Finds the tensors below a value, with their names.
class Collector {
 public:
  explicit Collector(const Machine& machine) : machine_(machine) {}

  bool collect(Index index, const std::string& path, int depth) {
    const Value& value = machine_.at(index);
    if (value.kind == Kind::kTensor) return add(value, path);
    if (value.items.empty() || depth > kMostDepth || !seen_.insert(index).second) return true;
    if (value.kind == Kind::kDict) return entries(value, path, depth);
    if (value.kind == Kind::kObject) {
      for (std::size_t i = 1; i < value.items.size(); ++i)
        if (!collect(value.items[i], path, depth + 1)) return false;
      return true;
    }
    if (value.kind != Kind::kList) return true;
    for (std::size_t i = 0; i < value.items.size(); ++i)
      if (!collect(value.items[i], below(path, std::to_string(i)), depth + 1)) return false;
    return true;
  }

  std::vector<Tensor> tensors;

 private:
  static std::string below(const std::string& path, const std::string& name) {
    // The members in which torch.nn.Module keeps what it consists of.
    if (name == "_parameters" || name == "_buffers" || name == "_modules") return path;
    return path.empty() ? name : path + "." + name;
  }

  bool entries(const Value& dict, const std::string& path, int depth) {
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const Value& key = machine_.at(dict.items[i]);
      const std::string name =
          key.kind == Kind::kNumber ? std::to_string(key.number) : key.text.substr(0, 1000);
      if (name.find("optim") != std::string::npos && path.empty()) continue;
      if (path.size() > kMostName) return false;
      if (!collect(dict.items[i + 1], below(path, name), depth + 1)) return false;
    }
    return true;
  }

  bool add(const Value& value, const std::string& path) {
    const Value& storage = machine_.at(value.items[0]);
    const StorageType& type = *storage_type(machine_.at(storage.items[0]).text);
    Tensor out;
    out.name = path;
    out.type = type.type;
    double element = type.bytes;
    for (const TensorType& one : kTensorTypes)
      if (value.text.ends_with(" " + std::string(one.word)) ||
          value.text == "torch." + std::string(one.word))
        out.type = one.type, element = one.bytes;
    for (const Index index : machine_.at(value.items[1]).items) {
      const Value& size = machine_.at(index);
      if (size.kind != Kind::kNumber || size.number < 0) return false;
      out.shape.push_back(static_cast<std::uint64_t>(size.number));
    }
    const auto elements = elements_of(out.shape);
    if (!elements || out.shape.size() > kMostDimensions || tensors.size() >= kMostTensors)
      return false;
    out.elements = static_cast<double>(*elements);
    // A view of a storage that is already counted, such as a head that shares the embedding, takes
    // nothing more.
    if (stored_.insert(storage.text).second) {
      out.stored_bytes = static_cast<double>(storage.number) * type.bytes;
      // A view with stride 0 can have more elements than its storage.
      if (element * out.elements > out.stored_bytes) out.elements = out.stored_bytes / element;
    }
    tensors.push_back(std::move(out));
    return true;
  }

  const Machine& machine_;
  std::unordered_set<Index> seen_;
  std::unordered_set<std::string> stored_;
};

/// The state dict inside a checkpoint that has more, such as an epoch and an optimizer.
Index model_in(const Machine& machine) {
  const Value& top = machine.at(machine.result());
  if (top.kind != Kind::kDict) return machine.result();
  for (const std::string_view word : {"state_dict", "model_state_dict", "model", "module"})
    for (std::size_t i = 0; i + 1 < top.items.size(); i += 2) {
      const Kind kind = machine.at(top.items[i + 1]).kind;
      if (machine.at(top.items[i]).text == word && (kind == Kind::kDict || kind == Kind::kObject))
        return top.items[i + 1];
    }
  return machine.result();
}

}  // namespace

std::optional<Pickled> read_pickle(Cursor& cursor) {
  Machine machine(cursor);
  if (!machine.run()) return std::nullopt;
  Collector collector(machine);
  if (!collector.collect(model_in(machine), "", 0)) return std::nullopt;
  Pickled out{std::move(collector.tensors), {}, {}};
  std::unordered_map<std::string, std::uint64_t> seen;
  for (const Index index : machine.storages()) {
    const Value& storage = machine.at(index);
    const std::uint64_t bytes = static_cast<std::uint64_t>(storage.number) *
                                storage_type(machine.at(storage.items[0]).text)->bytes;
    const auto [found, is_new] = seen.try_emplace(storage.text, bytes);
    if (!is_new && found->second != bytes) return std::nullopt;
    if (is_new) out.storages.push_back({storage.text, bytes});
  }
  if (const Value& top = machine.at(machine.result()); top.kind == Kind::kNumber)
    out.number = top.number;
  return out;
}

}  // namespace berth::plan
