// Computes how much GPU memory a model needs for each purpose, from the model's shape and the task.
// Pure.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

#include "plan/catalogue.hpp"

namespace berth::plan {

/// Memory of PyTorch's CUDA context with cuBLAS and cuDNN. Published values are 300 MB to 1.3 GB,
/// depending on GPU and CUDA version.
inline constexpr double kDriverContextBytes = 0.5 * 1024 * 1024 * 1024;

enum class Task { kInference, kTrain, kFinetune, kLora, kQlora };
/// kAmp has fp32 weights and computes in 16 bit. kInt8 and kNf4 are as in bitsandbytes; kInt4 is as
/// in GPTQ or AWQ.
enum class Precision { kFp32, kAmp, kBf16, kFp16, kInt8, kInt4, kNf4 };
/// Precision of the KV cache. kInt8 and kInt4 are q8_0 and q4_0 of llama.cpp, where 32 elements
/// share a scale.
enum class KvPrecision { kFp32, kFp16, kFp8, kInt8, kInt4 };
enum class Optimizer { kAdamW, kAdamW8bit, kSgdMomentum, kSgd };
/// A version of PyTorch. The temporary memory of its optimizers depends on the version
/// (memory.cpp).
struct TorchVersion {
  int major = 2, minor = 1;
  auto operator<=>(const TorchVersion&) const = default;
};

[[nodiscard]] std::optional<Task> task_of(std::string_view word);
[[nodiscard]] std::optional<Precision> precision_of(std::string_view word);
[[nodiscard]] std::optional<Optimizer> optimizer_of(std::string_view word);
[[nodiscard]] std::optional<KvPrecision> kv_precision_of(std::string_view word);
/// Parses "2.0", "2.0.1" or "2.0.1+cu118"; nullopt if the text is not a version.
[[nodiscard]] std::optional<TorchVersion> torch_version_of(std::string_view word);
[[nodiscard]] std::string_view name(Task task);
[[nodiscard]] std::string_view name(Precision precision);
[[nodiscard]] std::string_view name(Optimizer optimizer);
[[nodiscard]] std::string_view name(KvPrecision precision);

struct Work {
  Task task = Task::kInference;
  Precision precision = Precision::kBf16;
  Optimizer optimizer = Optimizer::kAdamW;
  double batch = 1, seq = 2048;
  double lora_rank = 16;
  bool checkpointing = false;
  bool on_images = false;         // a batch has images; `seq` is not used
  bool detects = false;           // the model is a detector of Detectron2
  bool as_stored = false;         // the weights have the types of the model file
  std::optional<KvPrecision> kv;  // absent: the precision of the computation
  TorchVersion torch;             // default: 2.1; later versions need the same memory
  // Number of GPUs that share one model. In inference, every layer is split among them. In
  // training, each GPU has a copy of the model; `zero` is the ZeRO stage: 1 shards the optimizer
  // state, 2 also the gradients, 3 also the weights.
  double gpus = 1;
  int zero = 0;
};

/// Bytes on each GPU at the peak.
struct Memory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, kv_cache = 0;
  double workspace = 0;  // temporary memory for kernels and for the optimizer's step
  // Free blocks that the allocator cannot use again. Only the fragmentation by a growing KV cache
  // is computed. In training, the margin of safe_bytes() covers it.
  double fragmentation = 0;
  double context = 0;       // memory of the driver itself, which frameworks do not count
  bool is_partial = false;  // activations, KV cache and workspace are not known

  [[nodiscard]] double allocated() const {
    return weights + gradients + optimizer + activations + kv_cache + workspace;
  }
  /// Bytes that the framework's allocator has reserved from the driver.
  [[nodiscard]] double reserved() const { return allocated() + fragmentation; }
  [[nodiscard]] double peak() const { return reserved() + context; }
};

[[nodiscard]] Memory memory_of(const Model& model, const Work& work);

/// The error of the estimate for published cases of this kind of task (docs/plan.md).
struct Accuracy {
  int cases;
  double median_percent, p95_percent;
  double safe_factor;  // in at least 95 % of the cases, the estimate times this was enough
};
/// 0 cases: none is published, and the safe factor is an assumption.
[[nodiscard]] Accuracy accuracy_of(const Work& work);
/// Bytes to reserve on each GPU: the estimated peak times the safety factor for this kind of task.
[[nodiscard]] double safe_bytes(const Memory& memory, const Work& work);

}  // namespace berth::plan
