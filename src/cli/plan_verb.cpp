// `berth plan`, and `berth plan fit`: the memory that a model needs, whether it fits a GPU, and
// changes that would make it fit.
#include <algorithm>
#include <cmath>

#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/look.hpp"
#include "cli/plan_file.hpp"
#include "cli/plan_request.hpp"
#include "cli/verbs.hpp"
#include "output/json_writer.hpp"
#include "output/table.hpp"
#include "output/words.hpp"
#include "plan/catalogue.hpp"
#include "plan/memory.hpp"

namespace berth::cli {
namespace {

constexpr std::int64_t kMostBatch = 1'000'000, kMostSeq = 100'000'000, kMostRank = 65'536,
                       kMostGpusOfModel = 4096, kMostLayers = 1000;

struct Part {
  const char* key;
  const char* title;
  std::optional<double> bytes;  // absent if the size is not known
};

std::vector<Part> parts_of(const plan::Memory& m) {
  const auto known = [&](double bytes) {
    return m.is_partial ? std::nullopt : std::optional(bytes);
  };
  return {{"weights_bytes", msgid("weights"), m.weights},
          {"gradients_bytes", msgid("gradients"), m.gradients},
          {"optimizer_bytes", msgid("optimizer"), m.optimizer},
          {"activations_bytes", msgid("activations"), known(m.activations)},
          {"kv_cache_bytes", msgid("KV cache"), known(m.kv_cache)},
          {"workspace_bytes", msgid("workspace"), known(m.workspace)},
          {"fragmentation_bytes", msgid("fragmentation"),
           m.gradients > 0 ? std::nullopt : known(m.fragmentation)},
          {"context_bytes", msgid("driver context"), m.context}};
}

std::uint64_t whole(double bytes) {
  return static_cast<std::uint64_t>(std::min(bytes, 1e18));
}

std::optional<std::uint64_t> whole_if(bool is_known, double bytes) {
  return is_known ? std::optional(whole(bytes)) : std::nullopt;
}

std::string shown(double bytes) {
  return show_bytes(whole(bytes));
}

/// A number of parameters as text: "8.03 B" or "352 M".
std::string count_of(double params) {
  return params >= 1e9   ? fmt::format("{:.2f} B", params / 1e9)
         : params >= 1e6 ? fmt::format("{:.0f} M", params / 1e6)
                         : fmt::format("{:.0f}", params);
}

/// A change of the work with which the model may fit, and the memory to reserve after this change.
struct Way {
  std::string options;
  double safe_bytes;
  // Number of batches to accumulate before each optimizer step, so that the step sees as many
  // samples as before.
  double accumulate = 1;
  double removed = 0;  // number of layers that are removed from the model
};

struct Answer {
  plan::Model model;
  plan::Work work;
  std::string torch;  // the PyTorch version that --torch names; "" if not given
  plan::Memory memory;
  double safe_bytes = 0;
  std::optional<plan::Gpu> gpu;
  std::optional<bool> fits;             // absent if it is not known whether the model fits
  std::vector<Way> ways;                // changes with which the model fits, smallest first
  std::optional<plan::Gpu> larger_gpu;  // the smallest GPU in the catalogue that is large enough
};

Result<double> number_of(const Arguments& arguments, const char* option, double usual,
                         std::int64_t most) {
  const auto given = arguments.value(option);
  if (!given) return usual;
  const auto number = parse_integer(*given, 1, most);
  if (!number) return Error(number.error()).during(option);
  return static_cast<double>(*number);
}

/// Looks for changes of the work with which the model fits.
class Ways {
 public:
  explicit Ways(Answer& answer)
      : answer_(answer),
        is_full_(answer.work.task == plan::Task::kTrain ||
                 answer.work.task == plan::Task::kFinetune) {}

  void find() {
    smaller_batch("", answer_.work);
    if (answer_.work.task == plan::Task::kInference)
      for_inference();
    else
      for_training();
    more_gpus();
    fewer_layers();
    plan::Work work = answer_.work;
    while (work.seq >= 256 && answer_.ways.empty()) {
      work.seq = std::floor(work.seq / 2);
      consider(work, fmt::format("--seq {:.0f}", work.seq));
    }
    for (plan::Gpu& gpu : plan::gpus())
      if (!answer_.larger_gpu && gpu.memory_bytes >= answer_.safe_bytes)
        answer_.larger_gpu = std::move(gpu);
  }

 private:
  bool consider(const plan::Work& work, std::string options) {
    return consider(answer_.model, work, std::move(options));
  }
  bool consider(const plan::Model& model, const plan::Work& work, std::string options) {
    const plan::Memory memory = plan::memory_of(model, work);
    const double safe = plan::safe_bytes(memory, work);
    if (memory.is_partial || safe > answer_.gpu->memory_bytes) return false;
    const bool trains = work.task != plan::Task::kInference;
    const double all = answer_.work.batch * answer_.work.gpus;
    answer_.ways.push_back({std::move(options), safe,
                            trains ? std::ceil(all / (work.batch * work.gpus)) : 1,
                            answer_.model.layers - model.layers});
    return true;
  }

  void smaller_batch(const std::string& options, plan::Work work) {
    for (work.batch = std::floor(work.batch / 2); work.batch >= 1;
         work.batch = std::floor(work.batch / 2))
      if (consider(work, fmt::format("{}--batch {:.0f}", options, work.batch))) return;
  }

  void for_inference() {
    plan::Work work = answer_.work;
    work.as_stored = false;
    for (const auto precision :
         {plan::Precision::kBf16, plan::Precision::kInt8, plan::Precision::kInt4}) {
      work.precision = precision;
      if (plan::memory_of(answer_.model, work).peak() < answer_.memory.peak())
        consider(work, fmt::format("--precision {}", plan::name(precision)));
    }
    work = answer_.work;
    if (work.kv) return;
    for (const auto kv : {plan::KvPrecision::kFp8, plan::KvPrecision::kInt4}) {
      work.kv = kv;
      if (consider(work, fmt::format("--kv {}", plan::name(kv)))) return;
    }
  }

  void for_training() {
    plan::Work work = answer_.work;
    work.checkpointing = true;
    if (!answer_.work.checkpointing && !consider(work, "--checkpointing"))
      smaller_batch("--checkpointing ", work);
    if (is_full_) {
      work.optimizer = plan::Optimizer::kAdamW8bit;
      if (answer_.work.optimizer == plan::Optimizer::kAdamW)
        consider(work, "--checkpointing --optimizer adamw-8bit");
      work = answer_.work;
      work.checkpointing = true;
      work.task = plan::Task::kLora;
      work.precision = plan::Precision::kBf16;
      consider(work, "--task lora --checkpointing");
    }
    if (answer_.work.task == plan::Task::kQlora) return;
    work = answer_.work;
    work.checkpointing = true;
    work.task = plan::Task::kQlora;
    work.precision = plan::Precision::kNf4;
    consider(work, "--task qlora --checkpointing");
  }

  /// Tries higher ZeRO stages with the same number of GPUs. If none of them fits, looks for the
  /// smallest number of GPUs that is enough.
  void more_gpus() {
    plan::Work work = answer_.work;
    const bool trains = work.task != plan::Task::kInference;
    if (trains && work.gpus > 1)
      for (++work.zero; work.zero <= 3; ++work.zero)
        if (consider(work, fmt::format("--gpus {:.0f} --zero {}", work.gpus, work.zero))) return;
    work.zero = trains ? 3 : 0;
    // Do not suggest more GPUs than this.
    constexpr double kMost = 64;
    for (work.gpus = std::max(2.0, 2 * answer_.work.gpus); work.gpus <= kMost; work.gpus *= 2) {
      std::string options = fmt::format("--gpus {:.0f}", work.gpus);
      if (trains) {
        // Divide the batch among the GPUs, so that the total batch stays the same.
        work.batch = std::ceil(answer_.work.batch * answer_.work.gpus / work.gpus);
        options += " --zero 3";
        if (work.batch != answer_.work.batch) options += fmt::format(" --batch {:.0f}", work.batch);
      }
      if (consider(work, std::move(options))) return;
    }
  }

  /// Looks for the largest number of layers with which the model fits. Removes at most half of the
  /// layers.
  void fewer_layers() {
    if (!answer_.model.shape_from.empty()) return;
    for (double layers = std::floor(answer_.model.layers) - 1;
         layers >= std::max(1.0, answer_.model.layers / 2); --layers)
      if (consider(plan::with_layers(answer_.model, layers), answer_.work,
                   fmt::format("--layers {:.0f}", layers)))
        return;
  }

  Answer& answer_;
  bool is_full_;
};

std::string json_of(const Answer& answer) {
  output::JsonWriter json;
  const plan::Accuracy accuracy = plan::accuracy_of(answer.work);
  json.open('{');
  json.field("schema", 1);
  json.text_field("model", answer.model.name);
  json.text_field("format", answer.model.format);
  json.text_field("shape_from", answer.model.shape_from);
  json.field("params", whole(answer.model.params));
  json.field("task", plan::name(answer.work.task));
  json.field("precision", precision_of(answer.model, answer.work));
  json.field("batch", whole(answer.work.batch));
  json.field("seq", whole(answer.work.seq));
  json.field("checkpointing", answer.work.checkpointing);
  json.field("gpus", whole(answer.work.gpus));
  json.field("zero", answer.work.gpus > 1 && answer.work.task != plan::Task::kInference
                         ? std::optional(answer.work.zero)
                         : std::nullopt);
  json.text_field("kv", answer.work.kv ? plan::name(*answer.work.kv) : "");
  json.text_field("torch", answer.torch);
  json.key("parts");
  json.open('{');
  for (const Part& part : parts_of(answer.memory))
    json.field(part.key, whole_if(part.bytes.has_value(), part.bytes.value_or(0)));
  json.close('}');
  const bool is_whole = !answer.memory.is_partial;
  json.field("allocated_bytes", whole_if(is_whole, answer.memory.allocated()));
  json.field("reserved_bytes", whole_if(is_whole, answer.memory.reserved()));
  json.field("peak_bytes", whole_if(is_whole, answer.memory.peak()));
  json.field("safe_bytes", whole_if(is_whole, answer.safe_bytes));
  json.field("least_bytes", whole(answer.memory.peak()));
  json.key("accuracy");
  json.open('{');
  json.field("cases", accuracy.cases);
  const auto measured = [&](double value) {
    return accuracy.cases > 0 ? std::optional(value) : std::nullopt;
  };
  json.field("median_percent", measured(accuracy.median_percent));
  json.field("p95_percent", measured(accuracy.p95_percent));
  json.close('}');
  json.key("gpu");
  if (answer.gpu) {
    json.open('{');
    json.field("name", answer.gpu->name);
    json.field("memory_bytes", whole(answer.gpu->memory_bytes));
    json.field("fits", answer.fits);
    json.rows("ways", answer.ways, [&](const Way& way) {
      json.field("options", way.options);
      json.field("safe_bytes", whole(way.safe_bytes));
      json.field("accumulate", whole(way.accumulate));
      json.field("removed_layers", whole(way.removed));
    });
    json.text_field("larger_gpu", answer.larger_gpu ? answer.larger_gpu->name : "");
    json.close('}');
  } else {
    json.value(nullptr);
  }
  json.close('}');
  return json.finish();
}

std::string removed_words(const Way& way, double layers) {
  if (way.removed <= 0) return "";
  return "  " + text("removes {:.0f} of the model's {:.0f} layers", way.removed, layers);
}

std::string verdict_of(const Answer& answer) {
  const std::string name = printable(answer.gpu->name), has = shown(answer.gpu->memory_bytes);
  if (!answer.fits.has_value())
    return text("It is not known whether it fits {} ({}).", name, has) + "\n";
  if (*answer.fits) return text("It fits {} ({}).", name, has) + "\n";
  std::string out =
      answer.memory.peak() <= answer.gpu->memory_bytes
          ? text("It may not fit {} ({}): the estimate fits, the safe bound does not.", name, has)
          : text("It does not fit {} ({}).", name, has);
  out += "\n";
  if (!answer.ways.empty())
    out += tr("Options that would fit, with their safe bounds:"), out += "\n";
  for (const Way& way : answer.ways)
    out += "  " + way.options + "  " + shown(way.safe_bytes) +
           (way.accumulate > 1 ? "  " + text("{:.0f} accumulation steps", way.accumulate) : "") +
           removed_words(way, answer.model.layers) + "\n";
  if (answer.memory.is_partial) return out;
  if (answer.larger_gpu)
    out += text("The smallest GPU of the catalogue that holds it: {} ({}).",
                answer.larger_gpu->name, shown(answer.larger_gpu->memory_bytes)) +
           "\n";
  else
    out += text("No single GPU of the catalogue holds it.") + "\n";
  return out;
}

std::string text_of(const Answer& answer, const output::Terminal& terminal) {
  const plan::Accuracy accuracy = plan::accuracy_of(answer.work);
  std::string out;
  if (!answer.model.format.empty())
    out += text("{}: {}, {} parameters, {}", printable(answer.model.name), answer.model.format,
                count_of(answer.model.params), precision_of(answer.model, answer.work)) +
           "\n";
  if (!answer.model.shape_from.empty())
    out += text("The layers are those of {}, scaled: the real model may differ.",
                answer.model.shape_from) +
           "\n";
  out += assumptions(answer.model, answer.work) + "\n";
  output::Table table({{std::string(tr("part"))}, {std::string(tr("memory")), true}});
  for (const Part& part : parts_of(answer.memory)) {
    if (!part.bytes)
      table.add({std::string(tr(part.title)),
                 std::string(answer.memory.is_partial ? tr("not known") : tr("in the margin"))});
    else if (*part.bytes > 0)
      table.add({std::string(tr(part.title)), shown(*part.bytes)});
  }
  if (answer.memory.is_partial) {
    table.add({std::string(tr("peak, at least")), shown(answer.memory.peak())});
    out += table.render(terminal);
    out +=
        tr("The layers of this model are not known, so its activations are not known either. "
           "Measure them: berth plan measure -- python3 train.py");
    out += "\n";
    if (answer.gpu) out += verdict_of(answer);
    return out;
  }
  table.add({std::string(tr("peak, as counted by the driver")), shown(answer.memory.peak())});
  table.add({std::string(tr("margin")), shown(answer.safe_bytes - answer.memory.peak())});
  table.add({std::string(tr("safe bound")), shown(answer.safe_bytes)});
  out += table.render(terminal);
  if (answer.work.on_images) out += text("For images of {}.", answer.model.image_size) + "\n";
  if (answer.work.gpus > 1)
    out += text("The numbers are for each of {:.0f} GPUs.", answer.work.gpus) + "\n";
  if (accuracy.cases == 0)
    out += tr("Estimated. No case of this kind is published, so the error is not known.");
  else
    out += text(
        "Estimated. On {} published cases of this kind the error was {:.0f} % in the median, "
        "{:.0f} % at p95.",
        accuracy.cases, accuracy.median_percent, accuracy.p95_percent);
  out += "\n";
  if (answer.gpu) out += verdict_of(answer);
  return out;
}

}  // namespace

namespace {

/// Uses the precision in the model file, unless another one was requested.
void use_stored_weights(const plan::Model& model, plan::Work& work) {
  using plan::Precision;
  work.as_stored = true;
  const std::string_view type = model.stored_type;
  const bool is_wide = type == "f32" || type == "f64";
  work.precision = is_wide ? Precision::kFp32 : type == "f16" ? Precision::kFp16 : Precision::kBf16;
}

}  // namespace

std::string precision_of(const plan::Model& model, const plan::Work& work) {
  return work.as_stored ? model.stored_type : std::string(plan::name(work.precision));
}

std::string assumptions(const plan::Model& model, const plan::Work& work) {
  const bool is_full = work.task == plan::Task::kTrain || work.task == plan::Task::kFinetune;
  std::vector<std::string> parts = {std::string(plan::name(work.task)),
                                    text("batch {:.0f}", work.batch)};
  if (work.on_images)
    parts.push_back(text("images of {}", model.image_size));
  else
    parts.push_back(text("{:.0f} tokens", work.seq));
  parts.push_back(precision_of(model, work));
  if (is_full) parts.emplace_back(plan::name(work.optimizer));
  if (work.checkpointing) parts.push_back("checkpointing");
  const std::string name =
      model.name.empty() ? text("of {} parameters", count_of(model.params)) : printable(model.name);
  return text("assumed: {}; model {} (options: berth help plan)", output::join(parts, ", "), name);
}

Result<plan::Work> planned_work(const Arguments& arguments, const plan::Model& model) {
  plan::Work work;
  work.task = *plan::task_of(arguments.value("--task").value_or("inference"));
  const bool full = work.task == plan::Task::kTrain || work.task == plan::Task::kFinetune;
  const std::string usual = full ? "amp" : work.task == plan::Task::kQlora ? "nf4" : "bf16";
  work.precision = *plan::precision_of(arguments.value("--precision").value_or(usual));
  const bool quantized = work.precision == plan::Precision::kInt8 ||
                         work.precision == plan::Precision::kInt4 ||
                         work.precision == plan::Precision::kNf4;
  const auto unfit = [&](std::string_view good) {
    return Error{ErrorCode::kInvalidArgument, "E0975",
                 text("precision {} cannot be used with task {}; possible: {}",
                      plan::name(work.precision), plan::name(work.task), good),
                 "berth help plan"};
  };
  if (quantized && full) return unfit("fp32, amp, bf16, fp16");
  if (quantized && work.task == plan::Task::kLora) return unfit("fp32, amp, bf16, fp16");
  if (!quantized && work.task == plan::Task::kQlora) return unfit("int8, int4, nf4");
  work.on_images = model.is_of_images();
  work.detects = model.is_detector();
  work.optimizer = *plan::optimizer_of(arguments.value("--optimizer").value_or("adamw"));
  work.checkpointing = arguments.has("--checkpointing");
  const auto batch = number_of(arguments, "--batch", 1, kMostBatch);
  if (!batch) return batch.error();
  const auto seq = number_of(arguments, "--seq", 2048, kMostSeq);
  if (!seq) return seq.error();
  const auto rank = number_of(arguments, "--rank", 16, kMostRank);
  if (!rank) return rank.error();
  const auto gpus = number_of(arguments, "--gpus", 1, kMostGpusOfModel);
  if (!gpus) return gpus.error();
  work.batch = *batch, work.seq = *seq, work.lora_rank = *rank, work.gpus = *gpus;
  if (const auto kv = arguments.value("--kv")) work.kv = plan::kv_precision_of(*kv);
  if (const auto torch = arguments.value("--torch")) {
    const auto version = plan::torch_version_of(*torch);
    if (!version)
      return Error{ErrorCode::kInvalidArgument, "E1098",
                   text("--torch: '{}' is not a version of PyTorch", printable(*torch)),
                   "python3 -c 'import torch; print(torch.__version__)'"};
    work.torch = *version;
  }
  if (const auto zero = arguments.value("--zero")) work.zero = zero->front() - '0';
  if (work.zero > 0 && (work.gpus < 2 || work.task == plan::Task::kInference))
    return Error{ErrorCode::kInvalidArgument, "E1045",
                 text("--zero shards training over several GPUs"),
                 "berth plan fit Llama-3.1-8B --task train --gpus 8 --zero 3"};
  if (work.kv && work.task != plan::Task::kInference)
    return Error{ErrorCode::kInvalidArgument, "E1045",
                 text("--kv is for inference: training keeps no KV cache"),
                 "berth plan fit Llama-3.1-8B --kv fp8"};
  if (work.task == plan::Task::kInference && model.stored_bytes > 0 &&
      !arguments.has("--precision"))
    use_stored_weights(model, work);
  return work;
}

namespace {

Result<plan::Model> model_of_word(const std::string& word) {
  auto known = plan::find_model(word);
  if (known && !word.starts_with(".") && !word.starts_with("/")) return known;
  const auto path = model_path(word);
  if (!path) return known;
  const auto file = open_model_file(*path);
  if (!file) return file.error();
  return plan::model_in_file(*file);
}

/// The MODEL argument of the command line; nullopt if there is none.
std::optional<std::string> model_word(const Arguments& arguments) {
  return arguments.positional.size() > 1 ? std::optional(arguments.positional[1])
                                         : arguments.value("--for");
}

Error no_one_model() {
  return {ErrorCode::kInvalidArgument, "E0974",
          text("say 'fit' or 'gpu' and one model: its name, its file, or --params"),
          "berth plan fit Llama-3.1-8B\nberth plan fit model.safetensors\n"
          "berth plan fit --params 7B"};
}

}  // namespace

namespace {

/// Sets the model's number of layers to the value of --layers, if that option was given.
Result<plan::Model> with_layers_of(const Arguments& arguments, Result<plan::Model> model) {
  const auto given = arguments.value("--layers");
  if (!model || !given) return model;
  if (!model->has_layers())
    return Error{ErrorCode::kInvalidArgument, "E1066",
                 text("--layers: the layers of {} are not known", printable(model->name)),
                 "berth help plan"};
  const bool is_size = !model->shape_from.empty();
  const auto most = static_cast<std::int64_t>(is_size ? kMostLayers : model->layers);
  const auto layers = parse_integer(*given, 1, most);
  if (layers) return plan::with_layers(*std::move(model), static_cast<double>(*layers));
  if (is_size) return Error(layers.error()).during("--layers");
  return Error{ErrorCode::kInvalidArgument, "E1066",
               text("--layers: {} has {:.0f} layers, so a number from 1 to {:.0f} can be kept",
                    printable(model->name), model->layers, model->layers),
               "berth help plan"};
}

}  // namespace

Result<plan::Model> planned_model(const Arguments& arguments) {
  const auto& words = arguments.positional;
  const auto params = arguments.value("--params");
  const auto word = model_word(arguments);
  const bool has_both = words.size() == 2 && arguments.has("--for");
  if (words.empty() || words.size() > 2 || has_both || word.has_value() == params.has_value())
    return no_one_model();
  if (word) return with_layers_of(arguments, model_of_word(*word));
  const auto number = plan::parse_params(*params);
  if (!number) return number.error();
  return with_layers_of(arguments, plan::model_of_size(*number));
}

Result<plan::Gpu> gpu_here(const Context& context, const plan::GpuCommand& command) {
  const auto snapshot = look(context, Processes::kUsers, false);
  if (!snapshot) return snapshot.error();
  plan::Gpu best;
  const auto consider = [&](const std::string& name, const model::Reading<std::uint64_t>& memory,
                            std::optional<std::uint32_t> pci_id) {
    const auto bytes = static_cast<double>(memory.value_or(0));
    if (bytes <= best.memory_bytes) return;
    best = {};
    best.name = name;
    best.memory_bytes = bytes;
    if (pci_id) best.pci_ids = {fmt::format("{:04x}:{:04x}", *pci_id >> 16U, *pci_id & 0xFFFFU)};
  };
  for (const model::Device& device : snapshot->devices) {
    if (device.kind != model::DeviceKind::kGpu || !device.managed) continue;
    // If MIG is enabled, no program can use the whole GPU, so consider only its MIG partitions.
    for (const model::Partition& one : device.partitions)
      consider(device.name + " " + one.name, one.memory_total_bytes, std::nullopt);
    if (!device.mig_enabled.value_or(false))
      consider(device.name, device.readings.memory_total_bytes, device.pci_id);
  }
  if (best.memory_bytes > 0) return best;
  return Error{ErrorCode::kNoDevice, "E0976", text("this machine has no GPU whose memory is known"),
               "berth ls\n" + command.before + " --gpu 'RTX 4090'" + command.after};
}

Result<plan::Gpu> planned_gpu(const Context& context, const std::string& named,
                              const plan::GpuCommand& command) {
  auto gpu = named == "here" ? gpu_here(context, command) : plan::find_gpu(named, command);
  if (!gpu || gpu->memory_bytes > 0) return gpu;
  return Error{ErrorCode::kNotFound, "E1046",
               text("the catalogue does not know the memory of {}", gpu->name), "berth help plan"};
}

namespace {

Result<int> plan_fit(const Context& context) {
  const Arguments& arguments = context.arguments;
  auto model = planned_model(arguments);
  if (!model) return std::move(model).error();
  const auto work = planned_work(arguments, *model);
  if (!work) return work.error();
  Answer answer{
      std::move(*model), *work, arguments.value("--torch").value_or(""), {}, 0, {}, {}, {}, {}};
  answer.memory = plan::memory_of(answer.model, answer.work);
  answer.safe_bytes = plan::safe_bytes(answer.memory, *work);
  if (const auto named = arguments.value("--gpu")) {
    const auto word = model_word(arguments);
    const std::string shown = word ? shell_word(printable(*word))
                                   : "--params " + arguments.value("--params").value_or("7B");
    auto gpu = planned_gpu(context, *named, {"berth plan fit " + shown});
    if (!gpu) return std::move(gpu).error();
    answer.gpu = std::move(*gpu);
    // Some parts of the memory are unknown. The known parts alone may already be too large.
    if (answer.memory.is_partial)
      answer.fits =
          answer.memory.peak() > answer.gpu->memory_bytes ? std::optional(false) : std::nullopt;
    else
      answer.fits = answer.safe_bytes <= answer.gpu->memory_bytes;
    if (answer.fits == false && !answer.memory.is_partial) Ways(answer).find();
  }
  context.out(context.json ? json_of(answer) : text_of(answer, context.out_terminal));
  return 0;
}

}  // namespace

Result<int> run_plan(const Context& context) {
  const auto& words = context.arguments.positional;
  const std::string_view what = words.empty() ? std::string_view() : words.front();
  if (context.arguments.has("--for") && (what == "cost" || what == "measure"))
    return no_one_model();
  if (what == "fit") return plan_fit(context);
  if (what == "gpu") return plan_gpu(context);
  if (what == "cost") return plan_cost(context);
  if (what == "measure") return plan_measure(context);
  return Error{ErrorCode::kInvalidArgument, "E0974",
               text("say what to plan: fit, measure, gpu or cost"),
               "berth plan fit Llama-3.1-8B\nberth plan measure -- python3 train.py\n"
               "berth plan gpu Llama-3.1-8B\nberth plan cost --gpu L4"};
}

}  // namespace berth::cli
