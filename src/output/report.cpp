#include "output/report.hpp"

#include <csignal>
#include <cstring>

#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/device_selector.hpp"
#include "model/job.hpp"
#include "model/tries.hpp"
#include "output/guard_text.hpp"
#include "output/tries_text.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using model::GpuUse;
using model::Setting;

constexpr int kIndent = 7;  // width of "berth  ", by which later lines are indented

std::string percent(double value) {
  return fmt::format("{:.0f} %", value);
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? std::to_string(number) : std::string("SIG") + name;
}

std::string ending(const model::Report& report, const Terminal& terminal) {
  const std::string time = show_duration(report.wall);
  const model::Outcome& outcome = report.outcome;
  if (outcome.kind == model::OutcomeClass::kCancelled)
    return terminal.paint(Style::kRed, text("cancelled after {}", time));
  if (outcome.kind == model::OutcomeClass::kTimeLimit)
    return terminal.paint(Style::kRed, text("ended by its time limit after {}", time));
  if (outcome.kind == model::OutcomeClass::kPreempted)
    return terminal.paint(Style::kRed, text("preempted by another job after {}", time));
  const auto& tries = report.tries;
  if (tries && !tries->all.empty() && model::was_ended_for_hang(tries->all.back()))
    return terminal.paint(Style::kRed, text("hung, and was ended by Berth after {}", time));
  if (outcome.signal)
    return terminal.paint(Style::kRed,
                          text("ended by {} after {}", signal_name(*outcome.signal), time));
  if (outcome.exit_code != 0)
    return terminal.paint(Style::kRed, text("exit code {} after {}", outcome.exit_code, time));
  return terminal.paint(Style::kGreen, text("done in {}", time));
}

/// The cluster scheduler's job: "Slurm job 7, step 0, task 3, on n1".
std::string engine_sentence(const model::EngineJob& engine) {
  std::string words = text("Slurm job {}", printable(engine.job));
  if (!engine.step.empty()) words += ", " + text("step {}", printable(engine.step));
  if (engine.rank) words += ", " + text("task {}", *engine.rank);
  if (!engine.node.empty()) words += ", " + text("on {}", printable(engine.node));
  return words;
}

/// One line of the report, wrapped with a hanging indent.
std::string line(const std::string& what, const Terminal& terminal, Style style = Style::kPlain) {
  std::string out;
  for (const std::string& part : wrap(what, std::max(40, terminal.width - kIndent)))
    out += std::string(kIndent, ' ') + terminal.paint(style, part) + "\n";
  return out;
}

std::string labelled(std::string_view label, const std::string& what, const Terminal& terminal) {
  const std::string begin = std::string(kIndent, ' ') + pad(label, 6);
  const int width = std::max(40, terminal.width - kIndent - 6);
  std::string out;
  for (const std::string& part : wrap(what, width))
    out += (out.empty() ? begin : std::string(kIndent + 6, ' ')) + part + "\n";
  return out;
}

std::string device_words(const model::DeviceUse& use) {
  std::string out = use.words;
  if (use.memory_peak_bytes) out += "   " + text("peak {}", show_bytes(*use.memory_peak_bytes));
  if (use.utilization_mean_percent)
    out += "   " + text("mean {}", percent(*use.utilization_mean_percent));
  if (use.energy_millijoules)
    out += (use.utilization_mean_percent ? ", " : "   ") + show_energy(*use.energy_millijoules);
  return out;
}

std::string cpu_words(const model::Report& report) {
  std::string out = text_n("CPU, {} thread", "CPU, {} threads", report.threads, report.threads);
  const auto wall = static_cast<double>(report.wall.count());
  // In less than a tenth of a second, the kernel's CPU accounting is too inexact.
  if (wall >= 100)
    out += "   " + text("cores used {:.1f}", static_cast<double>(report.cpu.count()) / wall);
  if (report.peak_rss_bytes > 0)
    out += "   " + text("peak {}", show_bytes(report.peak_rss_bytes)) +
           (report.peak_is_pss ? " PSS" : " RSS");
  return out;
}

/// How many threads the job's processes had, and which libraries they used; "" if nothing is known.
std::string threading_words(const model::Threading& threading) {
  if (threading.pools.empty() && threading.blas.empty()) return "";
  std::vector<std::string> parts;
  if (threading.most)
    parts.push_back(text_n("at most {} thread in a process", "at most {} threads in a process",
                           *threading.most, *threading.most));
  if (!threading.pools.empty()) parts.push_back(text("started by {}", join(threading.pools, ", ")));
  if (!threading.blas.empty()) parts.push_back(text("BLAS: {}", join(threading.blas, ", ")));
  return join(parts, "; ");
}

std::string cost_line(const model::Report& report, const Terminal& terminal) {
  if (!report.prices.any()) return "";
  return labelled(tr("cost"),
                  report.cost ? show_price(*report.cost, report.prices.currency)
                              : text("not known, because the energy is not known"),
                  terminal);
}

std::string how_we_know(const model::Report& report) {
  std::string out = report.how_often;
  if (!report.libraries.empty())
    out += text("; libraries: {}", printable(join(report.libraries, ", ")));
  return out;
}

/// Whether the machine has GPUs, but a fault keeps all programs from using them. The reasons in the
/// report name the fault.
bool is_broken(const model::Report& report) {
  return !report.gpus_here && report.reasons.size() > 1;
}

std::string use_lines(const model::Report& report, const Terminal& terminal) {
  const std::string how = how_we_know(report);
  const bool on_gpu = !report.devices.empty();
  const std::string touched =
      report.gpus_touched ? printable(join(*report.gpus_touched, ", ")) : std::string();
  switch (report.gpu_use) {
    case GpuUse::kSeen:
      if (on_gpu) return "";
      return line(touched.empty() ? text("the job used a GPU, although it was given none")
                                  : text("the job used GPUs that its variables hide: {}", touched),
                  terminal, Style::kYellow);
    case GpuUse::kDeniedByKernel:
      return line(text("the kernel denied the job access to a GPU that the job was not given"),
                  terminal);
    case GpuUse::kNotChecked:
      return report.gpus_here && report.looks == 0 && report.wall >= std::chrono::seconds(1)
                 ? line(text("it could not be checked whether the job used a GPU"), terminal)
                 : "";
    case GpuUse::kNotSeen:
      break;
  }
  if (on_gpu)
    return line(text("this program never used the GPU ({})", how), terminal, Style::kYellow);
  if (!report.gpus_here) {
    std::string said =
        is_broken(report) ? text("no GPU that can be used here") : text("no GPU here");
    if (!report.libraries.empty())
      said += text("; libraries: {}", printable(join(report.libraries, ", ")));
    return line(said, terminal);
  }
  if (!touched.empty())
    return line(text("the job opened {}, as monitoring tools and GPU checks do, but ran no visible "
                     "work there ({})",
                     touched, how),
                terminal, Style::kYellow);
  return line(text("no GPU touched ({})", how), terminal);
}

/// Lines that explain why the job ran on the CPU, if there is a GPU and the user did not request
/// the CPU.
std::string reason_lines(const model::Report& report, const Terminal& terminal) {
  if (!report.devices.empty() || report.on_cpu_by_request) return "";
  if (!report.gpus_here && !is_broken(report)) return "";
  std::string out;
  for (const std::string& reason : report.reasons)
    out += labelled(out.empty() ? tr("why") : "", reason, terminal);
  return out;
}

std::string setting_words(const std::vector<Setting>& settings, Setting::Action action) {
  std::string out;
  for (const Setting& one : settings) {
    if (one.action != action) continue;
    if (!out.empty()) out += " ";
    out += one.name;
    if (action != Setting::Action::kUnset) out += "=" + shell_word(printable(one.value));
  }
  return out;
}

std::string setting_lines(const std::vector<Setting>& settings, const Terminal& terminal) {
  std::string out;
  const auto add = [&](std::string_view label, Setting::Action action) {
    const std::string words = setting_words(settings, action);
    if (!words.empty()) out += labelled(label, words, terminal);
  };
  add(tr("set"), Setting::Action::kSet);
  add(tr("unset"), Setting::Action::kUnset);
  add(tr("kept"), Setting::Action::kKeep);
  return out;
}

/// The ranks in a table, the tries, and what went wrong.
std::string rank_lines(const model::Report& report, const Terminal& terminal) {
  constexpr std::size_t kMostLines = 8;
  constexpr std::size_t kMostRanks = 8;
  if (!report.tries || report.tries->all.empty()) return "";
  const auto sentences = failure_sentences(*report.tries);
  std::string out;
  if (report.tries->has_ranks && sentences.empty())
    out += line(text_n("{} rank", "{} ranks", report.tries->world_size, report.tries->world_size),
                terminal);
  for (const std::string& row : rank_table(*report.tries, kMostRanks))
    out += std::string(kIndent, ' ') + row + "\n";
  if (const std::string all = tries_sentence(*report.tries); !all.empty())
    out += line(all, terminal);
  for (const std::string& one : nccl_sentences(*report.tries)) out += line(one, terminal);
  if (const std::string left_out = log_sentence(*report.tries); !left_out.empty())
    out += line(left_out, terminal);
  if (sentences.empty()) return out;
  const auto words = failure_lines(*report.tries, kMostLines);
  for (const std::string& one : sentences)
    if (words.empty() || !one.ends_with(words.back())) out += line(one, terminal, Style::kRed);
  for (const std::string& one : words)
    out += std::string(kIndent + 2, ' ') + terminal.paint(Style::kDim, one) + "\n";
  return out;
}

/// Lines about memory that keeps growing, and the usual cause.
std::string growth_lines(const model::Report& report, const Terminal& terminal) {
  std::string out;
  for (const model::MemoryGrowth& one : report.memory_growth) {
    const std::string rate = show_bytes(static_cast<std::uint64_t>(one.bytes_per_minute));
    const auto minute = static_cast<int>(one.since_seconds / 60);
    out += line(
        one.device
            ? text("memory on {} has grown by {} a minute since minute {}", one.words, rate, minute)
            : text("host memory has grown by {} a minute since minute {}", rate, minute),
        terminal, Style::kYellow);
  }
  if (!out.empty())
    out += labelled(
        tr("try"),
        text("store {} instead of loss and output tensors; use {} to find what allocates memory",
             "loss.item()", "tracemalloc"),
        terminal);
  return out;
}

/// What limited a job that ended successfully. Shows at most two findings: the first may be another
/// program on the same cores, and the second the job's own limit. JSON has all findings.
std::string bottleneck_lines(const model::Report& report, const Terminal& terminal) {
  if (report.outcome.exit_code != 0 || report.wall < std::chrono::seconds(2)) return "";
  std::string out;
  int left = 2;
  for (const model::Bottleneck& one : report.bottlenecks) {
    // use_lines() prints "device_unused". Of the other findings, print only the first ones.
    if (one.kind == "device_unused" || --left < 0) continue;
    out +=
        labelled(tr("limit"), one.sentence, terminal) + labelled(tr("try"), one.change, terminal);
  }
  if (!out.empty()) return out;
  if (!report.bottlenecks.empty() || report.bottlenecks_unknown.empty()) return "";
  return labelled(tr("limit"), text("not known: {}", report.bottlenecks_unknown), terminal);
}

std::string suggestion_lines(const model::Report& report, const Terminal& terminal) {
  std::string out;
  for (const std::string& one : report.suggestions)
    out += labelled(out.empty() ? tr("try") : tr("or"), one, terminal);
  const bool wasted = report.gpu_use == GpuUse::kNotSeen && !report.devices.empty();
  if (wasted)
    out += labelled(out.empty() ? tr("try") : tr("or"),
                    text("{} leaves the GPU free for others", "berth run --cpu -- …"), terminal);
  return out;
}

std::vector<std::string> place_lines(const model::Report& report) {
  std::vector<std::string> places;
  for (const model::DeviceUse& use : report.devices) places.push_back(device_words(use));
  places.push_back(cpu_words(report));
  return places;
}

/// What happened after the signal of --checkpoint-signal; "" if no signal was due.
std::string checkpoint_line(const model::CheckpointSignal& one, const Terminal& terminal) {
  if (one.signal == 0) return "";
  const std::string_view name = model::warning_name(one.signal);
  const std::string waited = show_duration(one.waited);
  return line(
      !one.was_handled ? text("SIG{} was not sent, because no process of the job handles it", name)
      : one.ended_by_itself
          ? text("SIG{} was sent to save a checkpoint; the command ended {} later", name, waited)
          : text("SIG{} was sent to save a checkpoint; the command still ran {} later", name,
                 waited),
      terminal);
}

std::string finding_lines(const model::Report& report, const Terminal& terminal) {
  std::string out;
  if (report.engine) out += line(engine_sentence(*report.engine), terminal);
  if (report.container)
    out += line(text("in a container of {}, started by {}", printable(report.container->image),
                     report.container->engine),
                terminal);
  out += rank_lines(report, terminal);
  out += checkpoint_line(report.checkpoint, terminal);
  for (const std::string& sentence : left_behind_sentences(report))
    out += line(sentence, terminal, Style::kYellow);
  if (const std::string limits = guard_sentence(report); !limits.empty())
    out += line(limits, terminal);
  return out + use_lines(report, terminal) + reason_lines(report, terminal) +
         suggestion_lines(report, terminal) + growth_lines(report, terminal) +
         bottleneck_lines(report, terminal);
}

}  // namespace

std::vector<std::string> left_behind_sentences(const model::Report& report) {
  const auto& left = report.left_behind;
  if (left.empty()) return {};
  constexpr std::size_t kMost = 3;
  std::vector<std::string> names;
  for (const model::LeftBehind& one : left) {
    if (names.size() == kMost) break;
    names.push_back(one.command.empty()
                        ? text("pid {}", one.pid)
                        : fmt::format("{} (pid {})", clip(printable(one.command), 40), one.pid));
  }
  if (left.size() > names.size()) names.push_back(text("{} more", left.size() - names.size()));
  const auto count = static_cast<long long>(left.size());
  return {text_n("the command left {} process running, which was ended: {}",
                 "the command left {} processes running, which were ended: {}", count, left.size(),
                 join(names, ", ")),
          text("to keep processes running, queue them as a separate job: {}",
               "berth run --queue -- COMMAND")};
}

std::vector<std::string> failure_sentences(const model::Report& report) {
  return report.tries ? failure_sentences(*report.tries) : std::vector<std::string>();
}

std::string report_text(const model::Report& report, const Terminal& terminal, bool verbose) {
  const std::vector<std::string> places = place_lines(report);
  // After Ctrl-C, the terminal has printed ^C, so begin a new line.
  const bool after_echo = terminal.tty && report.outcome.signal == SIGINT;
  std::string out = after_echo ? "\n" : "";
  const std::string head = "berth  " + ending(report, terminal);
  Terminal uncoloured;
  const int head_width = display_width("berth  " + ending(report, uncoloured));
  const bool fits = head_width + 3 + display_width(places.front()) <= terminal.width;
  out += head + (fits ? "   " : "\n" + std::string(kIndent, ' ')) + places.front() + "\n";
  for (std::size_t i = 1; i < places.size(); ++i)
    out += std::string(kIndent, ' ') + places[i] + "\n";
  if (const std::string threads = threading_words(report.threading); !threads.empty())
    out += line(threads, terminal);
  out += cost_line(report, terminal) + finding_lines(report, terminal);
  if (verbose) out += setting_lines(report.settings, terminal);
  for (const std::string& note : report.notes) out += labelled(tr("note"), note, terminal);
  return terminal.spell(out);
}

std::string finding_text(const model::Report& report, const Terminal& terminal) {
  std::string out;
  for (const std::string& place : place_lines(report)) out += place + "\n";
  std::string rest = finding_lines(report, terminal);
  for (const std::string& note : report.notes) rest += labelled(tr("note"), note, terminal);
  const std::string indent(kIndent, ' ');
  for (const std::string_view one : split(rest, '\n'))
    if (!one.empty()) out += std::string(one.substr(one.starts_with(indent) ? kIndent : 0)) + "\n";
  return terminal.spell(out);
}

std::string plan_text(const std::vector<std::string>& command,
                      const model::Environment& environment, const model::Placement& placement,
                      const model::Snapshot& snapshot, const Terminal& terminal) {
  std::string out;
  std::string_view last;
  const auto add = [&](std::string_view label, const std::string& what) {
    out += pad(label == last ? "" : label, 10) + "  " + what + "\n";
    last = label;
  };
  std::string shown;
  for (const std::string& word : command)
    shown += (shown.empty() ? "" : " ") + shell_word(printable(word));
  add(tr("would run"), shown);
  std::string devices;
  for (std::size_t i = 0; i < placement.devices.size(); ++i) {
    const model::Device* device = find_device(snapshot, placement.devices[i]);
    if (device == nullptr) continue;
    const std::string part = i < placement.partitions.size() ? placement.partitions[i] : "";
    devices += (devices.empty() ? "" : ", ") + model::unit_words(*device, part);
  }
  add(tr("on"), devices.empty() ? text_n("the CPU, {} thread", "the CPU, {} threads",
                                         placement.threads, placement.threads)
                                : devices);
  if (!environment.cpus.empty()) add(tr("CPUs"), environment.cpus);
  for (const std::string& reason : placement.reasons) add(tr("because"), reason);
  for (const Setting& one : environment.settings) {
    const std::string words = setting_words({one}, one.action);
    const std::string_view label = one.action == Setting::Action::kSet     ? tr("set")
                                   : one.action == Setting::Action::kUnset ? tr("unset")
                                                                           : tr("kept");
    add(label, pad(words, 34) + "  " + terminal.paint(Style::kDim, one.why));
  }
  for (const std::string& note : environment.notes) add(tr("note"), note);
  return terminal.spell(out);
}

}  // namespace berth::output
