#include "run/bottleneck.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"

namespace berth::run {
namespace {

using model::Bottleneck;

constexpr double kMostly = 0.7;        // the main thread runs for at least this part of the time
constexpr double kWaits = 0.3;         // a wait for a smaller part of the time is not reported
constexpr double kDeviceIsBusy = 0.8;  // a device that works for this fraction of the time is busy
// a memory controller that works for this fraction of the time is busy
constexpr double kMemoryIsBusy = 0.6;
constexpr double kLinkIsBusy = 0.4;  // a link whose bandwidth is used to this fraction is busy
// a kernel is short if it takes fewer seconds; launching one costs the CPU 5 µs to 10 µs
constexpr double kShortKernel = 30e-6;
constexpr double kManyLaunches = 5000;  // launches per second
constexpr double kManyCopies = 2000;    // copies per second

std::string percent(double part) {
  return fmt::format("{:.0f} %", part * 100);
}
std::string cores_words(double cores) {
  return fmt::format("{:.1f}", cores);
}

class Search {
 public:
  explicit Search(const Evidence& evidence) : seen_(evidence) {}

  Bottlenecks run() {
    if (seen_.wall_seconds < kShortestJudged)
      return {{}, text("the job ran for less than {} s", kShortestJudged)};
    if (seen_.main.seconds <= 0)
      return {{}, text("the processes of the job were not sampled in time")};
    if (look_at_ranks()) return result_;
    look_at_quota();
    look_at_shared_cores();
    if (seen_.device_unused)
      add("device_unused", text("the GPU was never used"),
          text("run it on the CPU only: {}", "--cpu"));
    const bool on_device = !seen_.devices.empty() && !seen_.device_unused;
    if (on_device)
      for (const DeviceEvidence& one : seen_.devices) look_at_device(one);
    else
      look_at_cpu();
    if (result_.found.empty() && result_.unknown.empty()) unknown(text("no bottleneck stood out"));
    return result_;
  }

 private:
  void add(const char* kind, std::string sentence, std::string change) {
    const auto is_same = [&](const Bottleneck& one) { return one.kind == kind; };
    // Report a bottleneck once, because several devices of a job usually have the same one.
    if (std::any_of(result_.found.begin(), result_.found.end(), is_same)) return;
    result_.found.push_back({kind, std::move(sentence), std::move(change)});
  }
  void unknown(const std::string& why) {
    if (result_.unknown.find(why) != std::string::npos) return;
    result_.unknown += (result_.unknown.empty() ? "" : "; ") + why;
  }
  [[nodiscard]] double main_runs() const { return seen_.main.part(seen_.main.runs); }

  /// Looks for a rank that runs while most of the ranks sleep.
  bool look_at_ranks() {
    if (seen_.ranks.size() < 2) return false;
    auto ranks = seen_.ranks;
    std::sort(ranks.begin(), ranks.end(),
              [](const RankActivity& a, const RankActivity& b) { return a.runs > b.runs; });
    const double others = ranks[1 + (ranks.size() - 2) / 2].runs;  // the median of the other ranks
    if (ranks.front().runs < 2 * kWaits || others > ranks.front().runs / 2) return false;
    add("other_ranks",
        text("rank {} ran {} of the time, most other ranks only {}: those ranks waited for it",
             ranks.front().rank, percent(ranks.front().runs), percent(others)),
        text("give rank {} less work; {} shows where in the code it is", ranks.front().rank,
             "berth stacks"));
    return true;
  }

  void look_at_quota() {
    if (seen_.quota_part < kWaits / 2) return;
    add("cpu_quota",
        text("the CPU quota of the job's control group throttled it in {} of the quota periods",
             percent(seen_.quota_part)),
        text("use a larger quota, or no more threads than the quota allows: {}", "--threads"));
  }

  /// Looks for threads that were ready to run but had no core, although the job may use enough
  /// cores.
  void look_at_shared_cores() {
    if (!seen_.runnable || !seen_.cpu_seconds || seen_.quota_part > 0) return;
    const double used = *seen_.cpu_seconds / seen_.wall_seconds;
    const double wanted = std::min(*seen_.runnable, static_cast<double>(seen_.cores));
    if (wanted < 0.5 || wanted - used < kWaits * wanted) return;
    cores_are_shared_ = true;
    add("shared_cores",
        text("the job could have used {} cores, but got {}: other programs used the rest",
             cores_words(wanted), cores_words(used)),
        text("reserve cores for the job: {}", "berth run --cpus N"));
  }

  /// Looks for a main process that waits while its workers run.
  bool look_at_input() {
    const MainActivity& main = seen_.main;
    const double waits = main.part(main.waits_for_workers);
    if (waits < kWaits) return false;
    const double busy = main.busy_workers / main.waits_for_workers;
    const int workers = std::max(1, static_cast<int>(std::lround(main.part(main.workers))));
    const int all = workers * seen_.mains;
    // With `enough` workers that are all busy, the main process would run all the time.
    const int enough = static_cast<int>(std::ceil(workers / std::max(main_runs(), 0.05)));
    const int most = std::max(1, seen_.cores / seen_.mains);
    const int proposed = std::min(enough, most);
    std::string change = proposed > workers
                             ? text("use {} workers, for example {}", proposed,
                                    fmt::format("num_workers={}", proposed))
                             : text(
                                   "do less work for each item: prepare the data once and store "
                                   "it, or move the work to the GPU in batches");
    if (busy < 0.5 * workers)
      change = text("give each worker larger items: on average, only {} of {} workers were busy",
                    cores_words(busy), workers);
    add("input",
        text_n("the job's main process waited {1} of the time for {0} worker process, such as a "
               "data loader's",
               "the job's main process waited {1} of the time for {0} worker processes, such as a "
               "data loader's",
               all, all, percent(waits)),
        std::move(change));
    return true;
  }

  bool look_at_disk() {
    const double part = seen_.main.part(seen_.main.on_disk);
    if (part < kWaits) return false;
    if (!seen_.disk_bytes || *seen_.disk_bytes <= 0) {
      unknown(text("the job waited in the kernel for {} of the time, but not for a disk",
                   percent(part)));
      return false;
    }
    add("disk",
        text("the job waited {} of the time for a disk, and transferred {}", percent(part),
             show_bytes(static_cast<std::uint64_t>(*seen_.disk_bytes))),
        text("copy the data to a local disk or into memory, in fewer and larger files"));
    return true;
  }

  [[nodiscard]] std::string where_it_waits() const {
    const char* const stacks = seen_.has_number ? "berth stacks JOB" : "berth stacks PID";
    if (seen_.registers_stacks)
      return text("{} shows the current line of code while the program runs", stacks);
    return text("if the job is started with {}, {} shows its current line of Python",
                "berth run --retries 1", stacks);
  }

  void look_at_waiting() {
    // Use the CPU time of all processes: a main process that sleeps may wait for child processes
    // that compute.
    const double used = seen_.cpu_seconds ? *seen_.cpu_seconds / seen_.wall_seconds : 0;
    if (std::max(main_runs(), used) > kWaits) return unknown(text("no bottleneck stood out"));
    add("waiting",
        text("the job was idle for {} of the time: it slept, or waited for a network, a lock or "
             "another program",
             percent(1 - main_runs())),
        where_it_waits());
  }

  [[nodiscard]] std::string better_blas() const {
    if (!seen_.has_reference_blas) return "";
    return "; " + text("install a BLAS that multiplies matrices faster than the reference BLAS: {}",
                       "sudo apt install libopenblas0");
  }

  void look_at_cpu() {
    if (look_at_disk() || look_at_input()) return;
    const double runnable = seen_.runnable.value_or(main_runs() * seen_.mains);
    if (!seen_.runnable) unknown(text("the number of runnable threads was not measured"));
    if (runnable > 1.5 * seen_.cores + 0.5)
      return add(
          "too_many_threads",
          text("{} threads of the job were runnable, but it has only {} cores",
               cores_words(runnable), seen_.cores),
          text("use as many threads as cores: {}", fmt::format("OMP_NUM_THREADS={}", seen_.cores)));
    if (runnable >= kDeviceIsBusy * seen_.cores) {
      if (cores_are_shared_) return;  // the report already says that other programs had the cores
      add("cores",
          text_n("the job had enough runnable threads for its {} core",
                 "the job had enough runnable threads for all of its {} cores", seen_.cores,
                 seen_.cores),
          text("use more cores or a GPU: {} compares them", "berth compare") + better_blas());
      return unknown(text("it was not measured whether computing or memory limits the cores"));
    }
    if (main_runs() >= kMostly)
      return add(
          "one_thread",
          text("the main thread ran {} of the time; of {} cores, the job could use only {}",
               percent(main_runs()), seen_.cores, cores_words(runnable)),
          text("use array operations instead of loops, or worker processes") + better_blas());
    look_at_waiting();
  }

  void look_at_device(const DeviceEvidence& device) {
    if (look_at_slowing(device) || look_at_share(device)) return;
    const auto& busy = device.busy;
    if (busy && *busy >= kDeviceIsBusy) return look_at_busy_device(device, *busy);
    if (look_at_transfers(device) || look_at_launches(device, busy)) return;
    if (!busy) return unknown(text("it is not known how busy {} was", device.words));
    if (look_at_disk() || look_at_input()) return;
    if (main_runs() < kMostly) return look_at_waiting();
    add("host_code",
        text("{} was busy {} of the time; the program ran on the CPU {} of the time", device.words,
             percent(*busy), percent(main_runs())),
        text("load data in worker processes and use larger batches, so that less Python runs for "
             "each kernel"));
    if (!device.launches) unknown(text("kernels are counted only with {}", "--memory"));
  }

  bool look_at_slowing(const DeviceEvidence& device) {
    const bool heat = device.strain.slowed_by_heat >= device.strain.slowed_by_power;
    const double part = std::max(device.strain.slowed_by_heat, device.strain.slowed_by_power);
    if (part < kWaits) return false;
    add("throttled",
        heat ? text("{} lowered its clocks because of heat for {} of the time", device.words,
                    percent(part))
             : text("{} lowered its clocks because of its power limit for {} of the time",
                    device.words, percent(part)),
        heat ? text("improve the cooling; {} shows the temperature", "berth top")
             : text("raise the power limit, if the board allows it: {}", "nvidia-smi -pl WATTS"));
    return true;
  }

  bool look_at_share(const DeviceEvidence& device) {
    if (!device.share_permille || !device.own_seconds || !device.waited_seconds ||
        *device.share_permille >= model::kWholePermille)
      return false;
    const double share = *device.share_permille / 1000.0;
    const double used = *device.own_seconds / seen_.wall_seconds;
    const double waited = *device.waited_seconds / seen_.wall_seconds / seen_.mains;
    // A job that got less than its share, or hardly waited, was not limited by its share. A job
    // that is alone gets all of the time, whatever its share is.
    if (used < 0.85 * share || waited < kWaits / 2) return false;
    add("share",
        text("the job used {} of the time of {}, waited {} of the time for other jobs, and its "
             "share is {}",
             percent(used), device.words, percent(waited), percent(share)),
        text("request a larger share: {}", "--share"));
    return true;
  }

  void look_at_busy_device(const DeviceEvidence& device, double busy) {
    if (!device.strain.memory_busy) {
      add("device", text("{} was busy {} of the time", device.words, percent(busy)),
          text("use half precision or TF32: {}", "berth compare --preset tf32"));
      return unknown(
          text("it was not measured whether computing or memory limits {}", device.words));
    }
    const std::string sentence =
        text("{} was busy {} of the time, and its memory controller {} of the time", device.words,
             percent(busy), percent(*device.strain.memory_busy));
    if (*device.strain.memory_busy >= kMemoryIsBusy)
      return add(
          "device_memory", sentence,
          text("reduce memory traffic with fused kernels ({}) or half precision", "torch.compile"));
    add("device_compute", sentence,
        text("use half precision or TF32: {}", "berth compare --preset tf32"));
  }

  bool look_at_transfers(const DeviceEvidence& device) {
    const std::string change =
        text("use pinned memory and {}, make fewer and larger copies, keep results on the device",
             "non_blocking=True");
    if (device.strain.link_used && *device.strain.link_used >= kLinkIsBusy) {
      add("transfers",
          text("copies used {} of the bandwidth between {} and the host",
               percent(*device.strain.link_used), device.words),
          change);
      return true;
    }
    if (!device.copies || !device.launches || *device.copies <= *device.launches) return false;
    const double rate = static_cast<double>(*device.copies) / seen_.wall_seconds;
    if (rate < kManyCopies) return false;
    add("transfers",
        text("{:.0f} copies a second to or from {}, and {:.0f} kernels", rate, device.words,
             static_cast<double>(*device.launches) / seen_.wall_seconds),
        change);
    return true;
  }

  bool look_at_launches(const DeviceEvidence& device, const std::optional<double>& busy) {
    if (!device.launches || main_runs() < 2 * kWaits) return false;
    const double rate = static_cast<double>(*device.launches) / seen_.wall_seconds;
    if (rate < kManyLaunches) return false;
    if (busy && *busy / rate > kShortKernel) return false;
    const std::string length =
        busy ? text(" of {:.0f} µs on average", *busy / rate * 1e6) : std::string();
    add("launches",
        text("{:.0f} kernels a second{}: the CPU took longer to start them than the device to run "
             "them",
             rate, length),
        text("use {}, CUDA graphs or larger batches", "torch.compile"));
    return true;
  }

  const Evidence& seen_;
  bool cores_are_shared_ = false;
  Bottlenecks result_;
};

}  // namespace

Bottlenecks find_bottlenecks(const Evidence& evidence) {
  return Search(evidence).run();
}

}  // namespace berth::run
