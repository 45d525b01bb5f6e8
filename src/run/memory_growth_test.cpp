#include "run/memory_growth.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

using namespace berth::run;

namespace {

constexpr double kMiB = 1 << 20;

/// Memory in MiB at this number of seconds.
using Curve = std::function<double(double)>;

struct Case {
  const char* what;
  double seconds;
  Curve curve;
};

/// A value from -1 to 1. It is always the same for the same time.
double noise(double t) {
  return std::sin(t * 12.9898) * std::cos(t * 78.233);
}
double saturating(double t, double time) {
  return 1 - std::exp(-t / time);
}
double ramp(double t, double until) {
  return std::min(t, until) / until;
}
double saw(double t, double period) {
  return std::fmod(t, period) / period;
}

MemorySeries series_of(const Case& one, double step = 0.5) {
  MemorySeries series;
  for (double t = 0; t <= one.seconds; t += step)
    series.add(t, static_cast<std::uint64_t>(std::max(0.0, one.curve(t)) * kMiB));
  return series;
}

const Case kLeaks[] = {
    {"from the start", 600, [](double t) { return 500 + t / 60 * 12; }},
    {"after a warm-up", 600, [](double t) { return 2000 * ramp(t, 60) + t / 60 * 12; }},
    {"below noise", 900, [](double t) { return 4000 + t / 60 * 20 + 15 * noise(t); }},
    {"between garbage collections", 1200,
     [](double t) { return 800 + 300 * saw(t, 11) + t / 60 * 6; }},
    {"a step in each epoch", 1800, [](double t) { return 3000 + 40 * std::floor(t / 100); }},
    {"slow, on a large program", 7200, [](double t) { return 10'000 + t / 60 * 2; }},
    {"faster and faster", 600, [](double t) { return 700 + t * t / 900; }},
    {"from the middle on", 1200, [](double t) { return 900 + std::max(0.0, t - 560) / 4; }},
    {"with peaks at checkpoints", 1800,
     [](double t) { return 2000 + t / 60 * 10 + (std::fmod(t, 300) < 20 ? 1500 : 0); }},
    {"memory is given back at the end", 900,
     [](double t) { return t > 880 ? 100 : 1000 + t / 60 * 30; }},
};

const Case kHealthy[] = {
    {"a model is loaded", 600, [](double t) { return 100 + 9000 * ramp(t, 100); }},
    {"a cache fills", 600, [](double t) { return 500 + 2000 * saturating(t, 80); }},
    {"garbage is collected sometimes", 900, [](double t) { return 800 + 500 * saw(t, 170); }},
    {"one larger batch late", 900, [](double t) { return 2000 + (t > 700 ? 600 : 0); }},
    {"evaluation in turns", 1200,
     [](double t) { return 2000 + (std::fmod(t, 240) > 200 ? 900 : 0); }},
    {"noise alone", 900, [](double t) { return 4000 + 60 * noise(t); }},
    {"memory falls", 900, [](double t) { return 4000 - t; }},
    {"a cache of many files grows ever more slowly", 3600,
     [](double t) { return 600 + 300 * std::log(1 + t / 30); }},
    {"a short program that only loads", 100, [](double t) { return 50 + 100 * t; }},
    {"compiling, then a warm-up of workers", 600,
     [](double t) { return 1200 + 700 * ramp(t, 90) + (t > 200 && t < 330 ? 1600 : 0); }},
};

}  // namespace

TEST_CASE("ten leaks are seen, with their rate") {
  for (const Case& one : kLeaks) {
    CAPTURE(one.what);
    CHECK(growth_of(series_of(one)));
  }
  const auto growth = growth_of(series_of(kLeaks[0]));
  REQUIRE(growth);
  CHECK(growth->bytes_per_minute == doctest::Approx(12 * kMiB).epsilon(0.02));
  CHECK(growth->since_seconds == 0);
}

TEST_CASE("growth begins where the warm-up ends") {
  const Case late{"", 1200, [](double t) { return 900 + std::max(0.0, t - 180) / 60 * 12; }};
  const auto growth = growth_of(series_of(late));
  REQUIRE(growth);
  CHECK(growth->bytes_per_minute == doctest::Approx(12 * kMiB).epsilon(0.03));
  CHECK(growth->since_seconds == doctest::Approx(180).epsilon(0.35));
}

TEST_CASE("ten healthy programs are not called leaks") {
  for (const Case& one : kHealthy) {
    CAPTURE(one.what);
    CHECK_FALSE(growth_of(series_of(one)));
  }
}

TEST_CASE("the number of readings that are kept is bounded, and rare or odd ones do no harm") {
  Case weeks = kLeaks[0];
  weeks.seconds = 2'000'000;
  CHECK(growth_of(series_of(weeks, 100)));
  MemorySeries rare;
  rare.add(0, 1);
  rare.add(1e12, 100'000'000);
  rare.add(-5, 3);
  rare.add(std::nan(""), 3);
  CHECK_FALSE(growth_of(rare));
  CHECK_FALSE(growth_of(MemorySeries()));
}
