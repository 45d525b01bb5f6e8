// Berth for C++17 and later: devices, leases, and tries that are repeated when memory ran out.
// docs/cpp.md describes it.
//
// Header-only. Functions that can fail throw berth::Error; the same function with try_ in front of
// its name returns a Result, and works with -fno-exceptions. Only compute() loads a driver into the
// process.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devices.hpp"
#include "driver.hpp"
#include "error.hpp"
#include "kernels.hpp"
#include "lease.hpp"
#include "library.hpp"
#include "out_of_memory.hpp"
#include "retry.hpp"

namespace berth {
namespace detail {
/// When the program or library with this code was loaded.
inline const std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
}  // namespace detail

/// Hides the GPUs of NVIDIA, AMD and Intel from libraries that are initialised later in this
/// process. It sets environment variables, so call it before other threads start. Fails with E0572
/// if a driver is already initialised. Programs that call Level Zero or OpenCL directly still see
/// Intel's GPU.
inline Result<Done> try_hide() {
  if (const char* const driver = detail::initialised_driver())
    return detail::too_late(driver, detail::text(" is already initialised, and keeps its devices",
                                                 " 已初始化，并会继续使用其设备"));
  constexpr std::pair<const char*, const char*> kHides[] = {
      {"CUDA_VISIBLE_DEVICES", "-1"}, {"HIP_VISIBLE_DEVICES", "-1"},
      {"ROCR_VISIBLE_DEVICES", "-1"}, {"ONEAPI_DEVICE_SELECTOR", "*:cpu"},
      {"JAX_PLATFORMS", "cpu"},       {"PJRT_DEVICE", "CPU"}};
  for (const auto& [name, value] : kHides) ::setenv(name, value, 1);
  return Done();
}

/// What this process has used so far.
struct Report {
  /// A GPU on which this process has memory.
  struct Use {
    int index = 0;
    std::optional<std::string> uuid;
    std::optional<std::int64_t> memory_bytes;
  };
  double wall_seconds = 0, cpu_seconds = 0;
  /// The largest resident memory that this process has had.
  std::int64_t peak_memory_bytes = 0;
  /// How often memory ran out in retry(), and how often retry() tried again.
  long out_of_memory = 0, retries = 0;
  double retry_wait_seconds = 0;
  /// The GPUs that this process uses. Absent if they are not known; `why` then has the reason.
  std::optional<std::vector<Use>> gpus;
  std::string why;

  /// The report in one line, for people.
  [[nodiscard]] std::string text() const;
};

/// Reports what this process has used. Does not fail: values that cannot be read are absent.
inline Report report() {
  Report out;
  const auto& retried = detail::retry_counts();
  out.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - detail::began).count();
  rusage used = {};
  if (::getrusage(RUSAGE_SELF, &used) == 0) {
    constexpr std::int64_t kKibibyte = 1024;
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    out.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
    out.peak_memory_bytes = used.ru_maxrss * kKibibyte;
  }
  out.out_of_memory = retried.out_of_memory;
  out.retries = retried.retries;
  out.retry_wait_seconds = static_cast<double>(retried.waited_microseconds) * 1e-6;
  const auto seen = detail::document({"ps"});
  if (!seen) {
    out.why = seen.error().what();
    return out;
  }
  out.gpus.emplace();
  for (const std::string& at : seen->elements("/processes")) {
    if (seen->integer(at + "/pid") != ::getpid()) continue;
    out.gpus->push_back({static_cast<int>(seen->integer(at + "/device").value_or(-1)),
                         seen->text(at + "/device_uuid"), seen->integer(at + "/memory_bytes")});
  }
  return out;
}

inline std::string Report::text() const {
  const auto number = [](double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.1f", value);
    return std::string(digits);
  };
  const auto size = [&](std::int64_t bytes) {
    constexpr double kMebibyte = 1024.0 * 1024;
    return number(static_cast<double>(bytes) / kMebibyte) + " MiB";
  };
  const auto say = [](const char* english, const char* chinese) {
    return detail::text(english, chinese);
  };
  std::string all = say("berth  done in ", "berth  用时 ") + number(wall_seconds) + " s   CPU " +
                    number(cpu_seconds) + say(" s   peak ", " s   峰值 ") +
                    size(peak_memory_bytes) + " RSS";
  if (!gpus) all += say("   GPUs not known", "   GPU 未知");
  if (gpus && gpus->empty()) all += say("   no GPU memory in use", "   未占用显存");
  if (gpus)
    for (const Use& one : *gpus)
      all += "   GPU " + std::to_string(one.index) + " " +
             (one.memory_bytes ? size(*one.memory_bytes) : say("not known", "未知"));
  if (out_of_memory != 0)
    all += say("   out of memory ", "   内存耗尽 ") + std::to_string(out_of_memory) +
           say(" times, ", " 次，重试 ") + std::to_string(retries) +
           say(" retries after ", " 次，等待 ") + number(retry_wait_seconds) + " s";
  return all;
}

#if defined(__cpp_exceptions)
inline void hide() {
  detail::value_or_throw(try_hide());
}
#endif

}  // namespace berth
