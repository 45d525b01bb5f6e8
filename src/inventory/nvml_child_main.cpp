// Runs in the child: opens the library, initializes, then starts one thread per device. Holds no
// lock during a driver call; the only lock serializes frames on the pipe.
#include "inventory/nvml_child_main.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "inventory/nvml_frames.hpp"
#include "system/own_memory.hpp"
#include "vendor/nvml/activity.hpp"
#include "vendor/nvml/device.hpp"
#include "vendor/nvml/library.hpp"
#include "vendor/nvml/processes.hpp"

namespace berth::inventory {

namespace {

using nvml::Api;
using nvml::Look;

// The stack size of each thread. Drivers allocate large buffers on the heap, so 512 KiB are enough.
constexpr std::size_t kStackBytes = std::size_t{512} * 1024;
// The driver's samples of each process's time share are ignored when they are older than this.
// Drivers take a sample every 1/6 s to 1 s.
constexpr std::uint64_t kSharesMicroseconds = 1'500'000;

std::int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// The pipe to the parent. Ends the child if the parent is gone.
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

/// The wait between two samples. A request for an extra sample ends it early.
class Pause {
 public:
  void end_now() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++wanted_;
    }
    woken_.notify_all();
  }
  /// Waits until this time, or until an extra sample is requested. `seen`: the number of requests
  /// seen so far; it is updated.
  void until(std::int64_t monotonic_nanoseconds, std::uint64_t& seen) {
    const std::chrono::steady_clock::time_point at{std::chrono::nanoseconds(monotonic_nanoseconds)};
    std::unique_lock<std::mutex> lock(mutex_);
    woken_.wait_until(lock, at, [&] { return wanted_ != seen; });
    seen = wanted_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  std::uint64_t wanted_ = 0;
};

struct Job {
  const NvmlTask& task;
  const Api& api;
  Sink& sink;
  Pause& pause;
  std::uint32_t position = 0;
};

// Gets the handle of a device. If some GPU is asleep, finds the device by PCI address, because a
// search by index would wake the sleeping GPU.
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

// Sends a device for which the driver gave no handle. The device's index is known only if all
// devices are read.
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

// The time of the next tick. Ticks that were missed are skipped.
std::int64_t next_tick(std::int64_t last, std::int64_t interval) {
  const std::int64_t now = nanoseconds(CLOCK_MONOTONIC);
  return std::max(last + interval, now - (now - last) % interval + interval);
}

bool is_due(std::uint64_t number, std::uint32_t every) {
  return every != 0 && number % every == 0;
}

/// Takes one sample. Returns true if the device was lost.
bool sample_once(const Job& job, nvmlDevice_t handle, std::uint64_t number,
                 nvml::Activity& activity, frames::Device& frame) {
  const SamplePace& pace = job.task.pace;
  const std::int64_t begin = nanoseconds(CLOCK_MONOTONIC);
  Look look{job.api, handle};
  frame.has_all = is_due(number, pace.all_every);
  frame.has_throttle = frame.has_all || is_due(number, pace.throttle_every);
  if (frame.has_all) {
    nvml::read_readings(look, frame.device);
    if (!look.lost) nvml::read_more(look, {pace.pcie_throughput}, frame.device);
    if (!look.lost) activity.read_nvlink_rates(look, Look::Clock::now(), frame.device.readings);
    frame.device.partitions.clear();
    if (!look.lost) nvml::read_partitions(look, frame.device);
  } else {
    nvml::read_sample(look, frame.device);
    if (frame.has_throttle && !look.lost) nvml::read_throttle(look, frame.device);
  }
  // The driver's activity values are means since the last call, so read them at every tick. Skip
  // them if only processes or Xids are sampled.
  if (pace.all_every > 0 && !look.lost)
    activity.read_parts(look, Look::Clock::now(), frame.device.readings);
  frame.no_process_list = model::Absence::kNotAsked;
  if (!look.lost && is_due(number, pace.processes_every)) add_processes(look, frame);
  frame.driver_microseconds =
      static_cast<std::uint32_t>((nanoseconds(CLOCK_MONOTONIC) - begin) / 1000);
  return look.lost;
}

void sample_for_ever(const Job& job) {
  // After this many ticks, all readings have been read at least once.
  constexpr std::uint64_t kStarted = 4;
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
  std::uint64_t woken = 0;
  bool lost = false;
  nvml::Activity activity(job.api);
  for (std::uint64_t number = 0; !lost; ++number) {
    frames::Device frame = new_frame(job);
    frame.device = identity;
    frame.complete = true;
    lost = sample_once(job, handle, number, activity, frame);
    job.sink.send(frame);
    if (number == kStarted && job.position == 0) system::release_startup_memory();
    if (!lost) job.pause.until(tick = next_tick(tick, interval), woken);
  }
}

// ---- Xids

/// The devices whose Xid events the driver reports, with their PCI addresses.
using Heard = std::vector<std::pair<nvmlDevice_t, std::string>>;

/// Makes the driver report the Xids of all devices that support it.
Heard listen(const Job& pattern, std::uint32_t devices, nvmlEventSet_t set) {
  Heard heard;
  for (std::uint32_t position = 0; position < devices; ++position) {
    Job job = pattern;
    job.position = position;
    nvmlDevice_t handle = nullptr;
    if (handle_of(job, &handle) != NVML_SUCCESS) continue;
    model::Device identity;
    Look look{job.api, handle};
    nvml::read_identity(look, identity);
    if (look.lost || !is_wanted(job.task, identity) || identity.pci_address.empty()) continue;
    if (look(job.api.DeviceRegisterEvents, handle, NVML_EVENT_XID, set) != NVML_SUCCESS) continue;
    heard.emplace_back(handle, identity.pci_address);
    job.sink.send(frames::Event{{identity.pci_address, model::kXidsReported, 0}});
  }
  return heard;
}

struct Listener {
  Job pattern;
  std::uint32_t devices = 0;
};

/// Xids need their own thread, because the driver blocks while waiting for them.
void* report_xids(void* given) {
  constexpr std::uint32_t kWaitMilliseconds = 1000;
  constexpr int kMostFailures = 60;
  const std::unique_ptr<Listener> listener(static_cast<Listener*>(given));
  const Api& api = listener->pattern.api;
  if (api.EventSetCreate == nullptr || api.EventSetWait == nullptr) return nullptr;
  nvmlEventSet_t set = nullptr;
  if (api.EventSetCreate(&set) != NVML_SUCCESS) return nullptr;
  const Heard heard = listen(listener->pattern, listener->devices, set);
  if (heard.empty()) return nullptr;
  for (int failures = 0; failures < kMostFailures;) {
    nvmlEventData_t event{};
    const nvmlReturn_t code = api.EventSetWait(set, &event, kWaitMilliseconds);
    if (code == NVML_ERROR_TIMEOUT) continue;
    if (code != NVML_SUCCESS) {
      ++failures;
      poll(nullptr, 0, kWaitMilliseconds);
      continue;
    }
    const auto device = std::find_if(heard.begin(), heard.end(),
                                     [&](const auto& one) { return one.first == event.device; });
    if (event.eventType != NVML_EVENT_XID || device == heard.end()) continue;
    listener->pattern.sink.send(
        frames::Event{{device->second, static_cast<int>(event.eventData & 0xFFFFU),
                       nanoseconds(CLOCK_REALTIME) / 1'000'000}});
  }
  return nullptr;
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

// Starts one thread per device. The calling thread reads every device for which no thread could be
// created. It also reads the last device, unless it must stay free.
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

void start_listener(const Job& pattern, std::uint32_t devices) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, kStackBytes);
  auto listener = std::make_unique<Listener>(Listener{pattern, devices});
  pthread_t thread{};
  if (pthread_create(&thread, &small, report_xids, listener.get()) == 0)
    static_cast<void>(listener.release());
}

void run_one_by_one(const Job& pattern, std::uint32_t devices) {
  for (const std::uint32_t position : pattern.task.one_by_one) {
    Job job = pattern;
    job.position = position;
    if (position < devices) look_once(job);
  }
}

// ---- startup

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

// The main thread of a sampling child. It ends the child when the parent closes its end of the
// pipe.
[[noreturn]] void wait_for_parent(const Sink& sink, int requests, Pause& pause) {
  for (;;) {
    std::array<pollfd, 2> waits{{{sink.descriptor(), 0, 0}, {requests, POLLIN, 0}}};
    if (poll(waits.data(), waits.size(), -1) < 0 && errno == EINTR) continue;
    if (waits[0].revents != 0) _exit(0);
    signalfd_siginfo ignored;
    if (read(requests, &ignored, sizeof ignored) <= 0) _exit(0);
    pause.end_now();
  }
}

// Call this before the first thread starts. New threads inherit the blocked signal, so only this
// descriptor receives it.
int listen_for_requests() {
  sigset_t requests;
  sigemptyset(&requests);
  sigaddset(&requests, kSampleNow);
  pthread_sigmask(SIG_BLOCK, &requests, nullptr);
  return signalfd(-1, &requests, SFD_CLOEXEC);
}

}  // namespace

void run_nvml_child(int pipe, const NvmlTask& task) {
  // Use a single malloc arena: one arena per thread would cost memory and save little time. No
  // other thread runs yet.
  mallopt(M_ARENA_MAX, 1);  // NOLINT(concurrency-mt-unsafe)
  Sink sink(pipe);
  Pause pause;
  const bool sampling = task.interval.count() > 0;
  const int requests = sampling ? listen_for_requests() : -1;
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
  const std::uint32_t here = count_devices(task, api, &counted);
  const std::uint32_t devices = std::min(here, frames::kMostDevices);
  if (counted != NVML_SUCCESS) fail(sink, counted);
  const nvml::DriverWords words = nvml::read_driver(api);
  sink.send(frames::Ready{nanoseconds(CLOCK_MONOTONIC), devices, words.version, words.cuda_version,
                          here - devices});
  if (task.one_by_one.empty()) {
    if (sampling && task.pace.xids) start_listener(Job{task, api, sink, pause}, devices);
    run_all(Job{task, api, sink, pause}, devices, sampling);
  } else {
    run_one_by_one(Job{task, api, sink, pause}, devices);
  }
  if (sampling) wait_for_parent(sink, requests, pause);
  sink.send(frames::Done{});
  _exit(0);
}

}  // namespace berth::inventory
