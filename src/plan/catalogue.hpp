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
  // For a convolutional network and one image: the numbers that its layers keep for the backward
  // pass, and the numbers in the input and the output of its largest layer.
  double kept_per_image = 0, largest_per_image = 0;
  // For a detector: numbers that the backward pass of its largest layer needs at the same time, for
  // each image and in all; and parameters that are not trained.
  double workspace_per_image = 0, workspace = 0, frozen_params = 0;
  std::string image_size;  // "224 × 224"
  // For a model file: its format, the type of most of its weights, and the bytes of all of them.
  std::string format, stored_type;
  double stored_bytes = 0;

  /// Whether the layers are known. If not, only the memory of weights, gradients and optimizer is
  /// known.
  [[nodiscard]] bool has_layers() const { return layers > 0 && hidden > 0; }
  [[nodiscard]] bool is_of_images() const { return kept_per_image > 0; }
  [[nodiscard]] bool is_detector() const { return workspace_per_image > 0; }
};

struct Gpu {
  std::string name;
  std::vector<std::string> other_names;    // as NVML, shops and guides write it
  std::vector<std::string> pci_ids;        // "10de:2684"; several GPUs may share one
  std::vector<std::string> subsystem_ids;  // subsystem ids of a shared PCI id
  double memory_bytes = 0;
  // Peak rates that the vendor publishes; absent if the catalogue has none.
  std::optional<double> fp16_flop_per_second;  // matrix units, dense
  std::optional<double> fp32_flop_per_second, tf32_flop_per_second, fp64_flop_per_second;
  std::optional<double> memory_bytes_per_second;
  std::optional<double> nvlink_bytes_per_second;  // of all links, in one direction
  std::optional<double> power_watts;              // a laptop's GPU: the most that a laptop allows
  std::optional<double> least_power_watts;  // of a laptop's GPU: the least that a laptop allows
};

/// The command of the hint in an error about a GPU's name: the words around `--gpu NAME`.
struct GpuCommand {
  std::string before = "berth plan fit Llama-3.1-8B", after = {};
};

/// What a machine knows of its GPU. Empty or absent: not known.
struct GpuIds {
  std::string pci_id, subsystem_id;  // "10de:25b6", "10de:157e"
  std::optional<double> memory_bytes;
};

/// Finds a model by name. Ignores case, "nvidia", and an owner before a slash. For some models, the
/// layers are unknown. Fails with kNotFound (E0970).
[[nodiscard]] Result<Model> find_model(std::string_view name);
/// A decoder with this number of parameters. Its shape is the nearest one in the catalogue, scaled.
[[nodiscard]] Model model_of_size(double params);
/// The model with only this number of layers, each of the mean size. A model from model_of_size()
/// keeps its number of parameters instead, and its width changes.
[[nodiscard]] Model with_layers(Model model, double layers);
/// Parses a number of parameters: 7e9 for "7B"; also "350M", "6.7e9". Fails with kInvalidArgument
/// (E0973).
[[nodiscard]] Result<double> parse_params(std::string_view given);
/// Finds a GPU by any of its names, by some words of a name, or by its PCI id. If several GPUs
/// share the id, the subsystem's id or the memory follows it: "10de:25b6:10de:157e", "10de:2d04
/// 16GB". Fails with kNotFound: E0972, which names the GPUs that match if there are several.
[[nodiscard]] Result<Gpu> find_gpu(std::string_view name, const GpuCommand& command = {});
/// Finds a GPU by its PCI id, and the subsystem or memory if several share it. Fails like
/// find_gpu().
[[nodiscard]] Result<Gpu> find_gpu(const GpuIds& ids, const GpuCommand& command = {});
/// The GPUs whose memory is known, smallest first.
[[nodiscard]] std::vector<Gpu> gpus();

}  // namespace berth::plan
