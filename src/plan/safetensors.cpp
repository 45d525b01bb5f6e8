// The format: https://github.com/huggingface/safetensors. Eight bytes with the length of the
// header, the header as JSON, then the tensors without gaps.
#include <algorithm>
#include <array>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "plan/readers.hpp"

namespace berth::plan {
namespace {

using Json = nlohmann::json;

struct Type {
  std::string_view word, name;
  unsigned bits;
};
constexpr std::array kTypes{
    Type{"BOOL", "bool", 8},      Type{"F4", "f4", 4},      Type{"F6_E2M3", "f6", 6},
    Type{"F6_E3M2", "f6", 6},     Type{"U8", "u8", 8},      Type{"I8", "i8", 8},
    Type{"F8_E5M2", "f8", 8},     Type{"F8_E4M3", "f8", 8}, Type{"F8_E5M2FNUZ", "f8", 8},
    Type{"F8_E4M3FNUZ", "f8", 8}, Type{"F8_E8M0", "f8", 8}, Type{"I16", "i16", 16},
    Type{"U16", "u16", 16},       Type{"F16", "f16", 16},   Type{"BF16", "bf16", 16},
    Type{"I32", "i32", 32},       Type{"U32", "u32", 32},   Type{"F32", "f32", 32},
    Type{"C64", "c64", 64},       Type{"F64", "f64", 64},   Type{"I64", "i64", 64},
    Type{"U64", "u64", 64}};

struct Placed {
  Tensor tensor;
  std::uint64_t begin = 0, end = 0;
};

std::optional<Placed> placed(const std::string& name, const Json& row) {
  Placed out;
  out.tensor.name = name;
  const std::string word = json_text(row, "dtype");
  const auto* const type =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& one) { return one.word == word; });
  if (type == kTypes.end()) return std::nullopt;
  out.tensor.type = type->name;
  std::vector<std::uint64_t> offsets;
  try {
    read_json(row.at("shape"), out.tensor.shape);
    read_json(row.at("data_offsets"), offsets);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  const auto elements = elements_of(out.tensor.shape);
  if (!elements || out.tensor.shape.size() > kMostDimensions || offsets.size() != 2 ||
      offsets[1] < offsets[0])
    return std::nullopt;
  out.begin = offsets[0], out.end = offsets[1];
  const std::uint64_t bits = *elements * type->bits;
  if (bits / 8 + (bits % 8 != 0 ? 1 : 0) != out.end - out.begin) return std::nullopt;
  out.tensor.elements = static_cast<double>(*elements);
  out.tensor.stored_bytes = static_cast<double>(out.end - out.begin);
  return out;
}

}  // namespace

Result<Checkpoint> read_safetensors(const FileBytes& file) {
  Cursor cursor(file, 0, file.size);
  const std::uint64_t length = cursor.number(8);
  if (!cursor.ok() || length > cursor.left())
    return damaged(file, text("its header is longer than the file"));
  if (length > kMostHeader) return too_large(file);
  const std::string header = cursor.bytes(length, kMostHeader);
  if (!cursor.ok()) return damaged(file, text("its header cannot be read"));
  const Json document = Json::parse(header, nullptr, false);
  if (!document.is_object()) return damaged(file, text("its header is not JSON"));
  if (document.size() > kMostTensors) return too_large(file);
  std::vector<Placed> all;
  for (const auto& [name, row] : document.items()) {
    if (name == "__metadata__") continue;
    auto one = placed(name, row);
    if (!one)
      return damaged(file, text("tensor '{}' has an unknown type, or a shape that does not match "
                                "its bytes",
                                printable(name.substr(0, 100))));
    all.push_back(*std::move(one));
  }
  std::sort(all.begin(), all.end(), [](const Placed& a, const Placed& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t end = 0;
  Checkpoint out{"safetensors", {}, {}, 1};
  for (Placed& one : all) {
    if (one.begin != end) return damaged(file, text("its tensors overlap or leave gaps"));
    end = one.end;
    out.tensors.push_back(std::move(one.tensor));
  }
  if (end > cursor.left()) return damaged(file, text("it ends before its last tensor"));
  if (end < cursor.left()) return damaged(file, text("it has extra bytes after its last tensor"));
  return out;
}

}  // namespace berth::plan
