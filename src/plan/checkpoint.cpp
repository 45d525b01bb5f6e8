#include "plan/checkpoint.hpp"

#include <set>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "plan/readers.hpp"

namespace berth::plan {
namespace {

using Json = nlohmann::json;

std::string start_of(const FileBytes& file) {
  constexpr std::uint64_t kEnough = 16;
  Cursor cursor(file, 0, file.size);
  return cursor.bytes(std::min(cursor.left(), kEnough), kEnough);
}

Result<Checkpoint> read_part(const FileBytes& file) {
  const std::string start = start_of(file);
  if (start.starts_with("GGUF")) return read_gguf(file);
  if (start.starts_with("PK\x03\x04")) return read_torch_zip(file);
  if (start.starts_with("\x80") && start.size() > 2 && start[1] >= 2 && start[1] <= 5 &&
      !(start.size() > 8 && start[8] == '{'))
    return read_torch_legacy(file);
  if (start.size() > 8 && start[8] == '{') return read_safetensors(file);
  // protobuf has no magic number. But the first field of an ONNX model is ir_version, which is
  // written as the byte 8.
  if (file.name.ends_with(".onnx") || start.starts_with("\x08")) return read_onnx(file);
  if (file.name.ends_with(".safetensors"))
    return damaged(file, start.size() > 8 ? text("its header is not JSON")
                                          : text("its header is longer than the file"));
  return Error{
      ErrorCode::kInvalidArgument, "E1040",
      text("{} is not a model file that Berth can read: safetensors, GGUF, ONNX, PyTorch, or a "
           "config.json",
           printable(file.name)),
      "berth plan fit Llama-3.1-8B\nberth help plan"};
}

/// The names of the parts in the index of a sharded model.
Result<std::set<std::string>> parts_in(const FileBytes& file, const Json& document) {
  std::set<std::string> parts;
  for (const auto& [tensor, part] : document.at("weight_map").items()) {
    if (!part.is_string() || !is_plain_name(part.get_ref<const std::string&>()))
      return damaged(file, text("it names a part that is not a file in the same folder"));
    parts.insert(part.get<std::string>());
  }
  if (parts.empty() || parts.size() > kMostShards)
    return damaged(file, text("it names no parts, or too many"));
  return parts;
}

Result<Checkpoint> read_index(const FileBytes& file) {
  if (file.size > kMostHeader) return too_large(file);
  Cursor cursor(file, 0, file.size);
  const Json document = Json::parse(cursor.bytes(file.size, kMostHeader), nullptr, false);
  if (!json_member(document, "weight_map").is_object())
    return Error{
        ErrorCode::kInvalidArgument, "E1040",
        text("{} is neither a config.json nor the index of a sharded model", printable(file.name)),
        "berth help plan"};
  const auto parts = parts_in(file, document);
  if (!parts) return parts.error();
  Checkpoint out;
  out.files = 0;
  for (const std::string& name : *parts) {
    const auto part = file.beside(name);
    if (!part) return part.error();
    auto read = read_part(*part);
    if (!read) return read;
    out.format = read->format;
    add_part(out, *std::move(read));
  }
  return out;
}

}  // namespace

Error damaged(const FileBytes& file, std::string_view what) {
  return Error{ErrorCode::kInvalidArgument, "E1041",
               text("{} is damaged: {}", printable(file.name), what),
               "ls -l " + printable(file.name)};
}

Error too_large(const FileBytes& file) {
  return Error{ErrorCode::kRefused, "E1043",
               text("{}: its header is larger than any model's header", printable(file.name)),
               "ls -l " + printable(file.name)};
}

std::optional<std::uint64_t> elements_of(const std::vector<std::uint64_t>& shape) {
  // With at most 128 bits per element, the size in bits still fits into 64 bits.
  constexpr std::uint64_t kMost = 1ULL << 56U;
  std::uint64_t product = 1;
  for (const std::uint64_t size : shape) {
    if (size != 0 && product > kMost / size) return std::nullopt;
    product *= size;
  }
  return product;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() < 256 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

void add_part(Checkpoint& into, Checkpoint&& part) {
  for (Tensor& tensor : part.tensors) into.tensors.push_back(std::move(tensor));
  into.numbers.merge(part.numbers);
  ++into.files;
}

Result<Checkpoint> read_checkpoint(const FileBytes& file) {
  const std::string start = start_of(file);
  return !start.empty() && start[0] == '{' ? read_index(file) : read_part(file);
}

Result<Model> model_in_file(const FileBytes& file) {
  const std::string start = start_of(file);
  if (!start.empty() && start[0] == '{' && file.size <= kMostHeader) {
    Cursor cursor(file, 0, file.size);
    const std::string document = cursor.bytes(file.size, kMostHeader);
    if (is_config(document)) return model_of_config(document, file.name);
  }
  auto checkpoint = read_checkpoint(file);
  if (!checkpoint) return checkpoint.error();
  // The tensors do not show how many experts are used per token. transformers' config.json in the
  // same folder does.
  constexpr std::string_view kUsed = "expert_used_count";
  if (const auto config = file.beside("config.json"); config && config->size <= kMostHeader) {
    Cursor cursor(*config, 0, config->size);
    if (const auto shape = model_of_config(cursor.bytes(config->size, kMostHeader), config->name))
      checkpoint->numbers.try_emplace(std::string("config.") + std::string(kUsed),
                                      shape->experts_per_token);
  }
  auto model = model_of(*checkpoint);
  if (model) model->name = file.name;
  return model;
}

}  // namespace berth::plan
