// `berth bench train` and `berth bench infer`: measure a model with synthetic data in the user's
// PyTorch, once for each precision.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "bench/timing.hpp"
#include "cli/bench_framework.hpp"
#include "cli/look.hpp"
#include "cli/picture.hpp"
#include "compare/trial.hpp"
#include "output/json_writer.hpp"
#include "output/svg.hpp"
#include "output/table.hpp"

// The start and the end of the embedded Python file. berth_embed() in CMake defines these symbols.
extern "C" {
extern const char berth_bench_framework[];
extern const char berth_bench_framework_end[];
}

namespace berth::cli {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostBatch = 100'000, kMostSeconds = 600;
// A faster precision is proposed if its outputs differ from those of fp32 by at most 2 %. Its
// speedup must be above 1.05, because measurements vary.
constexpr double kMostDrift = 0.02, kLeastGain = 1.05;

struct Wish {
  std::string task, model, python;
  std::vector<std::string> precisions;
  double batch = 0;  // the batch size; 0 means the model's default
  double seconds = 3;
  bool cpu = false;
  int gpus = 0;
};

/// A program that runs a model: PyTorch, or for inference another runtime that is installed.
struct Runtime {
  std::string_view word, name;
};
constexpr std::array kRuntimes{Runtime{"pytorch", "PyTorch"},
                               Runtime{"onnxruntime", "ONNX Runtime"},
                               Runtime{"tensorrt", "TensorRT"}};

struct Row {
  std::string precision;
  Runtime runtime;
  std::optional<bench::Statistics> times;  // absent if this row was not measured
  std::size_t runs = 0;
  std::optional<double> memory_bytes, drift;
  std::string memory_metric, engine;
  bool is_finite = true;
  std::string reason;  // why it was not measured
  // an unexpected error; false if this machine merely does not support the precision
  bool is_failure = false;
};

struct Answer {
  Wish wish;
  std::string device, torch;
  double batch = 0, params = 0;
  int threads = 0;
  std::vector<Row> rows;
  const Row* proposal = nullptr;
};

Result<std::vector<std::string>> precisions_of(const std::string& task,
                                               const std::optional<std::string>& given) {
  const bool trains = task == "train";
  const std::vector<std::string> known =
      trains ? std::vector<std::string>{"fp32", "tf32", "amp"}
             : std::vector<std::string>{"fp32", "fp16", "bf16", "int8"};
  if (!given) return known;
  std::vector<std::string> out;
  for (const std::string_view word : split(*given, ',')) {
    const std::string one(trim(word));
    if (std::find(known.begin(), known.end(), one) == known.end())
      return Error{ErrorCode::kInvalidArgument, "E1048",
                   text("bench {} has no precision '{}'; possible: {}", task, printable(one),
                        fmt::format("{}", fmt::join(known, ", "))),
                   trains ? "berth bench train --precision fp32,amp"
                          : "berth bench infer --precision fp32,bf16,int8"};
    if (std::find(out.begin(), out.end(), one) == out.end()) out.push_back(one);
  }
  return out;
}

/// The interpreter that --python names, the one of the active environment, or the first python3 in
/// PATH.
std::string python_of(const Arguments& arguments) {
  if (const auto given = arguments.value("--python")) return *given;
  const char* const active = std::getenv("VIRTUAL_ENV");
  return active != nullptr && *active != '\0' ? std::string(active) + "/bin/python" : "python3";
}

Result<Wish> wish_of(const Context& context) {
  const Arguments& arguments = context.arguments;
  Wish wish;
  wish.task = arguments.positional.front();
  for (const char* option :
       {"--device", "--save", "--against", "--keep", "--opencl", "--no-opencl"})
    if (arguments.has(option)) return contradiction(wish.task, option);
  if (arguments.positional.size() > 1)
    return Error{ErrorCode::kInvalidArgument, "E1056",
                 text("there is no benchmark '{}'; possible: {}",
                      printable(arguments.positional.back()), "--model NAME"),
                 "berth bench train --model resnet50"};
  wish.model = arguments.value("--model").value_or("resnet50");
  auto precisions = precisions_of(wish.task, arguments.value("--precision"));
  if (!precisions) return std::move(precisions).error();
  wish.precisions = *std::move(precisions);
  if (const auto batch = arguments.value("--batch")) {
    const auto number = parse_integer(*batch, 1, kMostBatch);
    if (!number) return Error(number.error()).during("--batch");
    wish.batch = static_cast<double>(*number);
  }
  if (const auto seconds = arguments.value("--seconds")) {
    const auto number = parse_integer(*seconds, 1, kMostSeconds);
    if (!number) return Error(number.error()).during("--seconds");
    wish.seconds = static_cast<double>(*number);
  }
  wish.python = python_of(arguments);
  wish.cpu = arguments.has("--cpu");
  if (wish.cpu) return wish;
  const auto snapshot = look(context, Processes::kUsers, false);
  if (!snapshot) return snapshot.error();
  for (const model::Device& device : snapshot->devices)
    if (device.kind == model::DeviceKind::kGpu && device.managed) wish.gpus = 1;
  return wish;
}

/// Parses the last line of the output as JSON.
Json document_in(std::string_view output) {
  output = trim(output);
  const std::size_t line = output.rfind('\n');
  const Json document =
      Json::parse(output.substr(line == std::string_view::npos ? 0 : line + 1), nullptr, false);
  return document.is_object() ? document : Json::object();
}

std::optional<double> number_in(const Json& document, const char* key) {
  const Json& value = json_member(document, key);
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  return std::isfinite(number) && number >= 0 ? std::optional(number) : std::nullopt;
}

void read_figures(const Json& document, Row& row, Answer& answer) {
  std::vector<double> runs;
  for (const Json& one : json_member(document, "runs"))
    if (one.is_number() && one.get<double>() > 0) runs.push_back(one.get<double>());
  if (!runs.empty()) row.times = bench::statistics_of(runs);
  row.runs = runs.size();
  row.memory_bytes = number_in(document, "memory_bytes");
  row.drift = number_in(document, "drift");
  row.memory_metric = json_text(document, "memory_metric");
  row.engine = json_text(document, "engine");
  const Json& finite = json_member(document, "finite");
  row.is_finite = !finite.is_boolean() || finite.get<bool>();
  for (const char* key : {"not_possible", "failed"})
    if (const std::string why = json_text(document, key); !why.empty()) row.reason = why;
  row.is_failure = !json_text(document, "failed").empty();
  if (answer.device.empty()) answer.device = json_text(document, "device_name");
  if (answer.torch.empty()) answer.torch = json_text(document, "torch");
  answer.batch = number_in(document, "batch").value_or(answer.batch);
  answer.params = number_in(document, "params").value_or(answer.params);
  answer.threads = static_cast<int>(std::min(number_in(document, "threads").value_or(0), 1e6));
}

/// Measures one precision. Returns false if the runtime is not installed. Fails if no precision can
/// run: the interpreter or PyTorch is missing, or no device is free.
Result<bool> measure(const Wish& wish, const Runtime& runtime, const std::string& precision,
                     const compare::HeldSignals& signals, Answer& answer) {
  const Json request = {{"task", wish.task},
                        {"model", wish.model},
                        {"runtime", runtime.word},
                        {"precision", precision},
                        {"batch", static_cast<std::int64_t>(wish.batch)},
                        {"seconds", wish.seconds},
                        {"cpu", wish.cpu || wish.gpus == 0}};
  const std::string script(berth_bench_framework, berth_bench_framework_end);
  model::RunSetting setting;
  setting.gpus = wish.gpus;
  // With --no-wait the benchmark fails if no device is free, instead of waiting in the queue with
  // the jobs.
  const auto trial = compare::run_once(setting, {wish.python, "-c", script, request.dump()},
                                       nullptr, signals, {"--no-wait", "--time-limit", "15m"});
  if (!trial) return trial.error();
  if (trial->refusal) return *trial->refusal;
  const Json document = document_in(trial->output);
  if (const std::string missing = json_text(document, "missing"); !missing.empty())
    return Error{ErrorCode::kNotFound, "E1049",
                 text("{} has no PyTorch: {}", printable(wish.python), printable(missing)),
                 "berth setup torch\nberth bench " + wish.task + " --python PATH"};
  constexpr int kNotExecutable = 126, kNoSuchProgram = 127;
  if (trial->exit_code == kNotExecutable || trial->exit_code == kNoSuchProgram)
    return Error{ErrorCode::kNotFound, "E1049",
                 text("{} cannot be started", printable(wish.python)),
                 "berth setup torch\nberth bench " + wish.task + " --python PATH"};
  if (json_member(document, "not_installed").is_boolean()) return false;
  Row row;
  row.precision = precision;
  row.runtime = runtime;
  read_figures(document, row, answer);
  if (!row.times && row.reason.empty()) {
    std::string last(trim(trial->last_words));
    last.erase(0, last.rfind('\n') + 1);
    row.reason = text("the process ended with exit code {}", trial->exit_code);
    if (!last.empty()) row.reason += ": " + printable(last);
    row.is_failure = true;
  }
  answer.rows.push_back(std::move(row));
  return true;
}

Status measure_all(const Context& context, Answer& answer) {
  const compare::HeldSignals signals;
  const std::size_t runtimes = answer.wish.task == "infer" ? kRuntimes.size() : 1;
  for (std::size_t i = 0; i < runtimes; ++i)
    for (const std::string& precision : answer.wish.precisions) {
      if (context.err_terminal.tty && !context.json)
        context.err(text("measuring {} …", precision) + "\n");
      const auto is_installed = measure(answer.wish, kRuntimes[i], precision, signals, answer);
      if (!is_installed) return is_installed.error();
      if (!*is_installed) break;
    }
  return Done{};
}

/// The name of a row, such as "fp32" or "int8, ONNX Runtime".
std::string label_of(const Row& row) {
  const bool is_usual = row.runtime.word == kRuntimes.front().word;
  return row.precision + (is_usual ? "" : fmt::format(", {}", row.runtime.name));
}

const Row* base_of(const Answer& answer) {
  for (const Row& row : answer.rows)
    if (row.precision == "fp32" && row.times) return &row;
  return nullptr;
}

std::optional<double> speedup(const Answer& answer, const Row& row) {
  const Row* const base = base_of(answer);
  if (base == nullptr || !row.times || row.times->median <= 0) return std::nullopt;
  return base->times->median / row.times->median;
}

std::optional<double> memory_change_percent(const Answer& answer, const Row& row) {
  const Row* const base = base_of(answer);
  if (base == nullptr || !row.memory_bytes || base->memory_bytes.value_or(0) <= 0)
    return std::nullopt;
  return 100 * (*row.memory_bytes / *base->memory_bytes - 1);
}

/// The fastest precision whose results are finite and close to those of fp32.
const Row* proposal_of(const Answer& answer) {
  const Row* best = base_of(answer);
  if (best == nullptr) return nullptr;
  const double spread = best->times->spread_percent;
  double most = kLeastGain;
  for (const Row& row : answer.rows) {
    const auto gain = speedup(answer, row);
    if (!gain || *gain <= most || !row.is_finite || row.drift.value_or(0) > kMostDrift) continue;
    if (100 * (*gain - 1) <= std::max(spread, row.times->spread_percent)) continue;
    best = &row, most = *gain;
  }
  return best;
}

std::string json_of(const Answer& answer) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("benchmark", answer.wish.task);
  json.field("model", answer.wish.model);
  json.field("params", answer.params > 0 ? std::optional(answer.params) : std::nullopt);
  json.field("batch", answer.batch > 0 ? std::optional(answer.batch) : std::nullopt);
  json.text_field("torch", answer.torch);
  json.text_field("device", answer.device);
  json.field("threads", answer.threads);
  json.rows("results", answer.rows, [&](const Row& row) {
    const auto of_times = [&](double bench::Statistics::*member) {
      return row.times ? std::optional((*row.times).*member) : std::nullopt;
    };
    json.field("precision", row.precision);
    json.field("runtime", row.runtime.word);
    json.text_field("engine", row.engine);
    json.field("runs", row.times ? std::optional(row.runs) : std::nullopt);
    json.field("median_seconds", of_times(&bench::Statistics::median));
    json.field("least_seconds", of_times(&bench::Statistics::least));
    json.field("most_seconds", of_times(&bench::Statistics::most));
    json.field("spread_percent", of_times(&bench::Statistics::spread_percent));
    json.field("items_per_second",
               row.times ? std::optional(answer.batch / row.times->median) : std::nullopt);
    json.field("speedup", speedup(answer, row));
    json.field("memory_bytes", row.memory_bytes);
    json.text_field("memory_metric", row.memory_metric);
    json.field("memory_change_percent", memory_change_percent(answer, row));
    json.field("drift", row.drift);
    json.field("finite", row.times ? std::optional(row.is_finite) : std::nullopt);
    json.text_field("reason", row.reason);
  });
  json.text_field("proposal", answer.proposal != nullptr ? answer.proposal->precision : "");
  json.text_field("proposal_runtime",
                  answer.proposal != nullptr ? answer.proposal->runtime.word : "");
  json.close('}');
  return json.finish();
}

std::string rate_of(const Answer& answer, const Row& row) {
  return answer.wish.task == "train" ? text("{:.3g} steps/s", 1 / row.times->median)
                                     : fmt::format("{:.3g} ms", 1000 * row.times->median);
}

std::string title_of(const Answer& answer) {
  return answer.wish.task == "train"
             ? text("Training {} with batch {:.0f} on {}", answer.wish.model, answer.batch,
                    printable(answer.device))
             : text("Inference with {}, batch {:.0f}, on {}", answer.wish.model, answer.batch,
                    printable(answer.device));
}

std::string_view memory_words(const std::string& metric) {
  if (metric == "allocated") return tr("memory: the peak of PyTorch's allocator.");
  if (metric == "weights") return tr("memory: weights only; on the CPU, the peak is not known.");
  return tr("memory: by how much the process grew; on the CPU, PyTorch does not measure a peak.");
}

std::string proposal_text(const Answer& answer) {
  const Row* const row = answer.proposal;
  if (row == nullptr) return {};
  if (row == base_of(answer))
    return std::string(tr("Proposal: stay with fp32; no other precision here is both faster and "
                          "accurate enough.")) +
           "\n";
  std::string out = text("Proposal: {}, {:.2g} times as fast as fp32.", label_of(*row),
                         speedup(answer, *row).value_or(1));
  if (row->drift)
    out += " " + text(
                     "The outputs differ by {:.2g} %; the weights here are random, so check the "
                     "outputs of your own model.",
                     100 * *row->drift);
  return out + "\n";
}

std::string text_of(const Answer& answer, const output::Terminal& terminal) {
  const bool infers = answer.wish.task == "infer";
  std::vector<output::Column> columns{
      {std::string(tr("precision"))},    {std::string(infers ? tr("latency") : tr("speed")), true},
      {std::string(tr("spread")), true}, {text("against {}", "fp32"), true},
      {std::string(tr("memory")), true}, {"", true}};
  if (infers) columns.push_back({std::string(tr("drift")), true});
  columns.push_back({std::string(tr("computed by")), false, output::kLeastText, 1});
  output::Table table(std::move(columns));
  std::string notes;
  for (const Row& row : answer.rows) {
    if (!row.times) {
      notes += text("{}: not measured: {}", label_of(row), printable(row.reason)) + "\n";
      continue;
    }
    const auto gain = speedup(answer, row);
    const auto change = memory_change_percent(answer, row);
    std::vector<output::Cell> cells{
        row.precision,
        rate_of(answer, row),
        fmt::format("{:.0f} %", row.times->spread_percent),
        gain ? fmt::format("{:.2f} ×", *gain) : "-",
        row.memory_bytes ? show_bytes(static_cast<std::uint64_t>(*row.memory_bytes)) : "-",
        change && &row != base_of(answer) ? fmt::format("{:+.0f} %", *change) : ""};
    if (infers) cells.emplace_back(row.drift ? fmt::format("{:.2g} %", 100 * *row.drift) : "-");
    cells.emplace_back(printable(row.engine));
    table.add(std::move(cells));
    if (!row.is_finite) notes += text("{}: results are not finite", label_of(row)) + "\n";
  }
  std::string out = title_of(answer) + "\n" + table.render(terminal) + notes;
  if (!answer.rows.empty() && base_of(answer) != nullptr)
    out += std::string(memory_words(base_of(answer)->memory_metric)) + "\n";
  return out + proposal_text(answer);
}

std::string svg_of(const Answer& answer) {
  const bool infers = answer.wish.task == "infer";
  output::BarGroup speed{infers ? text("latency, ms: shorter is better") : text("steps per second"),
                         {}};
  output::BarGroup memory{std::string(tr("memory")), {}};
  std::vector<std::string> notes;
  for (const Row& row : answer.rows) {
    if (!row.times) {
      speed.bars.push_back({label_of(row), printable(row.reason), 0});
      continue;
    }
    std::string figure = rate_of(answer, row);
    if (const auto gain = speedup(answer, row)) figure += fmt::format("  {:.2f} ×", *gain);
    speed.bars.push_back(
        {label_of(row), figure, infers ? row.times->median : 1 / row.times->median});
    if (row.memory_bytes)
      memory.bars.push_back({label_of(row),
                             show_bytes(static_cast<std::uint64_t>(*row.memory_bytes)),
                             *row.memory_bytes});
  }
  if (const Row* const base = base_of(answer))
    notes.emplace_back(memory_words(base->memory_metric));
  std::vector<output::BarGroup> groups{std::move(speed)};
  if (!memory.bars.empty()) groups.push_back(std::move(memory));
  return output::bars_svg(title_of(answer), "PyTorch " + printable(answer.torch), groups, notes);
}

}  // namespace

Result<int> bench_framework(const Context& context) {
  auto wish = wish_of(context);
  if (!wish) return std::move(wish).error();
  const auto picture = open_picture(context.arguments);
  if (!picture) return picture.error();
  Answer answer;
  answer.wish = *std::move(wish);
  if (auto done = measure_all(context, answer); !done) return std::move(done).error();
  answer.proposal = proposal_of(answer);
  if (*picture)
    if (auto drawn = write_picture(context.arguments, *picture, svg_of(answer)); !drawn)
      return std::move(drawn).error();
  context.out(context.json ? json_of(answer) : text_of(answer, context.out_terminal));
  const bool has_result = std::any_of(answer.rows.begin(), answer.rows.end(),
                                      [](const Row& row) { return row.times.has_value(); });
  const bool has_failed = std::any_of(answer.rows.begin(), answer.rows.end(), [](const Row& row) {
    return row.is_failure || !row.is_finite;
  });
  return has_result && !has_failed ? 0 : 1;
}

}  // namespace berth::cli
