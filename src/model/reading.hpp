// Reading<T>: one measured value, or the reason why there is none. Absent is never 0: a table shows
// "-", JSON shows null and the reason stands beside it under "absent".
#pragma once

#include <optional>
#include <string_view>
#include <utility>

namespace berth::model {

enum class Absence : unsigned char {
  kNotAsked,          // nobody asked for it (it blocks, or it would wake the device)
  kNotSupported,      // the device or its driver has no such reading
  kNoPermission,      //
  kNeedsTwoReadings,  // a rate: one look cannot tell
  kAsleep,            // asking would wake the device
  kNoAnswer,          // the driver did not answer in time
  kLost,              // the device fell off the bus
  kFailed,            // the driver answered with an error of another kind, or with nonsense
  // Of a job alone, so never on the wire:
  kTooShort,  // it was over before this could be measured
  kNotSeen,   // none of its processes was seen on the device
};
/// "not asked", "not supported", "no permission", "needs two readings", "asleep", "no answer",
/// "lost", "failed", "too short", "not seen": stable, for JSON.
[[nodiscard]] std::string_view name(Absence why);
/// Why a sysfs file of a device could not be read, from errno.
[[nodiscard]] Absence absence_of(int error_number);

template <typename T>
struct Reading {
  std::optional<T> value;
  Absence why = Absence::kNotAsked;  // meaningful only without a value

  Reading() = default;
  Reading(T given) : value(std::move(given)) {}  // NOLINT(google-explicit-constructor)
  Reading(Absence absence) : why(absence) {}     // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
  const T* operator->() const { return &*value; }
  [[nodiscard]] T value_or(T other) const { return value.value_or(std::move(other)); }
};

}  // namespace berth::model
