// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Metadata, then the shape
// of each tensor, then the tensors. Little-endian files of version 2 and 3.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "plan/readers.hpp"

namespace berth::plan {
namespace {

/// A type of ggml: a block of `elements` elements takes `bytes` bytes.
struct Type {
  std::uint32_t id;
  std::string_view name;
  unsigned elements, bytes;
};
constexpr std::array kTypes{
    Type{0, "f32", 1, 4},         Type{1, "f16", 1, 2},         Type{2, "q4_0", 32, 18},
    Type{3, "q4_1", 32, 20},      Type{6, "q5_0", 32, 22},      Type{7, "q5_1", 32, 24},
    Type{8, "q8_0", 32, 34},      Type{9, "q8_1", 32, 36},      Type{10, "q2_k", 256, 84},
    Type{11, "q3_k", 256, 110},   Type{12, "q4_k", 256, 144},   Type{13, "q5_k", 256, 176},
    Type{14, "q6_k", 256, 210},   Type{15, "q8_k", 256, 292},   Type{16, "iq2_xxs", 256, 66},
    Type{17, "iq2_xs", 256, 74},  Type{18, "iq3_xxs", 256, 98}, Type{19, "iq1_s", 256, 50},
    Type{20, "iq4_nl", 32, 18},   Type{21, "iq3_s", 256, 110},  Type{22, "iq2_s", 256, 82},
    Type{23, "iq4_xs", 256, 136}, Type{24, "i8", 1, 1},         Type{25, "i16", 1, 2},
    Type{26, "i32", 1, 4},        Type{27, "i64", 1, 8},        Type{28, "f64", 1, 8},
    Type{29, "iq1_m", 256, 56},   Type{30, "bf16", 1, 2},       Type{34, "tq1_0", 256, 54},
    Type{35, "tq2_0", 256, 66},   Type{39, "mxfp4", 32, 17},    Type{40, "nvfp4", 64, 36}};

constexpr std::uint64_t kString = 8, kArray = 9;
constexpr std::size_t kMostValues = 100'000;  // limit for the number of metadata values

/// Size of a metadata value of this type in bytes; 0 if it has no fixed size (strings, arrays) or
/// the type is unknown.
std::size_t size_of(std::uint64_t type) {
  constexpr std::array<std::size_t, 13> kSizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < kSizes.size() ? kSizes[type] : 0;
}

/// Skips a value. Refuses an array of arrays, which no known program writes.
void skip_value(Cursor& cursor, std::uint64_t type) {
  if (type == kString) return cursor.skip(cursor.number(8));
  if (type != kArray) {
    const std::size_t size = size_of(type);
    return size == 0 ? cursor.fail() : cursor.skip(size);
  }
  const std::uint64_t element = cursor.number(4), count = cursor.number(8);
  if (element == kString) {
    for (std::uint64_t i = 0; i < count && cursor.ok(); ++i) cursor.skip(cursor.number(8));
    return;
  }
  const std::size_t size = size_of(element);
  if (size == 0 || count > cursor.left() / size) return cursor.fail();
  cursor.skip(count * size);
}

/// The value, if it is a whole number that is not negative.
std::optional<double> whole_value(Cursor& cursor, std::uint64_t type) {
  constexpr std::uint64_t kFloat = 6, kDouble = 12;
  const std::size_t size = size_of(type);
  if (size == 0 || type == kFloat || type == kDouble) {
    skip_value(cursor, type);
    return std::nullopt;
  }
  return static_cast<double>(cursor.number(size));
}

std::optional<Tensor> read_tensor(Cursor& cursor, std::uint64_t& offset, std::uint64_t& bytes) {
  Tensor out;
  out.name = cursor.bytes(cursor.number(8), kMostName);
  const std::uint64_t dimensions = cursor.number(4);
  if (dimensions > 4) return std::nullopt;
  // ggml writes the fastest dimension first; PyTorch writes it last.
  for (std::uint64_t i = 0; i < dimensions; ++i)
    out.shape.insert(out.shape.begin(), cursor.number(8));
  const auto id = cursor.number(4);
  offset = cursor.number(8);
  const auto* const type =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& one) { return one.id == id; });
  const auto elements = elements_of(out.shape);
  if (!cursor.ok() || type == kTypes.end() || !elements) return std::nullopt;
  const std::uint64_t row = out.shape.empty() ? 1 : out.shape.back();
  if (row % type->elements != 0 || *elements / type->elements > (1ULL << 50U)) return std::nullopt;
  out.type = type->name;
  out.elements = static_cast<double>(*elements);
  bytes = *elements / type->elements * type->bytes;
  out.stored_bytes = static_cast<double>(bytes);
  return out;
}

struct Extent {
  std::uint64_t begin, bytes;
};

bool is_apart(std::vector<Extent> extents, std::uint64_t size) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::uint64_t end = 0;
  for (const Extent& one : extents) {
    if (one.begin < end || one.begin > size || one.bytes > size - one.begin) return false;
    end = one.begin + one.bytes;
  }
  return true;
}

Result<Checkpoint> read_one(const FileBytes& file) {
  Cursor cursor(file, 4, std::min(file.size, kMostWalked));
  const std::uint64_t version = cursor.number(4);
  if (version != 2 && version != 3)
    return damaged(file,
                   text("it has GGUF version {}, but Berth reads only versions 2 and 3", version));
  const std::uint64_t tensors = cursor.number(8), values = cursor.number(8);
  if (tensors > kMostTensors || values > kMostValues) return too_large(file);
  Checkpoint out{"GGUF", {}, {}, 1};
  std::uint64_t alignment = 32;
  for (std::uint64_t i = 0; i < values && cursor.ok(); ++i) {
    const std::string key = cursor.bytes(cursor.number(8), kMostName);
    const auto value = whole_value(cursor, cursor.number(4));
    if (!value || !cursor.ok()) continue;
    out.numbers[key] = *value;
    if (key == "general.alignment" && *value >= 1 && *value <= 1 << 20)
      alignment = static_cast<std::uint64_t>(*value);
  }
  std::vector<Extent> extents;
  for (std::uint64_t i = 0; i < tensors && cursor.ok(); ++i) {
    Extent extent{0, 0};
    auto tensor = read_tensor(cursor, extent.begin, extent.bytes);
    if (!tensor) {
      if (cursor.ok())
        return damaged(file, text("a tensor has an unknown type, or an impossible shape"));
      break;
    }
    extents.push_back(extent);
    out.tensors.push_back(*std::move(tensor));
  }
  if (!cursor.ok())
    return file.size > kMostWalked ? too_large(file)
                                   : damaged(file, text("the file ends inside its header"));
  const std::uint64_t data = (cursor.at() + alignment - 1) / alignment * alignment;
  if (!extents.empty() && (data > file.size || !is_apart(std::move(extents), file.size - data)))
    return damaged(file, text("its tensors overlap or lie beyond its end"));
  return out;
}

}  // namespace

Result<Checkpoint> read_gguf(const FileBytes& file) {
  auto first = read_one(file);
  if (!first) return first;
  const auto count = first->numbers.find("split.count");
  if (count == first->numbers.end() || count->second < 2) return first;
  // The parts are named NAME-00001-of-00003.gguf.
  const std::string end = fmt::format("-of-{:05}.gguf", static_cast<int>(count->second));
  const std::size_t digits = std::string_view("-00001").size();
  if (count->second > static_cast<double>(kMostShards) || !file.name.ends_with(end) ||
      file.name.size() < end.size() + digits)
    return damaged(
        file, text("it is one of {} parts, but its name has no part number such as -00001-of-00003",
                   count->second));
  const std::string stem = file.name.substr(0, file.name.size() - end.size() - digits);
  const auto own = first->numbers.find("split.no");
  for (int i = 0; i < static_cast<int>(count->second); ++i) {
    if (own != first->numbers.end() && own->second == i) continue;
    const auto other = file.beside(fmt::format("{}-{:05}{}", stem, i + 1, end));
    if (!other) return other.error();
    auto part = read_one(*other);
    if (!part) return part;
    add_part(*first, *std::move(part));
  }
  return first;
}

}  // namespace berth::plan
