// The tensors of a model file: safetensors, GGUF, ONNX and PyTorch. Only headers are read, never
// the weights. A pickle is parsed but never executed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/file_bytes.hpp"
#include "base/result.hpp"
#include "plan/catalogue.hpp"

namespace berth::plan {

struct Tensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::string type;         // in lower case: "bf16", "f32", "q4_k"
  double elements = 0;      // the product of `shape`
  double stored_bytes = 0;  // 0 if it shares its storage with an earlier tensor
};

struct Checkpoint {
  std::string format;  // "safetensors", "GGUF", "ONNX", "PyTorch", "config.json"
  std::vector<Tensor> tensors;
  // Values of GGUF's metadata that are numbers, by key.
  std::map<std::string, double, std::less<>> numbers;
  int files = 1;
};

/// Reads the header of a model file. If the model is sharded, also reads the headers of its other
/// parts. Fails with kInvalidArgument (E1040: not a model file; E1041: damaged, or with impossible
/// values; E1042: a part is missing) or kRefused (E1043: the header is too large).
[[nodiscard]] Result<Checkpoint> read_checkpoint(const FileBytes& file);

/// The architecture, from the names and shapes of the tensors. Model::layers is 0 if the number of
/// layers cannot be found. Fails with kInvalidArgument (E1044) if no tensor contains weights.
[[nodiscard]] Result<Model> model_of(const Checkpoint& checkpoint);
/// The architecture from a transformers config.json. Fails with kInvalidArgument (E1041 or E1044).
[[nodiscard]] Result<Model> model_of_config(std::string_view document, std::string_view name);
/// Whether the document is a config.json, and not the index of a sharded checkpoint.
[[nodiscard]] bool is_config(std::string_view document);

/// Reads the model in a file: with model_of_config() if it is a config.json. If not: with
/// read_checkpoint() and model_of().
[[nodiscard]] Result<Model> model_in_file(const FileBytes& file);

}  // namespace berth::plan
