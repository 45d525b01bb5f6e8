#include "watch/silence.hpp"

#include <doctest/doctest.h>

using berth::watch::Silence;
using namespace std::chrono_literals;

namespace {

using Time = Silence::Clock::time_point;
constexpr Time kStart = Time(1000s);
constexpr auto kInterval = 1000ms;

/// The driver was initialized in 500 ms, and a full snapshot has the device "0".
Silence started() {
  Silence silence(kInterval, 30s);
  silence.seen("0", kStart);
  silence.begin(kStart);
  silence.ready(kStart + 500ms);
  return silence;
}

}  // namespace

TEST_CASE("a device that hangs is silent two seconds after its last answer") {
  Silence silence = started();
  for (int i = 0; i < 20; ++i) silence.sampled("0", kStart + 1s + i * kInterval, 3ms);
  const Time last = kStart + 20s;
  CHECK_FALSE(silence.is_silent("0", last + 1990ms));
  CHECK(silence.is_silent("0", last + 2010ms));
  CHECK(silence.silent_at("0") <= last + 2010ms);
  CHECK(silence.age("0", last + 3s) == 3s);
}

TEST_CASE("a driver that was slow all the time gets more time, but its readings show their age") {
  Silence silence = started();
  silence.sampled("0", kStart + 1s, 1300ms);  // one slow sample is enough to get more time
  CHECK_FALSE(silence.is_silent("0", kStart + 5s));
  for (int i = 0; i < 20; ++i) silence.sampled("0", kStart + 3s + i * 2s, 1300ms);
  const Time last = kStart + 41s;
  CHECK(silence.is_old("0", last + 2s));
  CHECK_FALSE(silence.is_silent("0", last + 3900ms));
  CHECK(silence.is_silent("0", last + 5s));
  // After a minute of fast samples, the driver gets no more time than before.
  for (int i = 1; i <= 60; ++i) silence.sampled("0", last + i * kInterval, 3ms);
  CHECK(silence.is_silent("0", last + 60s + 2100ms));
}

TEST_CASE("a hang that ended does not make the next one invisible") {
  Silence silence = started();
  silence.sampled("0", kStart + 1s, 3ms);
  silence.sampled("0", kStart + 601s, 3ms);
  CHECK(silence.is_silent("0", kStart + 601s + 11s));
}

TEST_CASE("a driver that is still being initialized is not a silent device") {
  Silence silence(kInterval, 30s);
  silence.seen("0", kStart);
  silence.begin(kStart);
  CHECK_FALSE(silence.is_silent("0", kStart + 20s));
  CHECK(silence.is_old("0", kStart + 20s));
  CHECK(silence.is_silent("0", kStart + 31s));
  silence.ready(kStart + 20s);
  CHECK_FALSE(silence.is_silent("0", kStart + 25s));
  CHECK(silence.is_silent("0", kStart + 28s));
  silence.sampled("0", kStart + 21s, 3ms);
  CHECK(silence.is_silent("0", kStart + 24s));
  // The first start took 20 s, so the second start may take that long, too.
  silence.begin(kStart + 100s);
  silence.seen("0", kStart + 100s);
  CHECK_FALSE(silence.is_silent("0", kStart + 125s));
  CHECK(silence.is_silent("0", kStart + 150s));
}

TEST_CASE("without samples, a device is silent if no full snapshot has seen it for a while") {
  Silence silence = started();
  silence.stop();
  silence.seen("0", kStart + 10s);
  CHECK_FALSE(silence.is_silent("0", kStart + 16s));
  CHECK(silence.is_silent("0", kStart + 17s));
}

TEST_CASE("the time in which this process was stopped does not count") {
  Silence silence = started();
  silence.sampled("0", kStart + 1s, 3ms);
  silence.add_pause(60s);
  CHECK_FALSE(silence.is_silent("0", kStart + 62s));
  CHECK(silence.is_silent("0", kStart + 64s));
}

TEST_CASE("a device that full snapshots see, but samples do not, is missed") {
  Silence silence = started();
  CHECK(silence.is_missed("0", kStart + 20s, 10s));
  silence.sampled("0", kStart + 15s, 3ms);
  CHECK_FALSE(silence.is_missed("0", kStart + 20s, 10s));
  CHECK(silence.is_missed("0", kStart + 30s, 10s));
}
