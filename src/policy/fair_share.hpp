// FairShare: how much of the machine each user has used, relative to their weight. Pure: the caller
// passes in the time.
//
// Three definitions of fairness over days were tried on a simulated day of 16 users and 8 GPUs:
// - The user with the least recent use goes first; all use counts and decays with a half-life. Then
//   one job of two hours on an idle machine puts its owner half a day behind fifteen others: the
//   owner waits up to ten times as long as on the fluid machine (day_for_tests.hpp).
// - Only the current shares count. Then a user who splits the work into many jobs gets more.
// - This class: use counts only while someone waits. Each user has an account of device-seconds per
//   weight. The lowest account of all waiting users is the floor; a user who returns starts at the
//   floor, so absence earns no credit. Users above the floor stay above it, but every half-life
//   halves the difference.
#pragma once

#include <chrono>
#include <map>

namespace berth::policy {

/// Time since a fixed moment. All calls must use the same clock, and never the wall clock, which
/// can be set.
using Instant = std::chrono::milliseconds;

class FairShare {
 public:
  explicit FairShare(std::chrono::milliseconds half_life) : half_life_(half_life) {}

  void set_weight(int user, double weight);
  /// Changes the number of devices that the user uses from `now` on. A negative number means fewer
  /// devices.
  void use(int user, double more_devices, Instant now);
  /// Call when the first job of a user begins to wait.
  void wait(int user, Instant now);
  /// Call when no job of the user waits any more.
  void stop_waiting(int user, Instant now);
  /// Restores a user's value of ahead() from an earlier queue. Call this before the user's first
  /// wait().
  void set_ahead(int user, double seconds, Instant now);
  /// How far the user's account is above the floor (the lowest account of all waiting users), in
  /// device-seconds per weight.
  [[nodiscard]] double ahead(int user, Instant now) const;
  [[nodiscard]] double weight(int user) const;

 private:
  struct Account {
    double weight = 1;
    double had = 0;  // used device-seconds per weight, up to the time counted_
    double in_use = 0;
    bool waits = false;
    Instant left{0};  // when the user's last job stopped waiting
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
