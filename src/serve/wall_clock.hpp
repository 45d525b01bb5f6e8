// WallClock: the time of people, told by the clock that counts from the machine's start. Where
// somebody sets the machine's clock, this one goes on until follow(): then the times of jobs are
// moved by as much, so that what was an hour ago stays an hour ago, and no limit, age or share
// depends on who set the clock when, or on whether a broker was there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace berth::serve {

class WallClock {
 public:
  /// As the machine's clock is now.
  WallClock();

  /// Goes on as the one that wrote this, where the machine has not been started since.
  void resume(std::string_view record);
  [[nodiscard]] std::string record() const;
  /// Who wrote this did so before the machine was started anew.
  [[nodiscard]] bool is_of_another_start(std::string_view record) const;

  /// Milliseconds since 1970.
  [[nodiscard]] std::int64_t now() const;
  /// What it would have said when the machine started.
  [[nodiscard]] std::int64_t at_start() const { return ahead_; }
  /// By how many milliseconds the machine's clock was set since; 0 where it is less than a second.
  [[nodiscard]] std::int64_t was_set_by() const;
  /// From now on as the machine's clock.
  void follow();
  /// Within a day: whether the machine's clock is right now, or was before, nobody knows yet.
  [[nodiscard]] bool was_set_lately() const;

 private:
  std::string boot_;          // which start of the machine
  std::int64_t ahead_ = 0;    // of the clock that counts from there
  std::int64_t set_at_ = -1;  // by that clock; -1: never since
};

}  // namespace berth::serve
