// Checks a driver's answer before it becomes a reading: the code can be an error, the value can be
// a "not available" sentinel or out of range. None of these may become 0.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "model/reading.hpp"
#include "vendor/nvml/library.hpp"

namespace berth::nvml {

/// Why a call with this return code gave no reading; meaningless for NVML_SUCCESS.
[[nodiscard]] model::Absence absence(nvmlReturn_t code);

/// The valid range of a reading; values outside it are driver errors.
struct Range {
  std::uint64_t least = 0;
  std::uint64_t most = 0;
};
inline constexpr Range kPercent{0, 100};
inline constexpr Range kFanPercent{
    0, 150};  // the driver's documentation says that it may be above 100
inline constexpr Range kCelsius{1, 200};
inline constexpr Range kMilliwatts{1, 2'000'000};
inline constexpr Range kMegahertz{1, 100'000};
inline constexpr Range kPcieGeneration{1, 16};
inline constexpr Range kPcieWidth{1, 64};
inline constexpr Range kCount{0, std::uint64_t{1} << 48};
inline constexpr Range kMillijoules{0, std::uint64_t{1} << 60};
inline constexpr Range kMemory{1, std::uint64_t{1} << 50};

/// Checks `code`, then the sentinel (all bits set), then the range (kFailed outside).
template <typename To, typename Raw>
[[nodiscard]] model::Reading<To> checked(nvmlReturn_t code, Raw raw, Range range) {
  if (code != NVML_SUCCESS) return absence(code);
  if (raw == std::numeric_limits<Raw>::max()) return model::Absence::kNotSupported;
  if (raw < range.least || raw > range.most) return model::Absence::kFailed;
  return static_cast<To>(raw);
}

/// The state of reading one device. After the device is lost, no more calls are made: each could
/// take long, and none can succeed. A call is also skipped if it would end after `until`, assuming
/// that it takes as long as the slowest call so far: partial values in time are better than a late
/// scan.
struct Look {
  using Clock = std::chrono::steady_clock;

  const Api& api;
  nvmlDevice_t device = nullptr;
  Clock::time_point until = Clock::time_point::max();
  bool lost = false;
  bool late = false;
  Clock::duration slowest{};

  /// Calls a function of the table. If it is missing, returns FUNCTION_NOT_FOUND.
  template <typename... Parameters>
  nvmlReturn_t operator()(nvmlReturn_t (*function)(Parameters...),
                          std::type_identity_t<Parameters>... arguments) {
    if (lost) return NVML_ERROR_GPU_IS_LOST;
    if (function == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
    const Clock::time_point start = Clock::now();
    late = late || start > until - slowest;
    if (late) return NVML_ERROR_TIMEOUT;
    const nvmlReturn_t code = function(arguments...);
    slowest = std::max(slowest, Clock::now() - start);
    lost = code == NVML_ERROR_GPU_IS_LOST;
    return code;
  }
};

/// Printable text from a driver's buffer, which need not be terminated; "" for "N/A".
[[nodiscard]] std::string text_of(const char* buffer, std::size_t size);
/// Like text_of(), but "" unless the text consists only of letters, digits and '-'. This makes it
/// safe in an environment variable.
[[nodiscard]] std::string uuid_of(const char* buffer, std::size_t size);

}  // namespace berth::nvml
