// The architecture of a model from the names and shapes of its tensors, or from a config.json of
// transformers.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "plan/checkpoint.hpp"

namespace berth::plan {
namespace {

using Json = nlohmann::json;

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The last part of a tensor's name without ".weight", in Hugging Face, Meta and ggml checkpoints.
constexpr std::array<std::string_view, 8> kEmbedding{
    "embed_tokens",   "wte",      "word_embeddings", "token_embd",
    "tok_embeddings", "embed_in", "word_embedding",  "embeddings"};
constexpr std::array<std::string_view, 3> kHead{"lm_head", "output", "embed_out"};
constexpr std::array<std::string_view, 4> kKey{"k_proj", "attn_k", "wk", "key"};
constexpr std::array<std::string_view, 6> kQueryKeyValue{"qkv_proj", "query_key_value", "Wqkv",
                                                         "attn_qkv", "c_attn",          "qkv"};
constexpr std::array<std::string_view, 3> kLatent{"kv_a_proj_with_mqa", "attn_kv_a_mqa",
                                                  "kv_a_proj"};
constexpr std::array<std::string_view, 9> kUp{
    "up_proj", "ffn_up", "w3", "fc1", "c_fc", "fc_in", "dense_h_to_4h", "ffn_up_exps", "wi_0"};
constexpr std::array<std::string_view, 4> kGate{"gate_proj", "ffn_gate", "w1", "ffn_gate_exps"};

struct Name {
  std::string layers;     // the text before the layer's number: "model.layers"
  long layer = -1;        // -1: not in a layer
  std::string_view stem;  // "k_proj" of "model.layers.3.self_attn.k_proj.weight"
  std::string_view last;  // "weight"
};

bool is_number(std::string_view word) {
  return !word.empty() && word.size() < 6 &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Name name_of(const Tensor& tensor) {
  Name out;
  const std::vector<std::string_view> words = split(tensor.name, '.');
  out.last = words.back();
  for (std::size_t i = words.size() - 1; i > 0 && out.stem.empty(); --i)
    if (!is_number(words[i - 1])) out.stem = words[i - 1];
  for (std::size_t i = 1; i < words.size() && out.layer < 0; ++i)
    if (is_number(words[i])) {
      out.layer = std::strtol(std::string(words[i]).c_str(), nullptr, 10);
      out.layers =
          tensor.name.substr(0, static_cast<std::size_t>(words[i].data() - tensor.name.data()));
    }
  return out;
}

bool is_float(std::string_view type) {
  return type.starts_with("f") || type.starts_with("bf") || type.starts_with("c");
}

/// Parameters that the tensor holds. Four-bit formats of GPTQ and AWQ pack eight of them into an
/// int32.
double params_in(const Tensor& tensor, const Name& name) {
  if (tensor.stored_bytes <= 0) return 0;
  if (name.last == "qweight" && tensor.type == "i32") return 8 * tensor.elements;
  const bool is_table = tensor.type == "i64" || tensor.type == "i32" || tensor.type == "bool" ||
                        name.last == "scales" || name.last == "qzeros" || name.last == "g_idx";
  return is_table ? 0 : tensor.elements;
}

/// A matrix has two dimensions. If one of them is `width`, returns the other one.
double other(const Tensor& tensor, double width) {
  if (tensor.shape.empty()) return 0;
  const auto first = static_cast<double>(tensor.shape[tensor.shape.size() > 2 ? 1 : 0]);
  const auto last = static_cast<double>(tensor.shape.back());
  return first == width ? last : first;
}

/// Collects what the names of the tensors show about the model.
class Shape {
 public:
  explicit Shape(const Checkpoint& checkpoint) {
    std::map<std::string, std::set<long>> stacks;
    for (const Tensor& tensor : checkpoint.tensors) {
      const Name name = name_of(tensor);
      if (name.layer >= 0 && is_attention(name)) stacks[name.layers].insert(name.layer);
      if (tensor.shape.size() == 2 && name.layer < 0 && is_one_of(name.stem, kEmbedding) &&
          tensor.elements > vocab_ * hidden_) {
        vocab_ = static_cast<double>(tensor.shape[0]);
        hidden_ = static_cast<double>(tensor.shape[1]);
      }
    }
    for (const auto& [prefix, numbers] : stacks)
      if (numbers.size() > layers_) layers_ = numbers.size(), prefix_ = prefix;
    for (const Tensor& tensor : checkpoint.tensors) look(tensor);
  }

  void fill(Model& model, const std::optional<double>& experts_used) const {
    model.tied = !has_head_;
    model.gated = is_gated_;
    model.rms_norm = has_norm_ && !has_norm_bias_;
    model.decoder = prefix_.find("encoder") == std::string::npos;
    const bool knows = layers_ > 0 && vocab_ > 0 && kv_width_ > 0 && intermediate_ > 0 &&
                       (!has_experts_ || experts_used.has_value());
    if (!knows) return;
    model.layers = static_cast<double>(layers_);
    model.hidden = hidden_;
    model.vocab = vocab_;
    model.kv_width = kv_width_;
    model.intermediate = intermediate_;
    if (has_experts_) model.experts_per_token = *experts_used;
  }

 private:
  static bool is_attention(const Name& name) {
    return is_one_of(name.stem, kKey) || is_one_of(name.stem, kQueryKeyValue) ||
           is_one_of(name.stem, kLatent);
  }

  void look(const Tensor& tensor) {
    const Name name = name_of(tensor);
    if (name.layer < 0 && is_one_of(name.stem, kHead)) has_head_ = true;
    if (name.layers != prefix_ || prefix_.empty()) return;
    const bool is_norm = name.stem.find("norm") != std::string_view::npos ||
                         name.stem.starts_with("ln_") || name.stem == "LayerNorm";
    has_norm_ = has_norm_ || is_norm;
    has_norm_bias_ = has_norm_bias_ || (is_norm && name.last == "bias");
    const bool is_expert =
        tensor.name.find("experts.") != std::string::npos || name.stem.ends_with("_exps");
    has_experts_ = has_experts_ || is_expert;
    if (tensor.shape.size() < 2 || name.last == "scales") return;
    if (is_one_of(name.stem, kKey)) kv_width_ = std::max(kv_width_, other(tensor, hidden_));
    // The latent attention of DeepSeek keeps one vector per token instead of keys and values.
    if (is_one_of(name.stem, kLatent)) kv_width_ = other(tensor, hidden_) / 2;
    if (is_one_of(name.stem, kQueryKeyValue))
      kv_width_ = std::max(kv_width_, (other(tensor, hidden_) - hidden_) / 2);
    if (is_one_of(name.stem, kGate)) is_gated_ = true;
    if (name.stem == "gate_up_proj") {
      is_gated_ = true;
      intermediate_ = std::max(intermediate_, other(tensor, hidden_) / 2);
    }
    // BERT's up projection is named layer.0.intermediate.dense.
    const bool is_up =
        is_one_of(name.stem, kUp) ||
        (name.stem == "dense" && tensor.name.find("intermediate.") != std::string::npos);
    if (!is_up) return;
    // In a mixture of experts, a few layers may have no experts and a wider MLP. If any layer has
    // experts, use only the width of the experts.
    if (is_expert && !from_expert_) intermediate_ = 0, from_expert_ = true;
    if (is_expert == from_expert_) intermediate_ = std::max(intermediate_, other(tensor, hidden_));
  }

  std::string prefix_;
  std::size_t layers_ = 0;
  double hidden_ = 0, vocab_ = 0, kv_width_ = 0, intermediate_ = 0;
  bool has_head_ = false, has_norm_ = false, has_norm_bias_ = false, is_gated_ = false,
       has_experts_ = false, from_expert_ = false;
};

std::optional<double> experts_used(const Checkpoint& checkpoint) {
  for (const auto& [key, value] : checkpoint.numbers)
    if (key.ends_with(".expert_used_count") && value >= 1 && value <= 1024) return value;
  return std::nullopt;
}

/// The first of the keys that is a positive number.
double first_number(const Json& config, std::initializer_list<const char*> keys) {
  constexpr double kMost = 1e9;
  for (const char* key : keys)
    if (const Json& value = json_member(config, key);
        value.is_number() && value.get<double>() > 0 && value.get<double>() <= kMost)
      return value.get<double>();
  return 0;
}

/// Parameters of a decoder with these sizes.
double params_of(const Model& m, double query_width, double experts, double dense_layers,
                 double dense_intermediate) {
  const double attention = 2 * m.hidden * query_width + 2 * m.hidden * m.kv_width;
  const double matrices = (m.gated ? 3.0 : 2.0) * m.hidden;
  const double router = experts > 1 ? experts * m.hidden : 0;
  const double norms = (m.rms_norm ? 2.0 : 4.0) * m.hidden;
  const double mlp = std::max(1.0, experts) * matrices * m.intermediate + router;
  return m.layers * (attention + norms) + (m.layers - dense_layers) * mlp +
         dense_layers * matrices * dense_intermediate + (m.tied ? 1 : 2) * m.vocab * m.hidden +
         norms / 2;
}

}  // namespace

Result<Model> model_of(const Checkpoint& checkpoint) {
  Model model;
  model.format = checkpoint.format;
  std::map<std::string, double> by_type;
  for (const Tensor& tensor : checkpoint.tensors) {
    model.params += params_in(tensor, name_of(tensor));
    model.stored_bytes += tensor.stored_bytes;
    by_type[tensor.type] += tensor.stored_bytes;
  }
  if (model.params <= 0)
    return Error{ErrorCode::kInvalidArgument, "E1044", text("the file has no weights"),
                 "berth help plan"};
  model.stored_type = std::max_element(by_type.begin(), by_type.end(), [](auto& a, auto& b) {
                        return a.second < b.second;
                      })->first;
  // In a tensor named ".qweight", each integer packs several 4-bit weights.
  const bool is_packed =
      std::any_of(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                  [](const Tensor& tensor) { return tensor.name.ends_with(".qweight"); });
  if (is_packed && !is_float(model.stored_type)) model.stored_type = "int4";
  Shape(checkpoint).fill(model, experts_used(checkpoint));
  return model;
}

bool is_config(std::string_view document) {
  const Json config = Json::parse(document, nullptr, false);
  return config.is_object() && !config.contains("weight_map") &&
         (config.contains("model_type") || config.contains("architectures"));
}

Result<Model> model_of_config(std::string_view document, std::string_view name) {
  const Json whole = Json::parse(document, nullptr, false);
  // Multimodal models keep the decoder's numbers in the nested object "text_config".
  const Json& inner = json_member(whole, "text_config");
  const Json& config = inner.is_object() ? inner : whole;
  Model model;
  model.name = name;
  model.format = "config.json";
  model.layers = first_number(config, {"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
  model.hidden = first_number(config, {"hidden_size", "n_embd", "d_model", "dim"});
  model.vocab = first_number(config, {"vocab_size"});
  const double heads = first_number(config, {"num_attention_heads", "n_head", "n_heads"});
  double head = first_number(config, {"head_dim"});
  if (head == 0 && heads > 0) head = model.hidden / heads;
  const double kv_heads =
      first_number(config, {"num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads"});
  model.kv_width = (kv_heads > 0 ? kv_heads : heads) * head;
  const double dense = first_number(config, {"intermediate_size", "n_inner", "ffn_dim"});
  const double experts =
      first_number(config, {"num_local_experts", "num_experts", "n_routed_experts"});
  const double moe = first_number(config, {"moe_intermediate_size"});
  model.intermediate = experts > 1 && moe > 0 ? moe : dense > 0 ? dense : 4 * model.hidden;
  if (experts > 1)
    model.experts_per_token =
        std::max(1.0, first_number(config, {"num_experts_per_tok", "experts_per_token"}));
  model.rms_norm = config.contains("rms_norm_eps") || json_text(config, "model_type") == "gemma";
  const std::string act = json_text(config, "hidden_act");
  model.gated = model.rms_norm || act == "silu" || act == "swiglu";
  const Json& tied = json_member(config, "tie_word_embeddings");
  model.tied = tied.is_boolean() ? tied.get<bool>() : !model.rms_norm;
  const std::string type = json_text(config, "model_type");
  model.decoder = type.find("bert") == std::string::npos && type != "vit";
  if (!model.has_layers() || model.vocab <= 0 || model.kv_width <= 0)
    return Error{ErrorCode::kInvalidArgument, "E1044",
                 text("{} does not state the layers of a transformer: num_hidden_layers, "
                      "hidden_size, vocab_size, num_attention_heads",
                      printable(name)),
                 "berth plan fit --params 7B"};
  const double dense_layers = experts > 1 ? first_number(config, {"first_k_dense_replace"}) : 0;
  model.params =
      params_of(model, heads * head, experts, std::min(dense_layers, model.layers), dense);
  return model;
}

}  // namespace berth::plan
