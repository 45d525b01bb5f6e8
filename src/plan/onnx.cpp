// The format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, a message of protobuf. Only
// the shapes of initializers and constants are read.
#include <array>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "plan/readers.hpp"

namespace berth::plan {
namespace {

struct Type {
  std::string_view name;
  unsigned bits;
};
/// Names and sizes of types, by TensorProto.DataType. 0 bits means a string or an undefined type.
constexpr std::array<Type, 25> kTypes{{
    {"", 0},     {"f32", 32},   {"u8", 8},    {"i8", 8},   {"u16", 16}, {"i16", 16}, {"i32", 32},
    {"i64", 64}, {"", 0},       {"bool", 8},  {"f16", 16}, {"f64", 64}, {"u32", 32}, {"u64", 64},
    {"c64", 64}, {"c128", 128}, {"bf16", 16}, {"f8", 8},   {"f8", 8},   {"f8", 8},   {"f8", 8},
    {"u4", 4},   {"i4", 4},     {"f4", 4},    {"f8", 8},
}};
constexpr int kMostDepth = 8;  // limit for graphs that are nested inside nodes
constexpr std::uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

std::uint64_t varint(Cursor& cursor) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint8_t one = cursor.byte();
    value |= std::uint64_t{one & 0x7FU} << shift;
    if ((one & 0x80U) == 0) return value;
  }
  cursor.fail();
  return 0;
}

struct Field {
  std::uint64_t number = 0, type = 0, value = 0;  // kBytes: `value` is the length
};

Field next_field(Cursor& cursor) {
  const std::uint64_t key = varint(cursor);
  Field field{key >> 3U, key & 7U, 0};
  if (field.type == kVarint || field.type == kBytes)
    field.value = varint(cursor);
  else if (field.type == kFixed64 || field.type == kFixed32)
    cursor.skip(field.type == kFixed64 ? 8 : 4);
  else
    cursor.fail();
  if (field.number == 0 || (field.type == kBytes && field.value > cursor.left())) cursor.fail();
  return field;
}

class Reader {
 public:
  explicit Reader(Checkpoint& into) : into_(into) {}

  bool model(Cursor& cursor) {
    constexpr std::uint64_t kGraph = 7;
    bool has_graph = false;
    while (cursor.left() > 0) {
      const Field field = next_field(cursor);
      if (!cursor.ok()) return false;
      if (field.number == kGraph && field.type == kBytes) {
        has_graph = true;
        if (!graph(cursor.part(field.value), 0)) return false;
      }
      if (field.type == kBytes) cursor.skip(field.value);
    }
    return cursor.ok() && has_graph;
  }

 private:
  bool graph(Cursor cursor, int depth) {
    constexpr std::uint64_t kNode = 1, kInitializer = 5;
    if (depth > kMostDepth) return false;
    while (cursor.left() > 0) {
      const Field field = next_field(cursor);
      if (!cursor.ok()) return false;
      if (field.type != kBytes) continue;
      if (field.number == kInitializer && !tensor(cursor.part(field.value))) return false;
      if (field.number == kNode && !attributes(cursor.part(field.value), depth)) return false;
      cursor.skip(field.value);
    }
    return cursor.ok();
  }

  /// Reads the attributes of a node, which can contain tensors and further graphs.
  bool attributes(Cursor cursor, int depth) {
    constexpr std::uint64_t kAttribute = 5;
    while (cursor.left() > 0) {
      const Field field = next_field(cursor);
      if (!cursor.ok()) return false;
      if (field.type != kBytes) continue;
      if (field.number == kAttribute && !attribute(cursor.part(field.value), depth)) return false;
      cursor.skip(field.value);
    }
    return cursor.ok();
  }

  bool attribute(Cursor cursor, int depth) {
    constexpr std::uint64_t kTensor = 5, kGraph = 6, kGraphs = 11;
    while (cursor.left() > 0) {
      const Field field = next_field(cursor);
      if (!cursor.ok()) return false;
      if (field.type != kBytes) continue;
      if (field.number == kTensor && !tensor(cursor.part(field.value))) return false;
      if ((field.number == kGraph || field.number == kGraphs) &&
          !graph(cursor.part(field.value), depth + 1))
        return false;
      cursor.skip(field.value);
    }
    return cursor.ok();
  }

  static bool dimension(Tensor& tensor, std::uint64_t value) {
    // The field is an int64. A negative dimension is above 2^63 here, so it is rejected too.
    if (value > (1ULL << 60U) || tensor.shape.size() >= kMostDimensions) return false;
    tensor.shape.push_back(value);
    return true;
  }

  bool dimensions(Cursor cursor, Tensor& tensor) {
    while (cursor.left() > 0)
      if (!dimension(tensor, varint(cursor))) return false;
    return cursor.ok();
  }

  bool tensor(Cursor cursor) {
    constexpr std::uint64_t kDims = 1, kDataType = 2, kName = 8, kRaw = 9;
    Tensor out;
    std::uint64_t type = 0;
    std::optional<std::uint64_t> raw;
    while (cursor.left() > 0) {
      const Field field = next_field(cursor);
      if (!cursor.ok()) return false;
      if (field.number == kDims && field.type == kVarint && !dimension(out, field.value))
        return false;
      if (field.number == kDataType && field.type == kVarint) type = field.value;
      if (field.type != kBytes) continue;
      if (field.number == kDims && !dimensions(cursor.part(field.value), out)) return false;
      if (field.number == kName) out.name = cursor.part(field.value).bytes(field.value, kMostName);
      if (field.number == kRaw) raw = field.value;
      cursor.skip(field.value);
    }
    const auto elements = elements_of(out.shape);
    if (!cursor.ok() || !elements || type >= kTypes.size()) return false;
    const unsigned bits = kTypes[type].bits;
    if (bits == 0) return true;  // strings are not weights
    const std::uint64_t bytes = (*elements * bits + 7) / 8;
    if (raw && *raw != bytes) return false;
    if (into_.tensors.size() >= kMostTensors) return false;
    out.type = kTypes[type].name;
    out.elements = static_cast<double>(*elements);
    out.stored_bytes = static_cast<double>(bytes);
    into_.tensors.push_back(std::move(out));
    return true;
  }

  Checkpoint& into_;
};

}  // namespace

Result<Checkpoint> read_onnx(const FileBytes& file) {
  Checkpoint out{"ONNX", {}, {}, 1};
  Cursor cursor(file, 0, file.size);
  if (!Reader(out).model(cursor))
    return damaged(
        file,
        text("it is not a complete ONNX model, or a tensor's shape does not match its bytes"));
  return out;
}

}  // namespace berth::plan
