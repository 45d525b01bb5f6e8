// What a driver answers is checked before it becomes a reading: a code can say no, a sentinel can
// mean "not available", and the number itself can be nonsense. None of these may ever become a 0.
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

/// Why a call that was answered with `code` gave no reading; of no use for NVML_SUCCESS.
[[nodiscard]] model::Absence absence(nvmlReturn_t code);

/// What a reading can be in this world; beyond it the driver talks nonsense.
struct Range {
  std::uint64_t least = 0;
  std::uint64_t most = 0;
};
inline constexpr Range kPercent{0, 100};
inline constexpr Range kFanPercent{0,
                                   150};  // the driver's documentation says that it may exceed 100
inline constexpr Range kCelsius{1, 200};
inline constexpr Range kMilliwatts{1, 2'000'000};
inline constexpr Range kMegahertz{1, 100'000};
inline constexpr Range kPcieGeneration{1, 16};
inline constexpr Range kPcieWidth{1, 64};
inline constexpr Range kCount{0, std::uint64_t{1} << 48};
inline constexpr Range kMillijoules{0, std::uint64_t{1} << 60};
inline constexpr Range kMemory{1, std::uint64_t{1} << 50};

/// `code` first, then the sentinel (all bits set), then the range (kFailed outside).
template <typename To, typename Raw>
[[nodiscard]] model::Reading<To> checked(nvmlReturn_t code, Raw raw, Range range) {
  if (code != NVML_SUCCESS) return absence(code);
  if (raw == std::numeric_limits<Raw>::max()) return model::Absence::kNotSupported;
  if (raw < range.least || raw > range.most) return model::Absence::kFailed;
  return static_cast<To>(raw);
}

/// One device while it is being looked at. Once it is lost no further call is made: each could take
/// long, and none can succeed. Nor is one made that would, at the pace of the slowest before it,
/// not be over by `until`: what a slow driver told so far is worth more than a look that comes too
/// late.
struct Look {
  using Clock = std::chrono::steady_clock;

  const Api& api;
  nvmlDevice_t device = nullptr;
  Clock::time_point until = Clock::time_point::max();
  bool lost = false;
  bool late = false;
  Clock::duration slowest{};

  /// Calls a function of the table; one that is missing answers FUNCTION_NOT_FOUND.
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

/// Text from a buffer of the driver's: ends at the buffer's end if nothing ended it before, and is
/// printable; "" for "N/A".
[[nodiscard]] std::string text_of(const char* buffer, std::size_t size);
/// As above, and "" unless it consists of letters, digits and '-': what may go into an environment
/// variable.
[[nodiscard]] std::string uuid_of(const char* buffer, std::size_t size);

}  // namespace berth::nvml
