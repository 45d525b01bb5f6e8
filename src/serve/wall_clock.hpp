// WallClock: wall-clock time computed from the machine's boot-time clock. If someone sets the
// machine's clock, WallClock does not change until follow() is called; then the recorded times of
// jobs move by the same amount. So an hour ago stays an hour ago. No limit, age or share depends on
// when the clock was set, or on whether a broker was running then.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace berth::serve {

class WallClock {
 public:
  /// Starts with the machine's current time.
  WallClock();

  /// Continues the clock that wrote this record, if the machine was not rebooted since.
  void resume(std::string_view record);
  [[nodiscard]] std::string record() const;
  /// Whether the record was written before the last reboot.
  [[nodiscard]] bool is_of_another_start(std::string_view record) const;

  /// Milliseconds since 1970.
  [[nodiscard]] std::int64_t now() const;
  /// The time when the machine was booted, by this clock.
  [[nodiscard]] std::int64_t at_start() const { return ahead_; }
  /// By how many milliseconds the machine's clock was set since this clock began to follow it; 0 if
  /// less than a second.
  [[nodiscard]] std::int64_t was_set_by() const;
  /// Takes over the machine's current time.
  void follow();
  /// Whether the clock was set less than a day ago. If so, either the old or the new time may be
  /// wrong.
  [[nodiscard]] bool was_set_lately() const;

 private:
  std::string boot_;          // the kernel's id of this boot
  std::int64_t ahead_ = 0;    // wall-clock time of the boot, in Unix milliseconds
  std::int64_t set_at_ = -1;  // milliseconds from boot until the clock was set; -1: never set
};

}  // namespace berth::serve
