#include "guard/kept_trace.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/file.hpp"
#include "base/text_parts.hpp"
#include "base/write_file.hpp"
#include "system/runtime_folder.hpp"
#include "wire/guard.hpp"

namespace berth::guard {
namespace {

constexpr std::size_t kMostSamples = 600, kMostRows = 20'000, kMostFiles = 50,
                      kMostBytes = 16U << 20U;
constexpr std::string_view kHead = "berth-trace 1";

std::string folder() {
  const std::string state = system::state_folder();
  return state.empty() ? "" : state + "/traces";
}

constexpr std::array<std::uint64_t LiveCounts::*, 13> kCounts{&LiveCounts::memory_bytes,
                                                              &LiveCounts::allocations,
                                                              &LiveCounts::frees,
                                                              &LiveCounts::refusals,
                                                              &LiveCounts::launches,
                                                              &LiveCounts::copies,
                                                              &LiveCounts::fills,
                                                              &LiveCounts::copied_to_bytes,
                                                              &LiveCounts::copied_from_bytes,
                                                              &LiveCounts::copied_on_bytes,
                                                              &LiveCounts::copied_other_bytes,
                                                              &LiveCounts::filled_bytes,
                                                              &LiveCounts::device_nanoseconds};

/// The numbers that follow the first word of a line; nullopt if one of these words is not a number.
std::optional<std::vector<std::uint64_t>> numbers_of(std::string_view line) {
  std::vector<std::uint64_t> out;
  const auto words = split(line, ' ');
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::uint64_t number = 0;
    const char* end = words[i].data() + words[i].size();
    if (const auto [at, problem] = std::from_chars(words[i].data(), end, number);
        problem != std::errc() || at != end)
      return std::nullopt;
    out.push_back(number);
  }
  return out;
}

/// The line of the file that stores a device of the newest sample and its limits. 0 means no limit.
std::string line_of(const LiveDevice& device) {
  return fmt::format("d {} {} {} {}\n", device.uuid, device.memory_bytes.value_or(0),
                     device.share_permille.value_or(0), device.hidden_bytes);
}

bool add_device(std::string_view line, LiveJob& job) {
  const auto words = split(line, ' ');
  if (words.size() != 5 || job.devices.size() >= ::berth::wire::guard::kMaxDevices ||
      !job.processes.empty())
    return false;
  const auto numbers = numbers_of(line.substr(words[0].size() + 1));
  if (!numbers || numbers->size() != 3) return false;
  LiveDevice device;
  device.uuid = std::string(words[1]);
  if ((*numbers)[0] > 0) device.memory_bytes = (*numbers)[0];
  if ((*numbers)[1] > 0 && (*numbers)[1] <= 1000)
    device.share_permille = static_cast<int>((*numbers)[1]);
  device.hidden_bytes = (*numbers)[2];
  job.devices.push_back(std::move(device));
  return true;
}

bool add_process(std::string_view line, LiveJob& job) {
  const auto numbers = numbers_of(line);
  if (!numbers || numbers->size() != 4 + kCounts.size() * job.devices.size()) return false;
  LiveProcess process{static_cast<std::size_t>((*numbers)[0]),
                      static_cast<std::int64_t>((*numbers)[1]),
                      (*numbers)[2],
                      (*numbers)[3] != 0,
                      {}};
  for (std::size_t d = 0; d < job.devices.size(); ++d) {
    LiveCounts& counts = process.devices.emplace_back();
    for (std::size_t i = 0; i < kCounts.size(); ++i)
      counts.*kCounts[i] = (*numbers)[4 + d * kCounts.size() + i];
  }
  job.processes.push_back(std::move(process));
  return true;
}

std::string name_of(std::int64_t pid) {
  std::string name = slurp(fmt::format("/proc/{}/comm", pid)).value_or("");
  std::erase(name, '\n');
  return name;
}

/// Removes the files of the oldest jobs, which have the smallest numbers.
void remove_old(const std::string& traces) {
  std::vector<std::int64_t> jobs;
  for (const std::string& name : list_folder(traces))
    if (const auto number = to_number(name)) jobs.push_back(*number);
  std::sort(jobs.begin(), jobs.end());
  for (std::size_t i = 0; i + kMostFiles < jobs.size(); ++i)
    ::unlink(fmt::format("{}/{}", traces, jobs[i]).c_str());
}

}  // namespace

void TraceKeeper::look(const LiveLimits& of) {
  const auto now = Clock::now();
  if (!begun_) {
    begun_ = due_ = now;
    trace_.started_unix_milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(
                                           std::chrono::system_clock::now().time_since_epoch())
                                           .count();
  }
  if (now < due_) return;
  due_ = now + every_;
  take(of, now);
}

void TraceKeeper::take(const LiveLimits& of, Clock::time_point now) {
  auto job = live_job(of);
  if (!job) return;
  for (const LiveProcess& one : job->processes)
    if (one.lives && !trace_.names.contains(one.pid)) trace_.names[one.pid] = name_of(one.pid);
  rows_ += job->processes.size();
  trace_.samples.push_back(
      {std::chrono::duration_cast<std::chrono::microseconds>(now - *begun_), *std::move(job)});
  if (trace_.samples.size() < kMostSamples && rows_ < kMostRows) return;
  std::vector<KeptTrace::Sample> fewer;
  rows_ = 0;
  for (std::size_t i = 0; i < trace_.samples.size(); i += 2) {
    rows_ += trace_.samples[i].job.processes.size();
    fewer.push_back(std::move(trace_.samples[i]));
  }
  trace_.samples = std::move(fewer);
  every_ *= 2;
}

void TraceKeeper::keep(const LiveLimits& of, std::uint64_t job) {
  const std::string traces = folder();
  if (!begun_ || job == 0 || traces.empty()) return;
  take(of, Clock::now());
  bool made = false;
  if (!system::make_private_folder(system::state_folder(), made) ||
      !system::make_private_folder(traces, made))
    return;
  static_cast<void>(replace_file(fmt::format("{}/{}", traces, job), text_of(trace_), 0600));
  remove_old(traces);
}

std::optional<KeptTrace> kept_trace(std::uint64_t job, std::int64_t started) {
  constexpr std::int64_t kApart = 60'000;
  const std::string traces = folder();
  const auto text =
      traces.empty() ? std::nullopt : slurp(fmt::format("{}/{}", traces, job), kMostBytes);
  auto trace = text ? parse_trace(*text) : std::nullopt;
  if (!trace || trace->samples.empty() ||
      std::abs(trace->started_unix_milliseconds - started) > kApart)
    return std::nullopt;
  return trace;
}

std::string text_of(const KeptTrace& trace) {
  std::string out = fmt::format("{}\nt {}\n", kHead, trace.started_unix_milliseconds);
  for (const auto& [pid, name] : trace.names) out += fmt::format("n {} {}\n", pid, name);
  for (const KeptTrace::Sample& sample : trace.samples) {
    out += fmt::format("s {} {}\n", sample.at.count(), sample.job.job);
    for (const LiveDevice& device : sample.job.devices) out += line_of(device);
    for (const LiveProcess& one : sample.job.processes) {
      out += fmt::format("p {} {} {} {}", one.place, one.pid, one.start, one.lives ? 1 : 0);
      for (const LiveCounts& counts : one.devices)
        for (const auto count : kCounts) out += fmt::format(" {}", counts.*count);
      out += "\n";
    }
  }
  return out;
}

std::optional<KeptTrace> parse_trace(const std::string& text) {
  KeptTrace trace;
  const auto lines = split(std::string_view(text), '\n');
  if (lines.empty() || lines[0] != kHead) return std::nullopt;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (line.empty()) continue;
    bool fits = !trace.samples.empty();
    if (line.starts_with("n ")) {
      const auto blank = line.find(' ', 2);
      const auto pid = to_number(line.substr(2, blank - std::min<std::size_t>(blank, 2)));
      fits = blank != std::string_view::npos && pid.has_value();
      if (fits) trace.names[*pid] = std::string(line.substr(blank + 1));
    } else if (line.starts_with("t ") || line.starts_with("s ")) {
      const auto numbers = numbers_of(line);
      fits = numbers && numbers->size() == (line[0] == 't' ? 1U : 2U);
      if (fits && line[0] == 't')
        trace.started_unix_milliseconds = static_cast<std::int64_t>((*numbers)[0]);
      if (fits && line[0] == 's') {
        trace.samples.emplace_back().at =
            std::chrono::microseconds(static_cast<std::int64_t>((*numbers)[0]));
        trace.samples.back().job.job = (*numbers)[1];
      }
    } else if (line.starts_with("d ")) {
      fits = fits && add_device(line, trace.samples.back().job);
    } else if (line.starts_with("p ")) {
      fits = fits && add_process(line, trace.samples.back().job);
    } else {
      fits = false;
    }
    if (!fits) return std::nullopt;
  }
  return trace;
}

}  // namespace berth::guard
