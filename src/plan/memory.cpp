#include "plan/memory.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

namespace berth::plan {
namespace {

template <typename T>
struct Word {
  std::string_view word;
  T value;
  double bytes = 0;  // bytes of an element of this precision
};
constexpr std::array kTasks{Word<Task>{"inference", Task::kInference},
                            Word<Task>{"train", Task::kTrain},
                            Word<Task>{"finetune", Task::kFinetune},
                            Word<Task>{"lora", Task::kLora}, Word<Task>{"qlora", Task::kQlora}};
// In nf4, 64 parameters share one fp32 scale. In int4, 128 share a 16-bit scale and zero point.
constexpr std::array kPrecisions{Word<Precision>{"fp32", Precision::kFp32, 4},
                                 Word<Precision>{"amp", Precision::kAmp, 4},
                                 Word<Precision>{"bf16", Precision::kBf16, 2},
                                 Word<Precision>{"fp16", Precision::kFp16, 2},
                                 Word<Precision>{"int8", Precision::kInt8, 1},
                                 Word<Precision>{"int4", Precision::kInt4, 0.53},
                                 Word<Precision>{"nf4", Precision::kNf4, 0.5 + 4.0 / 64}};
constexpr std::array kOptimizers{Word<Optimizer>{"adamw", Optimizer::kAdamW},
                                 Word<Optimizer>{"adamw-8bit", Optimizer::kAdamW8bit},
                                 Word<Optimizer>{"sgd-momentum", Optimizer::kSgdMomentum},
                                 Word<Optimizer>{"sgd", Optimizer::kSgd}};
// In the KV cache, 32 elements of int8 or int4 share a 16-bit scale.
constexpr std::array kKvPrecisions{Word<KvPrecision>{"fp32", KvPrecision::kFp32, 4},
                                   Word<KvPrecision>{"fp16", KvPrecision::kFp16, 2},
                                   Word<KvPrecision>{"bf16", KvPrecision::kFp16, 2},
                                   Word<KvPrecision>{"fp8", KvPrecision::kFp8, 1},
                                   Word<KvPrecision>{"int8", KvPrecision::kInt8, 34.0 / 32},
                                   Word<KvPrecision>{"int4", KvPrecision::kInt4, 18.0 / 32}};

template <typename Words>
auto find(const Words& words, std::string_view word) {
  using Value = decltype(words.front().value);
  for (const auto& one : words)
    if (one.word == word) return std::optional<Value>(one.value);
  return std::optional<Value>();
}
template <typename Words, typename T>
const auto& row_of(const Words& words, T value) {
  for (const auto& one : words)
    if (one.value == value) return one;
  return words.front();
}

/// Bytes per logit: 2 for the logit in 16 bit, 4 for its copy in fp32, 4 for its softmax, and 2 for
/// its gradient. If adapters on a GPTQ or AWQ model are trained, all four are in 16 bit and take 2
/// bytes, because autocast is not used.
double logit_bytes(Precision p) {
  return p == Precision::kInt4 ? 8 : 12;
}

bool is_quantized(Precision p) {
  return p == Precision::kInt8 || p == Precision::kInt4 || p == Precision::kNf4;
}

bool keeps_fp32(Precision p) {
  return p == Precision::kFp32 || p == Precision::kAmp;
}

double layer_bytes(Precision p) {
  return row_of(kPrecisions, p).bytes;
}

double weight_bytes(const Model& m, const Work& w) {
  const Precision p = w.precision;
  if (w.as_stored) return m.stored_bytes;
  if (!is_quantized(p)) return m.params * layer_bytes(p);
  // Embeddings stay in 16 bit. The head stays in 16 bit only with GPTQ and AWQ.
  const double matrix = m.vocab * m.hidden;
  const double plain = std::min(m.params, p == Precision::kInt4 && !m.tied ? 2 * matrix : matrix);
  return (m.params - plain) * layer_bytes(p) + plain * 2;
}

/// Temporary memory for a matrix multiplication with quantized weights: the largest weight matrix
/// in 16 bit, and the result.
double dequantized_bytes(const Model& m, Precision p) {
  if (!is_quantized(p)) return 0;
  const double largest = p == Precision::kInt4 ? m.intermediate : std::max(m.vocab, m.intermediate);
  return 2 * 2 * largest * m.hidden;
}

/// Parameters of adapters on all linear layers, each with rank × (inputs + outputs) parameters.
double lora_params(const Model& m, double rank) {
  const double attention = 2 * (m.hidden + m.hidden) + 2 * (m.hidden + m.kv_width);
  const double mlp = (m.gated ? 3 : 2) * (m.hidden + m.intermediate);
  return rank * m.layers * (attention + mlp);
}

/// Bytes per token that one layer keeps for the backward pass in 16-bit computation. A gated MLP
/// keeps the gate, the gate's activation, the output of the up projection, and their product. Usual
/// implementations of RMSNorm and rotary embeddings keep fp32 copies.
double layer_activation_bytes(const Model& m, Precision p) {
  const double mlp = (m.gated ? 8.0 : 4.0) * m.intermediate * m.experts_per_token;
  const double rest = (m.rms_norm ? 21.5 : 10.5) * m.hidden;
  const double casts = is_quantized(p)
                           ? 11 * m.hidden
                           : 0;  // casts before and after each product with quantized weights
  return (mlp + rest) * (p == Precision::kFp32 ? 2 : 1) + casts;
}

double optimizer_bytes(Optimizer o, double trained, double element) {
  switch (o) {
    case Optimizer::kAdamW:
      return trained * 2 * element;
    case Optimizer::kAdamW8bit:
      return trained * 2;
    case Optimizer::kSgdMomentum:
      return trained * element;
    case Optimizer::kSgd:
      return 0;
  }
  return 0;
}

/// Temporary memory of the optimizer's step. In PyTorch 2.0, AdamW on GPUs computes all tensors at
/// the same time (foreach), with two temporary copies: the root of the second moment, and that root
/// plus epsilon. Since 2.1, epsilon is added in place, so there is one copy. Before 2.0, AdamW
/// computed one tensor after another. DeepSpeed has its own Adam.
double step_bytes(const Model& m, const Work& w, double trained, double element) {
  if (w.optimizer == Optimizer::kSgd) return 0;
  const double all = trained * element / (w.zero >= 1 ? w.gpus : 1);
  if (w.optimizer != Optimizer::kAdamW || w.zero > 0 || w.torch >= TorchVersion{2, 1}) return all;
  if (w.torch.major == 2) return 2 * all;
  const double largest = std::max(m.vocab, m.intermediate) * m.hidden * element;
  return 2 * std::min(largest, all);
}

double kv_element_bytes(const Work& w) {
  return w.kv ? row_of(kKvPrecisions, *w.kv).bytes : keeps_fp32(w.precision) ? 4 : 2;
}

/// Memory for communication between GPUs in training.
double traffic_bytes(const Model& m, const Work& w, double trained, double element) {
  if (w.gpus <= 1) return 0;
  // PyTorch's DistributedDataParallel copies all gradients into buckets.
  if (w.zero == 0) return trained * element;
  constexpr double kBucketElements = 5e8;  // the default of DeepSpeed's reduce_bucket_size
  if (w.zero < 3) return 2 * std::min(trained, kBucketElements);
  // ZeRO stage 3 collects the weights of the next layer in 16 bit while the current layer computes.
  // It also keeps a layer's gradients until they are reduced.
  const double embedding = m.vocab * m.hidden;
  const double layer = std::max(0.0, m.params - (m.tied ? 1 : 2) * embedding) / m.layers;
  const double unit = std::max(layer, embedding);
  return (2 + (trained >= m.params ? 1 : 0)) * 2 * unit;
}

Memory inference(const Model& m, const Work& w) {
  Memory out;
  out.weights = weight_bytes(m, w) / w.gpus;
  out.context = kDriverContextBytes;
  const double element = keeps_fp32(w.precision) ? 4 : 2;
  if (m.is_of_images()) {
    // A block keeps its input until it ends. So this input is in memory together with the input and
    // output of the current layer.
    out.activations = w.batch * 1.5 * m.largest_per_image * element / w.gpus;
    return out;
  }
  if (!m.has_layers()) return out.is_partial = true, out;
  const double tokens = w.batch * w.seq;
  if (m.decoder) out.kv_cache = 2 * m.layers * m.kv_width * tokens * kv_element_bytes(w) / w.gpus;
  // Activations of the prompt, for one layer at a time. Logits exist only for the last token.
  out.activations = std::min(tokens, 2048.0 * w.batch) *
                        (2 * m.intermediate * m.experts_per_token / w.gpus + 4 * m.hidden) *
                        element +
                    w.batch * m.vocab * 4;
  // A cache that grows by concatenation leaves free blocks that are too small for the copy of the
  // next token.
  out.fragmentation = 0.5 * out.kv_cache;
  out.workspace = dequantized_bytes(m, w.precision) / w.gpus;
  return out;
}

Memory training(const Model& m, const Work& w) {
  Memory out;
  const bool adapters = w.task == Task::kLora || w.task == Task::kQlora;
  out.weights = weight_bytes(m, w);
  const double tokens = w.batch * w.seq;
  // Adapters are trained in fp32.
  const double trained = adapters ? lora_params(m, w.lora_rank) : m.params - m.frozen_params;
  const double element = adapters || keeps_fp32(w.precision) ? 4 : 2;
  if (adapters) out.weights += trained * element;
  const auto shards_from = [&](int stage) { return w.zero >= stage ? w.gpus : 1; };
  out.weights /= shards_from(3);
  out.gradients = trained * element / shards_from(2);
  out.optimizer = optimizer_bytes(w.optimizer, trained, element) / shards_from(1);
  out.context = kDriverContextBytes;
  if (m.is_of_images() && !adapters && !w.checkpointing && w.zero < 3) {
    // Each gradient replaces the data that its layer has kept, because that data is freed.
    const double kept_element = w.precision == Precision::kFp32 ? 4 : 2;
    out.activations = w.batch * m.kept_per_image * kept_element;
    out.workspace = (w.precision == Precision::kAmp ? 2 * m.params : 0) +
                    (w.batch * m.workspace_per_image + m.workspace) * kept_element +
                    traffic_bytes(m, w, trained, element);
    return out;
  }
  if (!m.has_layers()) return out.is_partial = true, out;

  const double layer = layer_activation_bytes(m, w.precision);
  const double element_kept = w.precision == Precision::kFp32 ? 4 : 2;
  const double head = m.decoder ? m.vocab * logit_bytes(w.precision) : 0;
  // With checkpointing, a layer only keeps its input. One layer at a time is computed again.
  const double kept =
      w.checkpointing ? m.layers * element_kept * m.hidden + layer : m.layers * layer;
  const double activations = tokens * (kept + head);
  // Stage 3 converts each layer when it collects its weights, so it keeps no copy of all weights in
  // 16 bit.
  const bool keeps_casts = w.precision == Precision::kAmp && !adapters && shards_from(3) == 1;
  const double on_the_way = activations + (keeps_casts ? 2 * m.params : 0) +
                            dequantized_bytes(m, w.precision) +
                            traffic_bytes(m, w, trained, element);
  // Activations are freed before the optimizer's step.
  const double step = step_bytes(m, w, trained, element);
  if (on_the_way >= step) {
    out.activations = activations;
    out.workspace = on_the_way - activations;
  } else {
    out.workspace = step;
  }
  return out;
}

}  // namespace

std::optional<Task> task_of(std::string_view word) {
  return find(kTasks, word);
}
std::optional<Precision> precision_of(std::string_view word) {
  return find(kPrecisions, word);
}
std::optional<Optimizer> optimizer_of(std::string_view word) {
  return find(kOptimizers, word);
}
std::optional<KvPrecision> kv_precision_of(std::string_view word) {
  return find(kKvPrecisions, word);
}
std::optional<TorchVersion> torch_version_of(std::string_view word) {
  TorchVersion out;
  const char* const end = word.data() + word.size();
  const auto major = std::from_chars(word.data(), end, out.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  const auto minor = std::from_chars(major.ptr + 1, end, out.minor);
  if (minor.ec != std::errc() || out.major < 1 || out.minor < 0) return std::nullopt;
  const bool ends = minor.ptr == end || *minor.ptr == '.' || *minor.ptr == '+';
  return ends ? std::optional(out) : std::nullopt;
}
std::string_view name(KvPrecision precision) {
  return row_of(kKvPrecisions, precision).word;
}
std::string_view name(Task task) {
  return row_of(kTasks, task).word;
}
std::string_view name(Precision precision) {
  return row_of(kPrecisions, precision).word;
}
std::string_view name(Optimizer optimizer) {
  return row_of(kOptimizers, optimizer).word;
}

Memory memory_of(const Model& model, const Work& work) {
  return work.task == Task::kInference ? inference(model, work) : training(model, work);
}

// accuracy_test.cpp checks these figures against published measurements.
Accuracy accuracy_of(const Work& work) {
  if (work.detects && work.task != Task::kInference && work.zero == 0) return {24, 3, 16, 1.2};
  if (work.on_images) return {0, 0, 0, 1.3};
  if (work.gpus > 1) {
    if (work.task == Task::kInference || work.zero < 3) return {0, 0, 0, 1.3};
    return {6, 12, 14, 1.2};
  }
  switch (work.task) {
    case Task::kInference:
      return {21, 4, 18, 1.25};
    case Task::kTrain:
    case Task::kFinetune:
      return {4, 3, 6, 1.2};
    case Task::kLora:
      return {12, 3, 13, 1.2};
    case Task::kQlora:
      return {15, 5, 15, 1.2};
  }
  return {};
}

double safe_bytes(const Memory& memory, const Work& work) {
  return memory.peak() * accuracy_of(work).safe_factor;
}

}  // namespace berth::plan
