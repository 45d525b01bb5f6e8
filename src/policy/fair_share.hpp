// FairShare: who had how much of the machine for their weight. Pure: time is handed in.
//
// What is fair over days? Three answers were tried on a simulated day of 16 users and 8 GPUs:
// - Whoever had least lately goes first, all use counting, fading with a half-life. One job of two
//   hours on an idle machine then costs its owner half a day behind fifteen others: waits up to ten
//   times the fluid machine's.
// - Shares of the moment alone. Then who splits the work into many jobs has more.
// - This: use counts while somebody waits. Each user has an account of device-seconds for their
//   weight; the lowest account of those who wait is the floor, and nobody comes back below it, so
//   absence saves nothing up. Who had more stays above it, and half of that is forgiven every
//   half-life.
#pragma once

#include <chrono>
#include <map>

namespace berth::policy {

/// Since any fixed moment, the same for all; never the wall clock, which jumps.
using Instant = std::chrono::milliseconds;

class FairShare {
 public:
  explicit FairShare(std::chrono::milliseconds half_life) : half_life_(half_life) {}

  void set_weight(int user, double weight);
  /// From now on so many devices' worth more is used; with a minus less.
  void use(int user, double more_devices, Instant now);
  /// A job of theirs waits, and none did before.
  void wait(int user, Instant now);
  /// None waits any more.
  void stop_waiting(int user, Instant now);
  /// What an earlier queue knew of them; before they wait for anything.
  void set_ahead(int user, double seconds, Instant now);
  /// Device-seconds for a weight of 1 that the user had beyond the floor.
  [[nodiscard]] double ahead(int user, Instant now) const;
  [[nodiscard]] double weight(int user) const;

 private:
  struct Account {
    double weight = 1;
    double had = 0;  // device-seconds for a weight of 1, at counted_
    double in_use = 0;
    bool waits = false;
    Instant left{0};  // when the last job stopped waiting
  };
  void count(Instant now);
  [[nodiscard]] double had(const Account& account, Instant now) const;

  std::chrono::milliseconds half_life_;
  std::map<int, Account> accounts_;
  int waiting_ = 0;
  double floor_ = 0;
  Instant counted_{0};
};

}  // namespace berth::policy
