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
  // name of the catalogue's model whose shape was scaled for this model; empty: not scaled
  std::string shape_from;
  double params = 0;
  double layers = 0, hidden = 0, kv_width = 0, intermediate = 0, vocab = 0;
  double experts_per_token = 1;
  bool gated = false;     // the MLP has a gate (SwiGLU, GeGLU)
  bool rms_norm = false;  // has RMSNorm, which usual implementations compute in fp32
  bool tied = false;      // embedding and head share one matrix
  bool decoder = true;    // keeps a KV cache
  // For convolutional networks, two counts of values per image: the values that all layers keep for
  // the backward pass, and the values in the largest layer's input and output.
  double kept_per_image = 0, largest_per_image = 0;
  // For detectors: how many values the backward pass of the largest layer holds at the same time,
  // first per image, then in addition for the whole batch. The third number counts parameters that
  // are not trained.
  double workspace_per_image = 0, workspace = 0, frozen_params = 0;
  std::string image_size;  // the usual size, such as "224 × 224"
  // For model files: the format, the type of most weights, and the size of all weights in bytes.
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
  std::vector<std::string> other_names;  // other names that NVML, shops and guides use
  std::vector<std::string> pci_ids;      // "10de:2684"; several GPUs may share one
  // subsystem ids, which tell apart GPUs that share a PCI id
  std::vector<std::string> subsystem_ids;
  double memory_bytes = 0;
  // Peak rates that the vendor publishes; absent if the catalogue has none.
  std::optional<double> fp16_flop_per_second;  // matrix units, dense
  std::optional<double> fp32_flop_per_second, tf32_flop_per_second, fp64_flop_per_second;
  std::optional<double> memory_bytes_per_second;
  std::optional<double> nvlink_bytes_per_second;  // sum of all links, in one direction
  // for a laptop's GPU: the highest limit that laptop makers set
  std::optional<double> power_watts;
  // for a laptop's GPU: the lowest limit that laptop makers set
  std::optional<double> least_power_watts;
};

/// An error about a GPU's name suggests a command. These are its parts before and after
/// `--gpu NAME`.
struct GpuCommand {
  std::string before = "berth plan fit Llama-3.1-8B", after = {};
};

/// What is known about the GPU of a machine. An empty string or nullopt means not known.
struct GpuIds {
  std::string pci_id, subsystem_id;  // "10de:25b6", "10de:157e"
  std::optional<double> memory_bytes;
};

/// Finds a model by name. Ignores case, "nvidia", and an owner before a slash. For some models, the
/// layers are unknown. Fails with kNotFound (E0970).
[[nodiscard]] Result<Model> find_model(std::string_view name);
/// A decoder with this number of parameters. Its shape is the nearest one in the catalogue, scaled.
[[nodiscard]] Model model_of_size(double params);
/// The model with this number of layers, each of the mean size. A model from model_of_size()
/// becomes narrower or wider instead, so that its number of parameters stays the same.
[[nodiscard]] Model with_layers(Model model, double layers);
/// Parses a number of parameters: 7e9 for "7B"; also "350M", "6.7e9". Fails with kInvalidArgument
/// (E0973).
[[nodiscard]] Result<double> parse_params(std::string_view given);
/// Finds a GPU by one of its names, by some words of a name, or by its PCI id. If several GPUs
/// share the PCI id, the subsystem id or the memory can be added: "10de:25b6:10de:157e", "10de:2d04
/// 16GB". Fails with kNotFound: E0972, which names the GPUs that match if there are several.
[[nodiscard]] Result<Gpu> find_gpu(std::string_view name, const GpuCommand& command = {});
/// Finds a GPU by its PCI id. If several GPUs share the id, also uses the subsystem id or the
/// memory. Fails with the errors of find_gpu().
[[nodiscard]] Result<Gpu> find_gpu(const GpuIds& ids, const GpuCommand& command = {});
/// The GPUs whose memory is known, smallest first.
[[nodiscard]] std::vector<Gpu> gpus();

}  // namespace berth::plan
