// A lease gives the right to use devices until the lease or this process ends.
#pragma once

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "devices.hpp"
#include "driver.hpp"
#include "error.hpp"
#include "library.hpp"

namespace berth {

/// What a lease requests. If no member is set, this is one GPU or, on a machine without a GPU, the
/// CPU.
struct Request {
  /// Number of GPUs that no other job may use; 0 means the CPU.
  std::optional<int> gpus;
  /// Memory on a device that other jobs may use, too. `share` may add a share of its time, above 0
  /// and up to 1.
  std::optional<std::int64_t> memory_bytes;
  std::optional<double> share;
  /// Number of CPUs. They are chosen near the device.
  std::optional<int> cpus;
  /// The devices to use, each by index, uuid or PCI address.
  std::vector<std::string> devices;
  /// The name to show in `berth jobs`.
  std::string name;
  /// The longest time to wait. 0 means not to wait. If absent, waits until the lease is granted.
  std::optional<std::chrono::duration<double>> wait;
  /// Whether to print on stderr what the lease waits for.
  bool report = true;
};

/// A device that belongs to a lease.
struct LeasedDevice {
  /// The device's number in `berth ls`. CUDA and HIP number the devices of a lease differently: 0,
  /// 1, …
  std::optional<int> index;
  std::string vendor;
  std::optional<std::string> name, uuid, partition_uuid;
};

namespace detail {

using Setting = std::pair<std::string, std::optional<std::string>>;

/// What must be restored and given back when a lease ends.
struct Held {
  const Library* library = nullptr;
  berth_lease* handle = nullptr;
  pid_t owner = 0;
  std::thread::id thread;
  std::vector<Setting> before;
  std::optional<cpu_set_t> affinity;
  /// Other leases that have ended while this lease still used their devices. They are given back
  /// when this lease ends.
  std::vector<std::pair<berth_lease*, int>> later;
};

/// The leases of this process, in the order of their requests. All but the first belong to the job
/// of the first.
struct Leases {
  std::mutex guard;
  std::vector<Held*> held;
};
__attribute__((visibility("default"))) inline Leases& leases() {
  static Leases all;
  return all;
}

inline void set_variable(const std::string& name, const std::optional<std::string>& value) {
  if (value)
    ::setenv(name.c_str(), value->c_str(), 1);
  else
    ::unsetenv(name.c_str());
}

/// Sets a variable for a lease, and stores its earlier value in `held`.
inline void set_for(Held& held, const std::string& name, const std::optional<std::string>& value) {
  const bool known = std::any_of(held.before.begin(), held.before.end(),
                                 [&](const Setting& one) { return one.first == name; });
  if (!known) {
    const char* const was = std::getenv(name.c_str());
    held.before.emplace_back(name, was == nullptr ? std::nullopt : std::optional<std::string>(was));
  }
  set_variable(name, value);
}

/// The CPUs in a list such as "0-7,16"; absent if a number in it is too large.
inline std::optional<cpu_set_t> processors_of(const std::string& ranges) {
  cpu_set_t all;
  CPU_ZERO(&all);
  const char* at = ranges.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    long last = first;
    if (end == at) return std::nullopt;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    if (first < 0 || last < first || last >= CPU_SETSIZE) return std::nullopt;
    for (long one = first; one <= last; ++one) CPU_SET(static_cast<std::size_t>(one), &all);
    at = *end == ',' ? end + 1 : end;
    if (*end != ',' && *end != '\0') return std::nullopt;
  }
  return all;
}

/// Sets the CPU affinity of this thread. Threads that it starts later inherit it.
inline void set_processors(Held& held, const std::string& ranges) {
  cpu_set_t before;
  const auto wanted = processors_of(ranges);
  if (!wanted || ::sched_getaffinity(0, sizeof before, &before) != 0) return;
  if (::sched_setaffinity(0, sizeof *wanted, &*wanted) == 0)
    held.affinity = before;
  else  // the cpuset has changed in the meantime
    std::fprintf(
        stderr, "%s %s\n",
        text("berth: these processors could not be set:", "berth：无法设置这些处理器：").c_str(),
        ranges.c_str());
}

/// The text as a JSON string, in quotes.
inline std::string quoted(std::string_view from) {
  std::string to = "\"";
  for (const char one : from) {
    if (one == '"' || one == '\\') to += '\\';
    if (static_cast<unsigned char>(one) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(one));
      to += escaped;
    } else {
      to += one;
    }
  }
  return to + "\"";
}

inline std::optional<Error> problem_of(const Request& request) {
  constexpr int kMostGpus = 1024,
                kMostCpus = 8192;  // these limits are those of the program `berth`
  constexpr std::int64_t kLeastBytes =
      1 << 20;  // a smaller number, such as 8, was surely not meant as bytes
  const auto wrong = [](const char* id, std::string message, std::string hint = {}) {
    return Error(Kind::invalid_request, id, std::move(message), std::move(hint));
  };
  const auto range = [&](const char* name, int least, int most) {
    return wrong("E0104", std::string(name) + text(" is not from ", " 不在 ") +
                              std::to_string(least) + text(" to ", " 到 ") + std::to_string(most) +
                              text("", " 之间"));
  };
  if (request.gpus && (*request.gpus < 0 || *request.gpus > kMostGpus))
    return range("gpus", 0, kMostGpus);
  if (request.cpus && (*request.cpus < 1 || *request.cpus > kMostCpus))
    return range("cpus", 1, kMostCpus);
  if (request.memory_bytes && *request.memory_bytes < kLeastBytes)
    return wrong("E0101", text("memory_bytes is less than 1 MiB", "memory_bytes 小于 1 MiB"),
                 "memory_bytes = std::int64_t{8} << 30");
  if (request.share && !(*request.share > 0 && *request.share <= 1))
    return wrong("E0102", text("share is not a part of a device", "share 不是设备的一部分"),
                 "share = 0.3");
  if (request.wait && !(request.wait->count() >= 0))
    return wrong("E0104", text("wait is less than 0", "wait 小于 0"));
  if (request.gpus == 0 && (request.memory_bytes || request.share || !request.devices.empty()))
    return wrong("E0010",
                 text("gpus = 0 is the CPU, and memory_bytes, share or devices are of a GPU",
                      "gpus = 0 表示 CPU，而 memory_bytes、share、devices 属于 GPU"));
  return std::nullopt;
}

/// The request as JSON, for the body of POST /v1/jobs.
inline std::string wish_of(const Request& request) {
  constexpr double kPermille = 1000;
  std::string inner;
  const auto add = [&](const char* key, const std::string& value) {
    inner += (inner.empty() ? "" : ",") + quoted(key) + ":" + value;
  };
  if (request.gpus) add("gpus", std::to_string(*request.gpus));
  if (request.memory_bytes) add("memory_bytes", std::to_string(*request.memory_bytes));
  if (request.share)
    add("share_permille", std::to_string(std::max(1L, std::lround(*request.share * kPermille))));
  if (request.cpus) add("cpus", std::to_string(*request.cpus));
  if (!request.devices.empty()) {
    std::string list;
    for (const std::string& one : request.devices) list += (list.empty() ? "" : ",") + quoted(one);
    add("devices", "[" + list + "]");
  }
  return "{\"request\":{" + inner + "},\"name\":" + quoted(request.name) + ",\"command\":[" +
         quoted(::program_invocation_short_name) + "]}";
}

/// Whether a variable of this name selects devices for a driver.
inline bool selects(std::string_view name) {
  for (const char* const part : {"VISIBLE_", "AFFINITY_MASK", "DEVICE_SELECTOR", "DEVICE_ORDINAL"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

/// Whether the request is for all GPUs of this machine. Then it does not matter that a driver has
/// already read its devices.
inline bool is_for_all(const Request& request) {
  for (char** one = ::environ; one != nullptr && *one != nullptr; ++one) {
    const std::string_view all = *one;
    if (selects(all.substr(0, all.find('=')))) return false;
  }
  const auto found = try_devices();
  return found && std::count_if(found->begin(), found->end(), [](const Device& device) {
                    return device.is_gpu();
                  }) == request.gpus.value_or(1);
}

inline std::string not_seen() {
  return text(" is already initialised, so it would not see which device the lease has",
              " 已初始化，因此看不到租约给的是哪个设备");
}

/// Ends the lease. If a later lease is still in use, the devices are given back when that one ends.
inline void end(Held& held, int exit_code) {
  std::vector<std::pair<berth_lease*, int>> ends;
  {
    const std::scoped_lock lock(leases().guard);
    auto& all = leases().held;
    const auto at = std::find(all.begin(), all.end(), &held);
    Held* const above = at != all.end() && at + 1 != all.end() ? *(at + 1) : nullptr;
    if (at != all.end()) all.erase(at);
    if (held.handle == nullptr) return;
    ends = std::move(held.later);
    ends.emplace_back(std::exchange(held.handle, nullptr), exit_code);
    if (held.owner != ::getpid()) {  // a forked child must not end its parent's lease
      held.before.clear();
      held.affinity.reset();
    } else if (above != nullptr) {
      above->later.insert(above->later.begin(), ends.begin(), ends.end());
      for (Setting& one : held.before) {
        const auto same = std::find_if(above->before.begin(), above->before.end(),
                                       [&](const Setting& its) { return its.first == one.first; });
        if (same == above->before.end())
          above->before.push_back(std::move(one));
        else
          same->second = std::move(one.second);
      }
      if (held.affinity) above->affinity = held.affinity;
      return;
    }
  }
  for (const auto& [name, value] : held.before) set_variable(name, value);
  if (held.affinity) ::sched_setaffinity(0, sizeof *held.affinity, &*held.affinity);
  for (const auto& [handle, code] : ends) held.library->lease_end(handle, code);
}

}  // namespace detail

/// A lease that was granted. Its destructor ends it; if an exception passes through, it ends as
/// failed.
///
/// It sets environment variables (CUDA_VISIBLE_DEVICES, …) and restores them at its end: take it
/// before the first use of a device, and before other threads start.
class Lease {
 public:
  Lease(Lease&&) noexcept = default;
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      end();
      held_ = std::move(other.held_);
      job_ = other.job_;
      devices_ = std::move(other.devices_);
      environment_ = std::move(other.environment_);
      exceptions_ = other.exceptions_;
    }
    return *this;
  }
  ~Lease() { end(std::uncaught_exceptions() > exceptions_ ? 1 : 0); }

  /// The number of the job, as in `berth jobs`.
  [[nodiscard]] long long job() const noexcept { return job_; }
  /// The devices, in the order in which CUDA or HIP numbers them. Empty if the job uses the CPU.
  [[nodiscard]] const std::vector<LeasedDevice>& devices() const noexcept { return devices_; }
  /// The variables that the lease has set. A variable without a value was removed.
  [[nodiscard]] const std::vector<detail::Setting>& environment() const noexcept {
    return environment_;
  }
  /// Gives the devices back. `exit_code` is that of the job; 0 means success. A second call does
  /// nothing.
  void end(int exit_code = 0) noexcept {
    if (held_) detail::end(*held_, exit_code);
    held_.reset();
  }

 private:
  friend Result<Lease> try_lease(const Request& request);
  Lease() = default;
  [[nodiscard]] Result<detail::Document> wait_for(const Request& request);
  [[nodiscard]] Error refused() const;
  [[nodiscard]] std::optional<Error> take(const Request& request, const detail::Document& granted,
                                          const char* driver);

  std::unique_ptr<detail::Held> held_;
  long long job_ = 0;
  std::vector<LeasedDevice> devices_;
  std::vector<detail::Setting> environment_;
  int exceptions_ = std::uncaught_exceptions();
};

/// The error of a lease that was not granted. It names the jobs or processes that hold the devices.
inline Error Lease::refused() const {
  char* why = nullptr;
  if (held_->library->lease_why(held_->handle, &why) != 0)
    return detail::last_error(*held_->library);
  const auto said = detail::taken(*held_->library, why);
  if (!said) return said.error();
  return {Kind::refused, "E0412", said->text("/message").value_or(""),
          said->text("/hint").value_or("")};
}

inline Result<detail::Document> Lease::wait_for(const Request& request) {
  constexpr double kPollSeconds = 0.1, kNoticeSeconds = 1.0;
  const auto begun = std::chrono::steady_clock::now();
  bool noticed = false;
  for (double waited = 0;;) {
    const double left = request.wait ? request.wait->count() - waited : kPollSeconds;
    const int step = static_cast<int>(std::clamp(left, 0.001, kPollSeconds) * 1000);
    char* granted = nullptr;
    if (held_->library->lease_wait(held_->handle, step, &granted) != 0)
      return detail::last_error(*held_->library);
    if (granted != nullptr) return detail::taken(*held_->library, granted);
    waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (request.wait && waited >= request.wait->count()) return refused();
    if (request.report && !noticed && waited > kNoticeSeconds) {
      noticed = true;
      std::fprintf(stderr, "%s%s\n", detail::text("berth: waiting: ", "berth：正在等待：").c_str(),
                   refused().message().c_str());
    }
  }
}

inline std::optional<Error> Lease::take(const Request& request, const detail::Document& granted,
                                        const char* driver) {
  job_ = granted.integer("/job/id").value_or(0);
  for (const std::string& at : granted.elements("/environment/devices")) {
    LeasedDevice one;
    if (const auto index = granted.integer(at + "/device")) one.index = static_cast<int>(*index);
    one.vendor = granted.text(at + "/vendor").value_or("");
    one.name = granted.text(at + "/name");
    one.uuid = granted.text(at + "/uuid");
    one.partition_uuid = granted.text(at + "/partition_uuid");
    devices_.push_back(std::move(one));
  }
  const bool inner = [&] {
    const std::scoped_lock lock(detail::leases().guard);
    return detail::leases().held.front() != held_.get();
  }();
  for (const std::string& wanted : request.devices) {
    const bool index =
        !wanted.empty() && wanted.find_first_not_of("0123456789") == std::string::npos;
    const bool has = std::any_of(devices_.begin(), devices_.end(), [&](const LeasedDevice& one) {
      return (one.index && std::to_string(*one.index) == wanted) || one.uuid == wanted;
    });
    if (inner && !has && (index || wanted.substr(0, 4) == "GPU-"))
      return Error(
          Kind::refused, "E0421",
          detail::text("the outer lease does not have device ", "外层租约没有设备 ") + wanted,
          detail::text("the outer lease with this device", "在外层租约中加入该设备"));
  }
  for (const std::string& at : granted.elements("/environment/settings")) {
    const std::string action = granted.text(at + "/action").value_or("keep");
    if (action == "keep") continue;
    environment_.emplace_back(granted.text(at + "/name").value_or(""),
                              action == "set" ? granted.text(at + "/value") : std::nullopt);
  }
  // If a driver has already read its devices, the lease is allowed only if it does not change them.
  for (const auto& [name, value] : environment_) {
    const char* const now = std::getenv(name.c_str());
    if (driver != nullptr && detail::selects(name) &&
        (now == nullptr ? std::nullopt : std::optional<std::string>(now)) != value)
      return detail::too_late(driver, detail::not_seen());
  }
  for (const auto& [name, value] : environment_) detail::set_for(*held_, name, value);
  detail::set_for(*held_, "BERTH_JOB", std::to_string(job_));
  if (const auto cpus = granted.text("/environment/cpus")) detail::set_processors(*held_, *cpus);
  return std::nullopt;
}

/// Asks the broker for devices and waits until they are granted, as `berth run` does. Starts a
/// broker if there is none. Inside a job of `berth run`, the lease is the job's own.
///
/// Fails with E0412 if it was not granted within `wait`, with E0411 if this machine has no such
/// device, and with E0572 if a driver of this process is already initialised.
inline Result<Lease> try_lease(const Request& request = {}) {
  if (auto problem = detail::problem_of(request)) return *std::move(problem);
  const auto& library = detail::library();
  if (!library) return library.error();
  const char* driver = request.gpus == 0 ? nullptr : detail::initialised_driver();
  if (driver != nullptr && std::getenv("BERTH_JOB") == nullptr) {
    if (!detail::is_for_all(request)) return detail::too_late(driver, detail::not_seen());
    driver = nullptr;
  }
  Lease lease;
  lease.held_ = std::make_unique<detail::Held>();
  detail::Held& held = *lease.held_;
  held.library = &*library;
  held.owner = ::getpid();
  held.thread = std::this_thread::get_id();
  {
    const std::scoped_lock lock(detail::leases().guard);
    for (const detail::Held* const other : detail::leases().held)
      if (other->owner == held.owner && other->thread != held.thread)
        return Error(Kind::refused, "E0573",
                     detail::text("this process has a lease, or waits for one, in another thread",
                                  "该进程的另一个线程已持有或正在等待租约"),
                     detail::text("one lease around all threads; or a process each",
                                  "用一个租约包住所有线程；或每个使用单独的进程"));
    detail::leases().held.push_back(&held);
  }
  if (library->lease_ask(detail::wish_of(request).c_str(), &held.handle) != 0) {
    held.handle = nullptr;
    return detail::last_error(*library);  // ~Lease removes `held` from the list
  }
  const auto granted = lease.wait_for(request);
  auto problem = granted ? lease.take(request, *granted, driver) : granted.error();
  if (!problem) return lease;
  lease.end(1);
  return *std::move(problem);
}

#if defined(__cpp_exceptions)
[[nodiscard]] inline Lease lease(const Request& request = {}) {
  return detail::value_or_throw(try_lease(request));
}
#endif

}  // namespace berth
