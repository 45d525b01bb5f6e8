// In the child: open, initialise, then a thread a device. No lock is held across a call into the
// driver; the only lock keeps frames on the pipe apart.
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <memory>
#include <mutex>

#include "inventory/nvml_child.hpp"
#include "inventory/nvml_frames.hpp"
#include "vendor/nvml/device.hpp"
#include "vendor/nvml/library.hpp"
#include "vendor/nvml/processes.hpp"

namespace berth::inventory {

namespace {

using nvml::Api;
using nvml::Look;

// Drivers keep their big buffers on the heap; this leaves room for those that do not.
constexpr std::size_t kStackBytes = std::size_t{512} * 1024;
// Time shares older than this say nothing about now; drivers sample every 1/6 s to 1 s.
constexpr std::uint64_t kSharesMicroseconds = 1'500'000;

std::int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// The pipe to the parent. Where the parent is gone, so are we.
class Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}
  void send(const frames::Frame& frame) {
    const std::string bytes = encode(frame);
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string_view left = bytes;
    while (!left.empty()) {
      const ssize_t written = write(fd_, left.data(), left.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) _exit(0);
      left.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  [[nodiscard]] int descriptor() const { return fd_; }

 private:
  std::mutex mutex_;
  int fd_;
};

struct Job {
  const NvmlTask& task;
  const Api& api;
  Sink& sink;
  std::uint32_t position = 0;
};

// By address where a GPU sleeps: going through the indices would wake it.
nvmlReturn_t handle_of(const Job& job, nvmlDevice_t* handle) {
  Look look{job.api};
  if (job.task.only_addresses.empty()) {
    return look(job.api.DeviceGetHandleByIndex, job.position, handle);
  }
  const std::string& address = job.task.only_addresses[job.position];
  return look(job.api.DeviceGetHandleByPciBusId, address.c_str(), handle);
}

void set_vendor_index(const Job& job, Look& look, model::Device& device) {
  if (job.task.only_addresses.empty()) {
    device.vendor_index = job.position;
    return;
  }
  std::uint32_t index = 0;
  if (look(job.api.DeviceGetIndex, look.device, &index) == NVML_SUCCESS) {
    device.vendor_index = index;
  }
}

void add_processes(Look& look, frames::Device& frame) {
  const std::uint64_t now = static_cast<std::uint64_t>(nanoseconds(CLOCK_REALTIME)) / 1000;
  nvml::Processes listed = nvml::read_processes(look, frame.device, now - kSharesMicroseconds);
  frame.processes = std::move(listed.rows);
  frame.no_process_list = listed.why_not;
  if (look.lost) nvml::mark_unreadable(NVML_ERROR_GPU_IS_LOST, frame.device);
}

frames::Device new_frame(const Job& job) {
  frames::Device frame;
  frame.position = job.position;
  frame.unix_milliseconds = nanoseconds(CLOCK_REALTIME) / 1'000'000;
  return frame;
}

// The index the driver would have given is known without it only where all devices are asked.
void refuse(const Job& job, nvmlReturn_t code, frames::Device& frame) {
  if (job.task.only_addresses.empty()) {
    frame.device.vendor_index = job.position;
  } else {
    frame.device.pci_address = job.task.only_addresses[job.position];
  }
  frame.refused = code;
  frame.complete = true;
  nvml::mark_unreadable(code, frame.device);
  job.sink.send(frame);
}

void look_once(const Job& job) {
  const Look::Clock::time_point until = Look::Clock::now() + job.task.look_within;
  frames::Device frame = new_frame(job);
  nvmlDevice_t handle = nullptr;
  const nvmlReturn_t code = handle_of(job, &handle);
  if (code != NVML_SUCCESS) return refuse(job, code, frame);
  Look look{job.api, handle, until};
  set_vendor_index(job, look, frame.device);
  nvml::read_identity(look, frame.device);
  job.sink.send(frame);
  if (!look.lost) nvml::read_readings(look, frame.device);
  if (!look.lost) nvml::read_partitions(look, frame.device);
  if (!look.lost && job.task.processes) add_processes(look, frame);
  if (!look.lost) nvml::read_more(look, {job.task.pcie_throughput}, frame.device);
  frame.late = look.late;
  frame.complete = true;
  job.sink.send(frame);
}

// ---- sampling

bool is_wanted(const NvmlTask& task, const model::Device& device) {
  return std::any_of(task.wanted.begin(), task.wanted.end(), [&device](const std::string& one) {
    return one == device.uuid || (!one.empty() && one == device.pci_address);
  });
}

void sleep_until(std::int64_t when) {
  const timespec at{when / 1'000'000'000, when % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
  }
}

// Ticks that were missed are not made up for.
std::int64_t next_tick(std::int64_t last, std::int64_t interval) {
  const std::int64_t now = nanoseconds(CLOCK_MONOTONIC);
  return std::max(last + interval, now - (now - last) % interval + interval);
}

void sample_for_ever(const Job& job) {
  nvmlDevice_t handle = nullptr;
  if (handle_of(job, &handle) != NVML_SUCCESS) return;
  model::Device identity;
  Look first{job.api, handle};
  nvml::read_identity(first, identity);
  if (first.lost || !is_wanted(job.task, identity)) return;
  set_vendor_index(job, first, identity);
  nvml::read_partitions(first, identity);
  const std::int64_t interval = std::chrono::nanoseconds(job.task.interval).count();
  std::int64_t tick = nanoseconds(CLOCK_MONOTONIC);
  for (bool lost = false; !lost; sleep_until(tick = next_tick(tick, interval))) {
    frames::Device frame = new_frame(job);
    frame.device = identity;
    frame.complete = true;
    Look look{job.api, handle};
    nvml::read_sample(look, frame.device);
    if (!look.lost) add_processes(look, frame);
    lost = look.lost;
    job.sink.send(frame);
  }
}

// ---- threads

void* run_job(void* given) {
  const std::unique_ptr<Job> job(static_cast<Job*>(given));
  if (job->task.interval.count() > 0) {
    sample_for_ever(*job);
  } else {
    look_once(*job);
  }
  return nullptr;
}

// A thread for each device but the last, which this one takes where it has nothing else to do;
// where no more threads may be had, it takes those, too.
void run_all(const Job& pattern, std::uint32_t devices, bool keep_this_thread_free) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, kStackBytes);
  std::array<pthread_t, frames::kMostDevices> threads{};
  std::uint32_t started = 0;
  for (std::uint32_t position = 0; position < devices; ++position) {
    auto job = std::make_unique<Job>(pattern);
    job->position = position;
    const bool last = position + 1 == devices && !keep_this_thread_free;
    if (!last && pthread_create(&threads[started], &small, run_job, job.get()) == 0) {
      static_cast<void>(job.release());
      ++started;
    } else {
      run_job(job.release());
    }
  }
  if (keep_this_thread_free) return;
  for (std::uint32_t i = 0; i < started; ++i) pthread_join(threads[i], nullptr);
}

void run_one_by_one(const Job& pattern, std::uint32_t devices) {
  for (const std::uint32_t position : pattern.task.one_by_one) {
    Job job = pattern;
    job.position = position;
    if (position < devices) look_once(job);
  }
}

// ---- the way there

std::uint32_t count_devices(const NvmlTask& task, const Api& api, nvmlReturn_t* code) {
  *code = NVML_SUCCESS;
  if (!task.only_addresses.empty()) return static_cast<std::uint32_t>(task.only_addresses.size());
  std::uint32_t count = 0;
  *code = api.DeviceGetCount(&count);
  return count;
}

nvmlReturn_t initialise(const NvmlTask& task, const Api& api) {
  if (task.only_addresses.empty()) return api.Init();
  if (api.InitWithFlags == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
  return api.InitWithFlags(NVML_INIT_FLAG_NO_ATTACH);
}

std::string id_of(nvmlReturn_t code) {
  switch (code) {
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "E0304";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
      return "E0305";
    case NVML_ERROR_NO_PERMISSION:
    case NVML_ERROR_OPERATING_SYSTEM:
      return "E0308";
    default:
      return "E0309";
  }
}

[[noreturn]] void fail(Sink& sink, nvmlReturn_t code) {
  sink.send(frames::Failed{id_of(code), "", code});
  _exit(0);
}

// The sampler's main thread: until the parent closes its end.
[[noreturn]] void wait_for_parent(const Sink& sink) {
  pollfd end{sink.descriptor(), 0, 0};
  while (poll(&end, 1, -1) < 0 && errno == EINTR) {
  }
  _exit(0);
}

}  // namespace

void run_nvml_child(int pipe, const NvmlTask& task) {
  // An arena for each thread costs more than it gives here; and there is no other thread yet.
  mallopt(M_ARENA_MAX, 1);  // NOLINT(concurrency-mt-unsafe)
  Sink sink(pipe);
  const Result<Api> opened = nvml::open(task.library);
  if (!opened) {
    sink.send(frames::Failed{opened.error().id, opened.error().message, 0});
    _exit(0);
  }
  const Api& api = *opened;
  sink.send(frames::Loaded{});
  const nvmlReturn_t initialised = initialise(task, api);
  if (initialised != NVML_SUCCESS) fail(sink, initialised);
  sink.send(frames::Initialised{nanoseconds(CLOCK_MONOTONIC)});
  nvmlReturn_t counted{};
  const std::uint32_t devices = std::min(count_devices(task, api, &counted), frames::kMostDevices);
  if (counted != NVML_SUCCESS) fail(sink, counted);
  const nvml::DriverWords words = nvml::read_driver(api);
  sink.send(
      frames::Ready{nanoseconds(CLOCK_MONOTONIC), devices, words.version, words.cuda_version});
  const bool sampling = task.interval.count() > 0;
  if (task.one_by_one.empty()) {
    run_all(Job{task, api, sink}, devices, sampling);
  } else {
    run_one_by_one(Job{task, api, sink}, devices);
  }
  if (sampling) wait_for_parent(sink);
  sink.send(frames::Done{});
  _exit(0);
}

}  // namespace berth::inventory
