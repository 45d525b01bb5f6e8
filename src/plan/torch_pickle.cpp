#include "plan/torch_pickle.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "base/pickle.hpp"
#include "plan/readers.hpp"

namespace berth::plan {
namespace {

using Index = Pickle::Index;
using Kind = Pickle::Kind;
using Value = Pickle::Value;

constexpr int kMostDepth = 64;  // limit for modules that are nested inside modules

struct ElementType {
  std::string_view word, type;
  unsigned bytes;
};
constexpr std::array kStorageTypes{
    ElementType{"FloatStorage", "f32", 4},        ElementType{"HalfStorage", "f16", 2},
    ElementType{"BFloat16Storage", "bf16", 2},    ElementType{"DoubleStorage", "f64", 8},
    ElementType{"LongStorage", "i64", 8},         ElementType{"IntStorage", "i32", 4},
    ElementType{"ShortStorage", "i16", 2},        ElementType{"CharStorage", "i8", 1},
    ElementType{"ByteStorage", "u8", 1},          ElementType{"BoolStorage", "bool", 1},
    ElementType{"UntypedStorage", "u8", 1},       ElementType{"QInt8Storage", "i8", 1},
    ElementType{"QUInt8Storage", "u8", 1},        ElementType{"QInt32Storage", "i32", 4},
    ElementType{"ComplexFloatStorage", "c64", 8}, ElementType{"ComplexDoubleStorage", "c128", 16}};
/// Types that have no storage class in PyTorch, such as torch.float8_e4m3fn, whose storage is an
/// UntypedStorage.
constexpr std::array kTensorTypes{
    ElementType{"float32", "f32", 4},    ElementType{"float16", "f16", 2},
    ElementType{"bfloat16", "bf16", 2},  ElementType{"float8_e4m3fn", "f8", 1},
    ElementType{"float8_e5m2", "f8", 1}, ElementType{"uint16", "u16", 2},
    ElementType{"uint32", "u32", 4},     ElementType{"uint64", "u64", 8}};

/// The type named last in "module name" or "module.name".
template <typename Types>
const ElementType* type_in(const Types& types, std::string_view global) {
  const std::string_view word = global.substr(global.find_last_of(" .") + 1);
  const auto* const found =
      std::find_if(types.begin(), types.end(), [&](const auto& one) { return one.word == word; });
  return found == types.end() ? nullptr : found;
}

struct StorageValue {
  std::string_view key;
  const ElementType* type = nullptr;
  std::int64_t elements = 0;
};

/// ('storage', type, key, device, elements, …)
std::optional<StorageValue> storage_of(const Pickle& pickle, const Value& value) {
  if (value.kind != Kind::kPersistent) return std::nullopt;
  const std::vector<Index>& given = pickle.at(value.items[0]).items;
  if (given.size() < 5 || pickle.at(given[0]).text != "storage" ||
      pickle.at(given[1]).kind != Kind::kGlobal || pickle.at(given[4]).kind != Kind::kNumber)
    return std::nullopt;
  const StorageValue out{pickle.at(given[2]).text, type_in(kStorageTypes, pickle.at(given[1]).text),
                         pickle.at(given[4]).number};
  constexpr std::int64_t kMostElements = 1LL << 56;
  if (out.type == nullptr || out.elements < 0 || out.elements > kMostElements) return std::nullopt;
  return out;
}

/// Whether the value is the tuple ('module', class, …). PyTorch before 1.6 wrote classes in this
/// form.
bool is_class(const Pickle& pickle, const Value& value) {
  if (value.kind != Kind::kPersistent) return false;
  const std::vector<Index>& given = pickle.at(value.items[0]).items;
  return given.size() >= 2 && pickle.at(given[0]).text == "module";
}

/// The name of the function that made this object; "" if the value is not an object.
std::string_view callee_of(const Pickle& pickle, const Value& value) {
  return value.kind == Kind::kObject ? std::string_view(pickle.at(value.items[0]).text) : "";
}

/// The value itself, without the calls that only wrap it.
Index unwrapped(const Pickle& pickle, Index index) {
  for (int depth = 0; depth < kMostDepth; ++depth) {
    const std::string_view callee = callee_of(pickle, pickle.at(index));
    if (callee != "torch Size" && callee != "torch._utils _rebuild_parameter" &&
        callee != "torch._utils _rebuild_parameter_with_state")
      break;
    const std::vector<Index>& given = pickle.at(pickle.at(index).items[1]).items;
    if (given.empty()) break;
    index = given[0];
  }
  return index;
}

struct TensorValue {
  StorageValue storage;
  Index shape = 0;
  std::string_view type;  // type of the elements; "": the type of the storage
};

/// Reads a call of _rebuild_tensor_v2(storage, offset, shape, stride, …). A tensor on the meta
/// device has no storage.
std::optional<TensorValue> tensor_of(const Pickle& pickle, const Value& value) {
  const std::string_view callee = callee_of(pickle, value);
  if (!callee.starts_with("torch._utils _rebuild_tensor") &&
      callee != "torch._utils _rebuild_qtensor")
    return std::nullopt;
  const std::vector<Index>& given = pickle.at(value.items[1]).items;
  if (given.size() < 3) return std::nullopt;
  const auto storage = storage_of(pickle, pickle.at(given[0]));
  if (!storage) return std::nullopt;
  TensorValue out{*storage, unwrapped(pickle, given[2]), {}};
  if (callee.ends_with("_v3") && given.size() >= 7) out.type = pickle.at(given[6]).text;
  return out;
}

/// Finds the tensors below a value, with their names.
class Collector {
 public:
  explicit Collector(const Pickle& pickle) : pickle_(pickle) {}

  bool collect(Index wrapped, const std::string& path, int depth) {
    const Index index = unwrapped(pickle_, wrapped);
    const Value& value = pickle_.at(index);
    if (const auto tensor = tensor_of(pickle_, value)) return add(*tensor, path);
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
    // A torch.nn.Module keeps its parts in these three members, which are no part of a tensor's
    // name.
    if (name == "_parameters" || name == "_buffers" || name == "_modules") return path;
    return path.empty() ? name : path + "." + name;
  }

  bool entries(const Value& dict, const std::string& path, int depth) {
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const Value& key = pickle_.at(dict.items[i]);
      const std::string name =
          key.kind == Kind::kNumber ? std::to_string(key.number) : key.text.substr(0, 1000);
      if (name.find("optim") != std::string::npos && path.empty()) continue;
      if (path.size() > kMostName) return false;
      if (!collect(dict.items[i + 1], below(path, name), depth + 1)) return false;
    }
    return true;
  }

  bool add(const TensorValue& value, const std::string& path) {
    const ElementType* const own = type_in(kTensorTypes, value.type);
    const ElementType& type = own != nullptr ? *own : *value.storage.type;
    Tensor out;
    out.name = path;
    out.type = type.type;
    for (const Index index : pickle_.at(value.shape).items) {
      const Value& size = pickle_.at(index);
      if (size.kind != Kind::kNumber || size.number < 0) return false;
      out.shape.push_back(static_cast<std::uint64_t>(size.number));
    }
    const auto elements = elements_of(out.shape);
    if (!elements || out.shape.size() > kMostDimensions || tensors.size() >= kMostTensors)
      return false;
    out.elements = static_cast<double>(*elements);
    // Count the bytes of each storage once. Another tensor in the same storage, such as a head that
    // shares the embedding, takes no more space.
    if (stored_.insert(value.storage.key).second) {
      out.stored_bytes = static_cast<double>(value.storage.elements) * value.storage.type->bytes;
      // A view with stride 0 can have more elements than its storage.
      if (type.bytes * out.elements > out.stored_bytes)
        out.elements = out.stored_bytes / type.bytes;
    }
    tensors.push_back(std::move(out));
    return true;
  }

  const Pickle& pickle_;
  std::unordered_set<Index> seen_;
  std::unordered_set<std::string_view> stored_;
};

/// The state dict in a checkpoint that may also contain an epoch, an optimizer and others.
Index model_in(const Pickle& pickle) {
  const Value& top = pickle.root();
  if (top.kind != Kind::kDict) return pickle.root_index();
  for (const std::string_view word : {"state_dict", "model_state_dict", "model", "module"})
    for (std::size_t i = 0; i + 1 < top.items.size(); i += 2) {
      const Kind kind = pickle.at(top.items[i + 1]).kind;
      if (pickle.at(top.items[i]).text == word && (kind == Kind::kDict || kind == Kind::kObject))
        return top.items[i + 1];
    }
  return pickle.root_index();
}

}  // namespace

std::optional<TorchPickle> read_torch_pickle(Cursor& cursor) {
  const auto pickle = Pickle::read(cursor, Pickle::Contents::kAny);
  if (!pickle) return std::nullopt;
  Collector collector(*pickle);
  if (!collector.collect(model_in(*pickle), "", 0)) return std::nullopt;
  TorchPickle out{std::move(collector.tensors), {}, {}};
  std::unordered_map<std::string_view, std::uint64_t> seen;
  for (const Value& value : pickle->values()) {
    if (value.kind != Kind::kPersistent || is_class(*pickle, value)) continue;
    const auto storage = storage_of(*pickle, value);
    if (!storage) return std::nullopt;
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(storage->elements) * storage->type->bytes;
    const auto [found, is_new] = seen.try_emplace(storage->key, bytes);
    if (!is_new && found->second != bytes) return std::nullopt;
    if (is_new) out.storages.push_back({std::string(storage->key), bytes});
  }
  if (pickle->root().kind == Kind::kNumber) out.number = pickle->root().number;
  return out;
}

}  // namespace berth::plan
