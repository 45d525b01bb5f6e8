// Checks a driver's answer before it becomes a reading. The return code can be an error. The value
// can mean "not available", or be out of range. None of these may become 0.
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

/// Converts an error code of NVML to the reason why there is no reading. Do not call it for
/// NVML_SUCCESS.
[[nodiscard]] model::Absence absence(nvmlReturn_t code);

/// The valid range of a reading. A value outside is an error of the driver.
struct Range {
  std::uint64_t least = 0;
  std::uint64_t most = 0;
};
inline constexpr Range kPercent{0, 100};
inline constexpr Range kFanPercent{0,
                                   150};  // fans may run above 100 %, as NVML's documentation says
inline constexpr Range kCelsius{1, 200};
inline constexpr Range kMilliwatts{1, 2'000'000};
inline constexpr Range kMegahertz{1, 100'000};
inline constexpr Range kPcieGeneration{1, 16};
inline constexpr Range kPcieWidth{1, 64};
inline constexpr Range kCount{0, std::uint64_t{1} << 48};
inline constexpr Range kMillijoules{0, std::uint64_t{1} << 60};
inline constexpr Range kMemory{1, std::uint64_t{1} << 50};

/// Converts a value to a reading. First checks `code`. If all bits of `raw` are set, the value is
/// not supported. If it is outside the range, the reading is kFailed.
template <typename To, typename Raw>
[[nodiscard]] model::Reading<To> checked(nvmlReturn_t code, Raw raw, Range range) {
  if (code != NVML_SUCCESS) return absence(code);
  if (raw == std::numeric_limits<Raw>::max()) return model::Absence::kNotSupported;
  if (raw < range.least || raw > range.most) return model::Absence::kFailed;
  return static_cast<To>(raw);
}

/// The state while one device is read. After the device is lost, no more calls are made: each could
/// take long, and none can succeed. A call is also skipped if it would end after `until`, assuming
/// that it takes as long as the slowest call so far. Some values in time are better than all values
/// too late.
struct Look {
  using Clock = std::chrono::steady_clock;

  const Api& api;
  nvmlDevice_t device = nullptr;
  Clock::time_point until = Clock::time_point::max();
  bool lost = false;
  bool late = false;
  Clock::duration slowest{};

  /// Calls a function of the table. Returns FUNCTION_NOT_FOUND if the library lacks the function.
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

/// Returns the printable text in a driver's buffer, which may lack a terminating NUL; "" for "N/A".
[[nodiscard]] std::string text_of(const char* buffer, std::size_t size);
/// Returns the uuid in a driver's buffer; "" if it has other characters than letters, digits and
/// '-'. So the result is safe in an environment variable.
[[nodiscard]] std::string uuid_of(const char* buffer, std::size_t size);

}  // namespace berth::nvml
