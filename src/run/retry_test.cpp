#include "run/retry.hpp"

#include <doctest/doctest.h>

using namespace berth::run;
using berth::model::TryClass;
using std::chrono::milliseconds;

TEST_CASE("what may go better the next time is tried again") {
  for (const TryClass kind : {TryClass::kOutOfMemory, TryClass::kDeviceFault, TryClass::kKilled})
    CHECK(is_worth_a_retry(kind, HangAction::kReport));
  for (const TryClass kind : {TryClass::kOk, TryClass::kUserError, TryClass::kStopped})
    CHECK_FALSE(is_worth_a_retry(kind, HangAction::kRetry));
  CHECK(is_worth_a_retry(TryClass::kHang, HangAction::kRetry));
  CHECK_FALSE(is_worth_a_retry(TryClass::kHang, HangAction::kKill));
}

TEST_CASE("the pause doubles up to its limit, and is random by a quarter") {
  for (const auto& [number, full] :
       {std::pair{2, 1000}, {3, 2000}, {4, 4000}, {5, 5000}, {99, 5000}})
    for (int i = 0; i < 100; ++i) {
      const auto pause = pause_before_try(number, milliseconds(1000), milliseconds(5000));
      CHECK(pause <= milliseconds(full));
      CHECK(pause >= milliseconds(full * 3 / 4));
    }
  CHECK(pause_before_try(2, milliseconds(0), milliseconds(0)) == milliseconds(0));
}
