// `berth plan measure`: runs a training program for a few steps, and predicts the peak of its
// memory for other batches and sequence lengths.
#include <cmath>
#include <set>

#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/look.hpp"
#include "cli/measured_estimate.hpp"
#include "cli/plan_request.hpp"
#include "compare/trial.hpp"
#include "output/json_writer.hpp"
#include "output/table.hpp"
#include "plan/measured.hpp"

namespace berth::cli {
namespace {

constexpr std::string_view kBatchMark = "{batch}", kSeqMark = "{seq}";
constexpr std::size_t kMostRecording = std::size_t{64} << 20U;
constexpr std::int64_t kMostSize = 1'000'000'000;
constexpr double kLeastToHalve = 4;

struct Size {
  std::optional<double> batch, seq;
};

struct Row {
  Size size;
  plan::StepPeak peak;
  bool is_measured = false;
};

struct Wish {
  // the user's command, with its placeholders for batch and sequence length
  std::vector<std::string> command;
  bool has_batch_mark = false, has_seq_mark = false;
  Size size;  // the values of --batch and --seq
  std::string time_limit = "10m";
  int gpus = 0;
};

struct Answer {
  plan::Measurement measurement;
  std::vector<Row> rows;
  std::optional<plan::Gpu> gpu;
  std::optional<double> largest_batch;
  bool is_too_small = false;    // not even a batch of 1 fits the GPU
  bool any_batch_fits = false;  // memory grows so little with the batch that any batch fits
  // A sentence about what could not be predicted; "" if everything was predicted.
  std::string note;
};

bool has_mark(const std::vector<std::string>& command, std::string_view mark) {
  for (const std::string& word : command)
    if (word.find(mark) != std::string::npos) return true;
  return false;
}

std::vector<std::string> filled(std::vector<std::string> command, std::string_view mark,
                                std::optional<double> value) {
  if (!value) return command;
  for (std::string& word : command)
    for (auto at = word.find(mark); at != std::string::npos; at = word.find(mark))
      word.replace(at, mark.size(), fmt::format("{:.0f}", *value));
  return command;
}

Result<std::optional<double>> size_of(const Arguments& arguments, const char* option) {
  const auto given = arguments.value(option);
  if (!given) return std::optional<double>();
  const auto number = parse_integer(*given, 1, kMostSize);
  if (!number) return Error(number.error()).during(option);
  return std::optional(static_cast<double>(*number));
}

Result<Wish> wish_of(const Context& context) {
  const Arguments& arguments = context.arguments;
  Wish wish;
  // Words before "--" are taken as operands. So if COMMAND begins there, take the whole command.
  if (arguments.positional.size() == 1) wish.command = arguments.command;
  if (wish.command.empty() || wish.command.front().empty())
    return Error{ErrorCode::kInvalidArgument, "E0516", text("there is no command to run"),
                 "berth plan measure -- python3 train.py"};
  wish.has_batch_mark = has_mark(wish.command, kBatchMark);
  wish.has_seq_mark = has_mark(wish.command, kSeqMark);
  const auto batch = size_of(arguments, "--batch");
  if (!batch) return batch.error();
  const auto seq = size_of(arguments, "--seq");
  if (!seq) return seq.error();
  wish.size = {*batch, *seq};
  for (const auto& [mark, option, is_missing] :
       {std::tuple(kBatchMark, "--batch", wish.has_batch_mark && !*batch),
        std::tuple(kSeqMark, "--seq", wish.has_seq_mark && !*seq)})
    if (is_missing)
      return Error{ErrorCode::kInvalidArgument, "E0961",
                   text("the command contains {}, so {} must give its value", mark, option),
                   "berth plan measure --batch 32 -- python3 train.py --batch-size {batch}"};
  if (const auto limit = arguments.value("--time-limit")) {
    const auto duration = parse_duration(*limit);
    if (!duration) return Error(duration.error()).during("--time-limit");
    wish.time_limit = *limit;
  }
  if (arguments.has("--cpu")) return wish;
  const auto snapshot = look(context, Processes::kUsers, false);
  if (!snapshot) return snapshot.error();
  for (const model::Device& device : snapshot->devices)
    if (device.kind == model::DeviceKind::kGpu && device.managed) wish.gpus = 1;
  return wish;
}

/// The error for a run in which nothing was recorded; explains why.
Error no_recording(const compare::Trial& trial, bool has_torch, bool sizes_differ) {
  Error error{ErrorCode::kUnavailable, "E0954", "", ""};
  if (trial.refusal) return *trial.refusal;
  if (sizes_differ) {
    error.message = text("the program's memory was not recorded: its batches have different sizes");
    error.hint = text(
        "pad them to one length, or write {{batch}} and {{seq}} in the command, with --batch and "
        "--seq");
  } else if (trial.exit_code != 0) {
    error.message =
        text("the program's memory was not recorded: it ended with exit code {}", trial.exit_code);
    std::string last = trial.last_words.substr(0, trial.last_words.find_last_not_of("\n ") + 1);
    last.erase(0, last.rfind('\n') + 1);
    error.hint = text("its last output: {}", printable(last));
  } else if (!has_torch) {
    error.message = text("the program's memory was not recorded: it did not import torch");
    error.hint = "berth plan measure -- python3 train.py";
  } else {
    error.message = text(
        "the program's memory was not recorded: it ended before {} optimizer steps or DataLoader "
        "batches",
        6);
    error.hint = text("let the program train on more batches");
  }
  return error;
}

/// Runs the program once and reads what was recorded. If `as_is`, the recording code must not
/// reduce the program's batch.
Result<plan::Measurement> record(const Wish& wish, const std::vector<std::string>& command,
                                 bool as_is, const compare::HeldSignals& signals) {
  auto folder = compare::StatementFolder::make();
  if (!folder) return std::move(folder).error();
  const std::string file = folder->path() + "/recording.json";
  if (auto added = folder->add("measure.py", plan::measure_hook()); !added)
    return std::move(added).error();
  model::RunSetting setting;
  setting.gpus = wish.gpus;
  setting.statement =
      "exec(compile(open(folder + '/measure.py').read(), 'berth plan measure', 'exec'),"
      " {'torch': torch, '__name__': 'berth_measure'})";
  setting.variables = {{"BERTH_MEASURE_TO", file}};
  if (as_is) setting.variables.emplace_back("BERTH_MEASURE_AS_IS", "1");
  const auto trial =
      compare::run_once(setting, command, &*folder, signals, {"--time-limit", wish.time_limit});
  if (!trial) return trial.error();
  const auto bytes = slurp(file, kMostRecording);
  if (!bytes) return no_recording(*trial, false, false);
  auto measurement = plan::read_measurement(*bytes);
  if (measurement && measurement->recordings.empty())
    return no_recording(*trial, true, measurement->sizes_differ);
  return measurement;
}

/// The sizes with which the program runs, if its command contains placeholders.
std::vector<Size> sizes_of(const Wish& wish) {
  const Size& own = wish.size;
  std::vector<Size> sizes{own};
  if (wish.has_batch_mark)
    sizes.push_back(
        {*own.batch >= kLeastToHalve ? std::floor(*own.batch / 2) : *own.batch * 2, own.seq});
  if (wish.has_seq_mark)
    for (const double part : {2, 4})
      if (std::floor(*own.seq / part) >= 1)
        sizes.push_back({own.batch, std::floor(*own.seq / part)});
  return sizes;
}

std::vector<std::string> command_with(const Wish& wish, const Size& size) {
  return filled(filled(wish.command, kBatchMark, size.batch), kSeqMark, size.seq);
}

/// Runs the program with each size. If a size after the first cannot be recorded, skips it, and
/// stores the reason in `later_problem`.
Result<plan::Measurement> measure(const Wish& wish, std::string& later_problem) {
  const compare::HeldSignals signals;
  if (!wish.has_batch_mark && !wish.has_seq_mark) return record(wish, wish.command, false, signals);
  std::optional<plan::Measurement> all;
  for (const Size& size : sizes_of(wish)) {
    auto one = record(wish, command_with(wish, size), true, signals);
    if (!one && all && one.error().id == "E0954") {
      later_problem = one.error().message;
      continue;
    }
    if (!one) return one;
    plan::Recording& recording = one->recordings.front();
    recording.batch = size.batch, recording.seq = size.seq;
    if (all) {
      all->recordings.push_back(std::move(recording));
      continue;
    }
    all = std::move(*one);
    all->batch = size.batch, all->seq = size.seq;
    all->recordings.resize(1);
  }
  return *std::move(all);
}

void add_row(Answer& answer, const Size& size) {
  const auto peak = plan::peak_of_step(answer.measurement, size.batch, size.seq);
  if (!peak) return;
  for (const Row& row : answer.rows)
    if (row.size.batch == size.batch && row.size.seq == size.seq) return;
  Row row{size, *peak, false};
  for (const plan::Recording& one : answer.measurement.recordings)
    row.is_measured = row.is_measured || (one.batch == size.batch && one.seq == size.seq);
  answer.rows.push_back(row);
}

std::string what_is_missing(const Answer& answer) {
  const plan::Measurement& m = answer.measurement;
  if (m.sizes_differ)
    return text(
        "Not all sizes were recorded, because the batches have different sizes. Pad them to one "
        "length, or write {{batch}} and {{seq}} in the command.");
  if (!plan::peak_of_step(m, m.batch.value_or(1) * 2, m.seq))
    return text(
        "There is no estimate for other batch sizes: the program has no DataLoader whose batches "
        "can be made smaller, or it failed with half a batch. Write {{batch}} in place of the "
        "batch size in the command.");
  if (m.seq && !plan::peak_of_step(m, m.batch, *m.seq * 2))
    return text(
        "There is no estimate for other sequence lengths: the program failed with shorter "
        "sequences. Write {{seq}} in place of the sequence length in the command.");
  return {};
}

Answer answer_for(plan::Measurement measurement, const Wish& wish) {
  Answer answer{std::move(measurement), {}, {}, {}, false, false, {}};
  const Size own{answer.measurement.batch, answer.measurement.seq};
  add_row(answer, own);
  if (own.batch)
    for (const double factor : {0.5, 2.0, 4.0, 8.0})
      if (const double batch = std::floor(*own.batch * factor); batch >= 1)
        add_row(answer, {batch, own.seq});
  if (own.seq)
    for (const double factor : {0.5, 2.0, 4.0}) add_row(answer, {own.batch, *own.seq * factor});
  if (wish.size.batch || wish.size.seq)
    add_row(answer, {wish.size.batch ? wish.size.batch : own.batch,
                     wish.size.seq ? wish.size.seq : own.seq});
  answer.note = what_is_missing(answer);
  return answer;
}

/// `bytes` as an integer; 0 if it is not a positive number.
std::uint64_t whole(double bytes) {
  return bytes > 0 ? static_cast<std::uint64_t>(std::min(bytes, 1e18)) : 0;
}

std::string shown(double bytes) {
  return show_bytes(whole(bytes));
}

std::string json_of(const Answer& answer) {
  const plan::Measurement& m = answer.measurement;
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.text_field("framework", m.framework);
  json.text_field("device", m.device);
  json.field("batch", m.batch);
  json.field("seq", m.seq);
  json.key("parts");
  json.open('{');
  json.field("weights_bytes", whole(m.weights));
  json.field("gradients_bytes", whole(m.gradients));
  json.field("optimizer_bytes", whole(m.optimizer));
  json.field("other_bytes", whole(m.other));
  json.close('}');
  const auto& reserved = m.recordings.front().reserved;
  json.field("peak_reserved_bytes", reserved ? std::optional(whole(*reserved)) : std::nullopt);
  json.rows("peaks", answer.rows, [&](const Row& row) {
    json.field("batch", row.size.batch);
    json.field("seq", row.size.seq);
    json.field("peak_bytes", whole(row.peak.bytes));
    json.field("reserve_bytes", whole(plan::reserve_for(row.peak.bytes)));
    json.field("measured", row.is_measured);
    json.field("by_point", row.peak.is_by_point);
  });
  json.key("gpu");
  if (answer.gpu) {
    json.open('{');
    json.field("name", answer.gpu->name);
    json.field("memory_bytes", whole(answer.gpu->memory_bytes));
    json.field("largest_batch", answer.largest_batch);
    json.close('}');
  } else {
    json.value(nullptr);
  }
  json.text_field("note", answer.note);
  json.close('}');
  return json.finish();
}

std::string text_of(const Answer& answer, const output::Terminal& terminal) {
  const plan::Measurement& m = answer.measurement;
  std::string out = m.device == "cuda"
                        ? text("Recorded a step of the program on the GPU, with {}.", m.framework)
                        : text("Recorded a step of the program on the CPU, with {}.", m.framework);
  out += "\n";
  output::Table parts({{std::string(tr("part"))}, {std::string(tr("memory")), true}});
  parts.add({std::string(tr("weights")), shown(m.weights)});
  parts.add({std::string(tr("gradients kept between steps")), shown(m.gradients)});
  parts.add({std::string(tr("optimizer")), shown(m.optimizer)});
  parts.add({std::string(tr("other tensors, such as data")), shown(m.other)});
  out += parts.render(terminal) + "\n";
  output::Table table({{std::string(tr("batch")), true},
                       {std::string(tr("tokens")), true},
                       {std::string(tr("peak")), true},
                       {std::string(tr("to reserve on a GPU")), true},
                       {""}});
  const auto number = [](std::optional<double> value) {
    return value ? fmt::format("{:.0f}", *value) : std::string("-");
  };
  for (const Row& row : answer.rows)
    table.add({number(row.size.batch), number(row.size.seq), shown(row.peak.bytes),
               shown(plan::reserve_for(row.peak.bytes)),
               std::string(tr(row.is_measured        ? msgid("measured")
                              : row.peak.is_by_point ? msgid("modelled")
                                                     : msgid("modelled, roughly")))});
  out += table.render(terminal);
  out += tr("peak: the peak of one step, as counted by the framework's allocator.");
  out += "\n";
  out += text("To reserve: 10 % more, and {} for the driver's context (both assumed).",
              shown(plan::kDriverContextBytes)) +
         "\n";
  if (!answer.note.empty()) out += answer.note + "\n";
  if (!answer.gpu) return out;
  const std::string name = printable(answer.gpu->name), has = shown(answer.gpu->memory_bytes);
  if (answer.largest_batch)
    out += text("The largest batch for {} ({}): {:.0f}.", name, has, *answer.largest_batch) + "\n";
  else if (answer.any_batch_fits)
    out +=
        text("The largest batch for {} ({}) is not known: the memory hardly grows with the batch.",
             name, has) +
        "\n";
  else if (answer.is_too_small)
    out += text("Not even a batch of 1 fits {} ({}).", name, has) + "\n";
  return out;
}

}  // namespace

Result<int> plan_measure(const Context& context) {
  const auto wish = wish_of(context);
  if (!wish) return wish.error();
  std::optional<plan::Gpu> gpu;
  if (const auto named = context.arguments.value("--gpu")) {
    plan::GpuCommand command{"berth plan measure", " --"};
    for (const std::string& word : wish->command)
      command.after += " " + shell_word(printable(word));
    auto found = planned_gpu(context, *named, command);
    if (!found) return std::move(found).error();
    gpu = *std::move(found);
  }
  std::string later_problem;
  auto measurement = measure(*wish, later_problem);
  if (!measurement) return std::move(measurement).error();
  Answer answer = answer_for(*std::move(measurement), *wish);
  if (!later_problem.empty())
    answer.note =
        text("Not all sizes were recorded. The run with another size failed: {}.", later_problem);
  if (gpu) {
    const double usable = gpu->memory_bytes;
    // The largest peak that fits the GPU. reserve_for() is linear, so it is inverted with two of
    // its values.
    const double most =
        (usable - plan::reserve_for(0)) / (plan::reserve_for(1) - plan::reserve_for(0));
    const auto seq = wish->size.seq ? wish->size.seq : answer.measurement.seq;
    answer.largest_batch = plan::largest_batch(answer.measurement, seq, most);
    const auto least = plan::peak_of_step(answer.measurement, 1, seq);
    answer.any_batch_fits = !answer.largest_batch && least && least->bytes <= most;
    answer.is_too_small = !answer.largest_batch && least && least->bytes > most;
    answer.gpu = std::move(gpu);
  }
  if (!answer.rows.empty()) {
    const double peak = answer.rows.front().peak.bytes;
    keep_estimate(command_with(*wish, {answer.measurement.batch, answer.measurement.seq}),
                  {whole(peak), whole(plan::reserve_for(peak))});
  }
  context.out(context.json ? json_of(answer) : text_of(answer, context.out_terminal));
  return 0;
}

}  // namespace berth::cli
