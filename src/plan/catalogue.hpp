// The models and GPUs of data/model_zoo.toml and data/gpus.toml.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::plan {

/// The numbers of a model's architecture that determine its memory.
struct Model {
  std::string name;
  std::string
      shape_from;  // the model from which the shape was scaled; empty: this is its own shape
  double params = 0;
  double layers = 0, hidden = 0, kv_width = 0, intermediate = 0, vocab = 0;
  double experts_per_token = 1;
  bool gated = false;     // the MLP has a gate (SwiGLU, GeGLU)
  bool rms_norm = false;  // usual implementations compute RMSNorm in fp32
  bool tied = false;      // embedding and head share one matrix
  bool decoder = true;    // keeps a KV cache
  // Of a model file: its format, the type of most of its weights, and the bytes of all of them.
  std::string format, stored_type;
  double stored_bytes = 0;

  /// Whether the layers are known. Without them, only weights, gradients and optimizer are.
  [[nodiscard]] bool has_layers() const { return layers > 0 && hidden > 0; }
};

struct Gpu {
  std::string name;
  std::vector<std::string> other_names;  // other names for it, as NVML writes them
  double memory_bytes = 0;
  // Peak rates that the vendor publishes; absent if the catalogue has none.
  std::optional<double> fp16_flop_per_second;  // matrix units, dense
  std::optional<double> fp32_flop_per_second, fp64_flop_per_second, memory_bytes_per_second;
  std::optional<double> power_watts;
};

/// Finds a model by name. Ignores case, "nvidia", and an owner before a slash. The layers of some
/// are not known. Fails with kNotFound (E0970).
[[nodiscard]] Result<Model> find_model(std::string_view name);
/// A decoder with this number of parameters. Its shape is the nearest one in the catalogue, scaled.
[[nodiscard]] Model model_of_size(double params);
/// Parses a number of parameters: 7e9 for "7B"; also "350M", "6.7e9". Fails with kInvalidArgument
/// (E0973).
[[nodiscard]] Result<double> parse_params(std::string_view given);
/// Finds a GPU by name. Fails with kNotFound: E0972.
[[nodiscard]] Result<Gpu> find_gpu(std::string_view name);
/// The GPUs whose memory is known, smallest first.
[[nodiscard]] std::vector<Gpu> gpus();

}  // namespace berth::plan
