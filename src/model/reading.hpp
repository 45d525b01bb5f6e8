// Reading<T>: one measured value, or the reason why it is absent. Absent is never 0: a table shows
// "-"; JSON shows null, and gives the reason under "absent".
#pragma once

#include <optional>
#include <string_view>
#include <utility>

namespace berth::model {

enum class Absence : unsigned char {
  kNotAsked,          // not requested (it blocks, or it would wake the device)
  kNotSupported,      // the device or its driver does not support it
  kNoPermission,      //
  kNeedsTwoReadings,  // the value is a rate, which needs two readings
  kAsleep,            // reading would wake the device
  kNoAnswer,          // the driver did not answer in time
  kLost,              // the device fell off the bus
  kFailed,            // the driver returned another error, or an invalid value
  // The following reasons are used only for values of a job, which are never sent between
  // processes:
  kTooShort,  // the job ended before this could be measured
  kNotSeen,   // none of the job's processes was seen on the device
};
/// "not asked", "not supported", "no permission", "needs two readings", "asleep", "no answer",
/// "lost", "failed", "too short", "not seen": stable, for JSON.
[[nodiscard]] std::string_view name(Absence why);
/// Why a sysfs file of a device could not be read, from errno.
[[nodiscard]] Absence absence_of(int error_number);

template <typename T>
struct Reading {
  std::optional<T> value;
  Absence why = Absence::kNotAsked;  // the reason; only valid if there is no value
  /// If the value is a mean, over how many seconds. 0: the value at one moment; below 0: not known.
  /// A float, because a double would make each reading larger.
  float window_seconds = -1;

  Reading() = default;
  Reading(T given) : value(std::move(given)) {}  // NOLINT(google-explicit-constructor)
  Reading(Absence absence) : why(absence) {}     // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
  const T* operator->() const { return &*value; }
  /// The same reading with this window.
  [[nodiscard]] Reading over(double seconds) const {
    Reading copy = *this;
    copy.window_seconds = static_cast<float>(seconds);
    return copy;
  }
  [[nodiscard]] T value_or(T other) const { return value.value_or(std::move(other)); }
};

}  // namespace berth::model
