// Reading<T>: a measured value, or the reason why it is absent. An absent value is never shown as
// 0: a table shows "-"; JSON shows null, and the reason under "absent".
#pragma once

#include <optional>
#include <string_view>
#include <utility>

namespace berth::model {

enum class Absence : unsigned char {
  kNotAsked,      // the value was not requested, because reading it blocks or would wake the device
  kNotSupported,  // the device or its driver cannot report this value
  kNoPermission,  //
  kNeedsTwoReadings,  // the value is a rate, which needs two readings
  kAsleep,            // reading the value would wake the device
  kNoAnswer,          // the driver did not answer in time
  kLost,              // the device fell off the bus
  kFailed,            // the driver returned another error or an invalid value
  // The following reasons occur only for values of a job. They are never sent between processes.
  kTooShort,  // the job ended before this could be measured
  kNotSeen,   // none of the job's processes was seen on the device
};
/// The reason in JSON: "not asked", "not supported", "no permission", "needs two readings",
/// "asleep", "no answer", "lost", "failed", "too short", "not seen".
[[nodiscard]] std::string_view name(Absence why);
/// The reason why a sysfs file of a device could not be read, derived from errno.
[[nodiscard]] Absence absence_of(int error_number);

template <typename T>
struct Reading {
  std::optional<T> value;
  Absence why = Absence::kNotAsked;  // the reason; only valid if there is no value
  /// Over how many seconds the value is a mean. 0: it is a value at one moment. Negative: not
  /// known. A float keeps the reading smaller than a double would.
  float window_seconds = -1;

  Reading() = default;
  Reading(T given) : value(std::move(given)) {}  // NOLINT(google-explicit-constructor)
  Reading(Absence absence) : why(absence) {}     // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
  const T* operator->() const { return &*value; }
  /// A copy of this reading with the window `seconds`.
  [[nodiscard]] Reading over(double seconds) const {
    Reading copy = *this;
    copy.window_seconds = static_cast<float>(seconds);
    return copy;
  }
  [[nodiscard]] T value_or(T other) const { return value.value_or(std::move(other)); }
};

}  // namespace berth::model
