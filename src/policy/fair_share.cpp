#include "policy/fair_share.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/result.hpp"

namespace berth::policy {
namespace {

double seconds(std::chrono::milliseconds time) {
  return std::max(0.0, std::chrono::duration<double>(time).count());
}

}  // namespace

double FairShare::had(const Account& account, Instant now) const {
  const double passed = waiting_ > 0 ? seconds(now - counted_) : 0;
  return account.had + account.in_use * passed / account.weight;
}

void FairShare::count(Instant now) {
  double lowest = std::numeric_limits<double>::infinity();
  for (auto& [user, account] : accounts_) {
    account.had = had(account, now);
    if (account.waits) lowest = std::min(lowest, account.had);
  }
  if (waiting_ > 0) floor_ = std::max(floor_, lowest);
  counted_ = std::max(counted_, now);
}

void FairShare::set_weight(int user, double weight) {
  BERTH_CHECK(weight > 0);
  accounts_[user].weight = weight;
}

void FairShare::use(int user, double more_devices, Instant now) {
  count(now);
  double& in_use = accounts_[user].in_use;
  in_use += more_devices;
  if (in_use < 1e-9) in_use = 0;  // treat a rounding error as 0, for example 1 - (1/3 + 2/3)
}

void FairShare::wait(int user, Instant now) {
  count(now);
  Account& account = accounts_[user];
  const double beyond = std::max(0.0, account.had - floor_);
  account.had = floor_ + beyond * std::exp2(-seconds(now - account.left) / seconds(half_life_));
  account.waits = true;
  ++waiting_;
}

void FairShare::stop_waiting(int user, Instant now) {
  count(now);
  Account& account = accounts_[user];
  account.waits = false;
  account.left = now;
  --waiting_;
}

void FairShare::set_ahead(int user, double seconds, Instant now) {
  Account& account = accounts_[user];
  account.had = floor_ + std::max(0.0, seconds);
  account.left = now;
}

double FairShare::ahead(int user, Instant now) const {
  const auto found = accounts_.find(user);
  return found == accounts_.end() ? 0 : had(found->second, now) - floor_;
}

double FairShare::weight(int user) const {
  const auto found = accounts_.find(user);
  return found == accounts_.end() ? 1 : found->second.weight;
}

}  // namespace berth::policy
