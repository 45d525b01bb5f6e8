// `berth trace`: samples the guard's counters of a running job into a file for Perfetto, and sums
// them up. The job does not notice it, because its counters are in shared memory.
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <map>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "base/write_file.hpp"
#include "cli/job_calls.hpp"
#include "cli/look.hpp"
#include "cli/trace_events.hpp"
#include "cli/verbs.hpp"
#include "guard/kept_trace.hpp"
#include "output/json_writer.hpp"

namespace berth::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Wish {
  milliseconds every{100};
  std::optional<milliseconds> at_most;
  std::string file;
};

Result<Wish> wish_of(const Context& context, model::JobId id) {
  constexpr milliseconds kLeast(10), kMost(60'000);
  Wish wish;
  wish.file = context.arguments.value("--out").value_or(fmt::format("berth-trace-{}.pftrace", id));
  if (const auto given = context.arguments.value("--every")) {
    const auto every = parse_duration(*given);
    if (!every) return Error(every.error()).during("--every");
    if (*every < kLeast || *every > kMost)
      return Error{ErrorCode::kInvalidArgument, "E1121",
                   text("--every: '{}' is not between 10 ms and 1 minute", *given),
                   "berth trace JOB --every 100ms"};
    wish.every = *every;
  }
  if (const auto given = context.arguments.value("--for")) {
    const auto most = parse_duration(*given);
    if (!most) return Error(most.error()).during("--for");
    wish.at_most = *most;
  }
  return wish;
}

/// Receives Ctrl-C as an event, so that the trace ends in order and the file is kept.
class EndSignals {
 public:
  EndSignals() {
    sigset_t ends;
    ::sigemptyset(&ends);
    for (const int signal : {SIGINT, SIGTERM}) ::sigaddset(&ends, signal);
    ::sigprocmask(SIG_BLOCK, &ends, &before_);
    file_.reset(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~EndSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
  /// Waits for a signal for at most `time`. Returns true if a signal arrived.
  [[nodiscard]] bool came_within(milliseconds time) const {
    pollfd wait{file_.get(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(time.count(), 0))) <= 0)
      return false;
    signalfd_siginfo taken{};
    return ::read(file_.get(), &taken, sizeof taken) == sizeof taken;
  }

 private:
  sigset_t before_{};
  Descriptor file_;
};

/// The names of the job's devices: "GPU 0" with this machine's number. If the machine does not list
/// the device, its number within the job is used.
std::vector<std::string> names_of(const guard::LiveJob& job, const model::Snapshot& machine,
                                  std::vector<std::optional<int>>& indices) {
  std::vector<std::string> names;
  for (const guard::LiveDevice& device : job.devices) {
    std::optional<int> index;
    for (const model::Device& one : machine.devices) {
      std::string plain = one.uuid.substr(std::min(one.uuid.find('-') + 1, one.uuid.size()));
      std::erase(plain, '-');
      if (!plain.empty() && plain == device.uuid) index = one.index;
    }
    names.push_back(index ? text("GPU {}", *index) : text("device {}", names.size()));
    indices.push_back(index);
  }
  return names;
}

struct Traced {
  model::JobId job = 0;
  std::string file;
  TraceSums sums;
  milliseconds every{0}, took{0};
  bool job_ended = false;
  std::vector<std::optional<int>> indices;
};

std::string per_second(std::uint64_t count, milliseconds took) {
  return fmt::format("{:.0f}", static_cast<double>(count) * 1000.0 /
                                   static_cast<double>(std::max<std::int64_t>(took.count(), 1)));
}

std::string device_lines(const TraceDevice& device, milliseconds took) {
  const guard::LiveCounts& sum = device.sum;
  std::string out = fmt::format("{:<9}", device.name);
  const bool was_lowered = device.limit_bytes && device.peak_bytes > *device.limit_bytes;
  out += was_lowered          ? text("memory {} at peak, before its limit was lowered to {}",
                                     show_bytes(device.peak_bytes), show_bytes(*device.limit_bytes))
         : device.limit_bytes ? text("memory {} of {} at peak", show_bytes(device.peak_bytes),
                                     show_bytes(*device.limit_bytes))
                              : text("memory {} at peak", show_bytes(device.peak_bytes));
  if (device.spilled_peak_bytes)
    out += text(", plus {} spilled beyond the limit", show_bytes(*device.spilled_peak_bytes));
  out += text("; {} allocations, {} frees, {} refused", sum.allocations, sum.frees, sum.refusals);
  const std::string indent = "\n" + std::string(9, ' ');
  out += indent +
         text("{} kernels and graphs, {} per second", sum.launches, per_second(sum.launches, took));
  out += indent + (device.is_timed
                       ? text("device time {}",
                              show_duration(milliseconds(sum.device_nanoseconds / 1000000)))
                       : text("device time not measured: the job has no share"));
  out += indent +
         text("{} copies: {} to the device, {} from it, {} within it, {} in an unknown direction",
              sum.copies, show_bytes(sum.copied_to_bytes), show_bytes(sum.copied_from_bytes),
              show_bytes(sum.copied_on_bytes), show_bytes(sum.copied_other_bytes));
  out += indent + text("{} memory fills: {}", sum.fills, show_bytes(sum.filled_bytes));
  return out + "\n";
}

std::string summary_of(const Traced& traced) {
  std::string out = text("job {}: {} samples in {}", traced.job, traced.sums.samples,
                         show_duration(traced.took)) +
                    "\n";
  for (const TraceDevice& device : traced.sums.devices) out += device_lines(device, traced.took);
  constexpr std::size_t kMost = 3;
  auto processes = traced.sums.processes;
  std::stable_sort(processes.begin(), processes.end(),
                   [](const auto& a, const auto& b) { return a.peak_bytes > b.peak_bytes; });
  for (std::size_t i = 0; i < processes.size() && i < kMost; ++i)
    out += text("{} (pid {}): {} at peak, {} kernels and graphs", printable(processes[i].name),
                processes[i].pid, show_bytes(processes[i].peak_bytes), processes[i].launches) +
           "\n";
  if (processes.size() > kMost)
    out += text_n("and {} more process, in the file", "and {} more processes, in the file",
                  static_cast<long long>(processes.size() - kMost), processes.size() - kMost) +
           "\n";
  return out + text("written to {}: open it in https://ui.perfetto.dev", printable(traced.file)) +
         "\n";
}

double seconds_of(milliseconds time) {
  return static_cast<double>(time.count()) / 1000.0;
}

std::string json_of(const Traced& traced) {
  output::JsonWriter json;
  const auto put = [&](const char* key, const auto& value) {
    json.key(key);
    json.value(value);
  };
  json.open('{');
  put("schema", 1);
  put("job", traced.job);
  put("file", traced.file);
  put("seconds", seconds_of(traced.took));
  put("every_seconds", seconds_of(traced.every));
  put("samples", traced.sums.samples);
  put("job_ended", traced.job_ended);
  json.key("devices");
  json.open('[');
  for (std::size_t i = 0; i < traced.sums.devices.size(); ++i) {
    const TraceDevice& device = traced.sums.devices[i];
    json.open('{');
    put("index", traced.indices[i]);
    put("memory_limit_bytes", device.limit_bytes);
    put("memory_peak_bytes", device.peak_bytes);
    put("spilled_peak_bytes", device.spilled_peak_bytes);
    put("allocations", device.sum.allocations);
    put("frees", device.sum.frees);
    put("refusals", device.sum.refusals);
    put("launches", device.sum.launches);
    put("copies", device.sum.copies);
    put("copied_to_bytes", device.sum.copied_to_bytes);
    put("copied_from_bytes", device.sum.copied_from_bytes);
    put("copied_on_bytes", device.sum.copied_on_bytes);
    put("copied_other_bytes", device.sum.copied_other_bytes);
    put("fills", device.sum.fills);
    put("filled_bytes", device.sum.filled_bytes);
    put("device_seconds",
        device.is_timed
            ? std::optional<double>(static_cast<double>(device.sum.device_nanoseconds) / 1e9)
            : std::nullopt);
    json.close('}');
  }
  json.close(']');
  json.key("processes");
  json.open('[');
  for (const TraceProcess& process : traced.sums.processes) {
    json.open('{');
    put("pid", process.pid);
    put("name", process.name);
    put("memory_peak_bytes", process.peak_bytes);
    put("launches", process.launches);
    json.close('}');
  }
  json.close(']');
  json.close('}');
  return json.finish();
}

Error has_ended(model::JobId id) {
  return {ErrorCode::kNotFound, "E1123",
          text("job {} has ended, and no trace of it was kept: its report has the totals", id),
          fmt::format("berth report {}", id)};
}

Error cannot_write(const std::string& file) {
  return {ErrorCode::kUnavailable, "E1122",
          text("the trace cannot be written to {}: {}", printable(file), error_words(errno)),
          "berth trace JOB --out /tmp/trace.pftrace"};
}

std::string name_of_process(std::int64_t pid) {
  auto name = slurp(fmt::format("/proc/{}/comm", pid)).value_or("");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name.empty() ? "?" : name;
}

/// Takes samples until the job ends, the time is over, or a signal arrives.
Result<Traced> record(const guard::LiveLimits& limits, const Wish& wish, model::JobId id,
                      const model::Snapshot& machine) {
  Traced traced{id, wish.file, {}, wish.every, milliseconds(0), false, {}};
  auto job = guard::live_job(limits);
  if (!job) return has_ended(id);
  const Descriptor file(
      ::open(wish.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666));
  if (!file) return cannot_write(wish.file);
  TraceEvents events(trace_format_of(wish.file), text("job {}", id),
                     names_of(*job, machine, traced.indices), name_of_process);
  const EndSignals signals;
  const auto begun = Clock::now();
  for (auto due = begun;; job = guard::live_job(limits)) {
    traced.took = std::chrono::duration_cast<milliseconds>(Clock::now() - begun);
    if (job)
      events.add(*job, std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begun));
    traced.job_ended = !job.has_value();
    const bool is_over = !job || (wish.at_most && traced.took >= *wish.at_most);
    if (!write_all(file.get(), is_over ? events.take() + events.end() : events.take()))
      return cannot_write(wish.file);
    if (is_over) break;
    // If the machine was suspended, skip the missed samples instead of catching up.
    due = std::max(due + wish.every, Clock::now() - wish.every);
    auto left = std::chrono::ceil<milliseconds>(due - Clock::now());
    if (wish.at_most) left = std::min(left, *wish.at_most - traced.took);
    if (!signals.came_within(left)) continue;
    if (!write_all(file.get(), events.end())) return cannot_write(wish.file);
    break;
  }
  traced.sums = events.sums();
  return traced;
}

/// Makes a trace from the samples that `berth run` kept of a job that has ended.
Result<Traced> replay(const guard::KeptTrace& kept, const Wish& wish, model::JobId id,
                      const model::Snapshot& machine) {
  Traced traced{id, wish.file, {}, milliseconds(0), milliseconds(0), true, {}};
  const auto name_of = [&](std::int64_t pid) {
    const auto found = kept.names.find(pid);
    return found == kept.names.end() || found->second.empty() ? "?" : found->second;
  };
  TraceEvents events(trace_format_of(wish.file), text("job {}", id),
                     names_of(kept.samples.front().job, machine, traced.indices), name_of);
  for (const guard::KeptTrace::Sample& sample : kept.samples)
    if (sample.job.devices.size() == traced.indices.size()) events.add(sample.job, sample.at);
  traced.took = std::chrono::duration_cast<milliseconds>(kept.samples.back().at);
  traced.every = traced.took / std::max<std::size_t>(kept.samples.size() - 1, 1);
  const Descriptor file(
      ::open(wish.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666));
  if (!file || !write_all(file.get(), events.take() + events.end())) return cannot_write(wish.file);
  traced.sums = events.sums();
  return traced;
}

/// The samples that were kept of a job that has ended. Fails with kNotFound (E1123) if there are
/// none.
Result<guard::KeptTrace> kept_of(JobCalls& calls, model::JobId id, const Error& not_running) {
  const auto job = calls.job(id);
  if (!job) return job.error();
  if (!model::has_ended(job->state)) return not_running;
  auto kept = guard::kept_trace(id, job->started_unix_milliseconds.value_or(0));
  if (!kept) return has_ended(id);
  return *std::move(kept);
}

}  // namespace

Result<int> run_trace(const Context& context) {
  const auto word = one_job(context, "trace");
  if (!word) return word.error();
  auto calls = JobCalls::reach_for(*word);
  if (!calls) return std::move(calls).error();
  const auto id = calls->id_of(*word);
  if (!id) return id.error();
  const auto wish = wish_of(context, *id);
  if (!wish) return wish.error();
  const auto limits = guard::limits_of(*id);
  auto kept =
      limits ? Result<guard::KeptTrace>(guard::KeptTrace()) : kept_of(*calls, *id, limits.error());
  if (!kept) return std::move(kept).error();
  const auto machine = look(context, Processes::kUsers, false);
  if (!machine) return machine.error();
  const auto traced =
      limits ? record(*limits, *wish, *id, *machine) : replay(*kept, *wish, *id, *machine);
  if (!traced) return traced.error();
  context.out(context.json ? json_of(*traced) : summary_of(*traced));
  return 0;
}

}  // namespace berth::cli
