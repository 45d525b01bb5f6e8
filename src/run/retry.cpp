#include "run/retry.hpp"

#include <algorithm>
#include <cstdint>
#include <random>

namespace berth::run {

using std::chrono::milliseconds;

bool is_worth_a_retry(model::TryClass kind, HangAction on_hang) {
  switch (kind) {
    case model::TryClass::kOutOfMemory:
    case model::TryClass::kDeviceFault:
    case model::TryClass::kKilled:
      return true;
    case model::TryClass::kHang:
      return on_hang == HangAction::kRetry;
    default:
      return false;
  }
}

bool may_need_changes(model::TryClass kind) {
  return kind == model::TryClass::kOutOfMemory || kind == model::TryClass::kDeviceFault;
}

milliseconds pause_before_try(int number, milliseconds least, milliseconds most) {
  milliseconds pause = least;
  for (int i = 2; i < number && pause < most; ++i) pause *= 2;
  pause = std::min(pause, most);
  std::random_device chance;
  return pause - milliseconds(static_cast<std::int64_t>(chance()) % (pause.count() / 4 + 1));
}

}  // namespace berth::run
