#include "serve/usage_sums.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::serve;

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

/// A minute in which job 7 held this device.
watch::UsageRow minute(int number, double share, double gib, const char* device = "GPU-0") {
  watch::UsageRow row;
  row.from = 60 * number;
  row.key = {device, "lin", 7, "python3"};
  row.usage.held_seconds = row.usage.known_seconds = 60;
  row.usage.used_seconds = 60 * share;
  row.usage.idle_seconds = share == 0 ? 60 : 0;
  row.usage.memory_byte_seconds = 60 * gib * kGiB;
  row.usage.peak_memory_bytes = gib * kGiB;
  row.usage.device_memory_bytes = 80 * kGiB;
  row.usage.asked_memory_bytes = 0.0;
  return row;
}

UsageSum sum_of(const std::vector<watch::UsageRow>& rows, const char* by = "job") {
  const auto sums = usage_sums(rows, by, [](const auto&) { return true; });
  REQUIRE(sums.size() == 1);
  return sums[0];
}

std::vector<watch::UsageRow> hundred(double share, double gib) {
  std::vector<watch::UsageRow> rows;
  for (int i = 0; i < 100; ++i) rows.push_back(minute(i, share, gib));
  return rows;
}

}  // namespace

TEST_CASE("95 % of the time stayed below the p95, and the peak is the peak") {
  std::vector<watch::UsageRow> rows = hundred(0.2, 4);
  for (int i = 0; i < 4; ++i) rows[static_cast<std::size_t>(i)] = minute(i, 0.9, 30);
  const UsageSum sum = sum_of(rows);
  CHECK(*sum.memory_p95_bytes == doctest::Approx(4 * kGiB));
  CHECK(*sum.utilization_p95_percent == doctest::Approx(20));
  CHECK(*sum.usage.peak_memory_bytes == doctest::Approx(30 * kGiB));
  for (int i = 4; i < 6; ++i) rows[static_cast<std::size_t>(i)] = minute(i, 0.9, 30);
  CHECK(*sum_of(rows).memory_p95_bytes == doctest::Approx(30 * kGiB));
}

TEST_CASE("programs beside each other add their memory, devices do not") {
  std::vector<watch::UsageRow> rows = {minute(0, 0.3, 4), minute(0, 0.3, 6),
                                       minute(0, 0.3, 4, "GPU-1")};
  rows[1].key.program = "helper";
  const UsageSum sum = sum_of(rows);
  CHECK(*sum.memory_p95_bytes == doctest::Approx(10 * kGiB));
  CHECK(sum.devices == 2);
}

TEST_CASE("what was never known is absent") {
  watch::UsageRow row = minute(0, 0.5, 4);
  row.usage.peak_memory_bytes.reset();
  row.usage.known_seconds = row.usage.used_seconds = 0;
  const UsageSum sum = sum_of({row});
  CHECK_FALSE(sum.memory_p95_bytes);
  CHECK_FALSE(sum.utilization_p95_percent);
  CHECK(sum.next.empty());
}

TEST_CASE("a whole device for a small job that leaves it idle is advised to share") {
  CHECK(sum_of(hundred(0.2, 4)).next == "--memory 5GiB");
  CHECK(sum_of(hundred(0.8, 4)).next.empty());
  CHECK(sum_of(hundred(0.2, 40)).next.empty());
  CHECK(sum_of(hundred(0, 4)).next == "--cpu");
  CHECK(sum_of({minute(0, 0.2, 4)}).next.empty());  // one minute is too short for advice
}

TEST_CASE("memory that was asked for is compared with the peak") {
  const auto asked = [](double gib, double peak) {
    std::vector<watch::UsageRow> rows = hundred(0.9, peak);
    for (watch::UsageRow& one : rows) one.usage.asked_memory_bytes = gib * kGiB;
    return sum_of(rows).next;
  };
  CHECK(asked(20, 6) == "--memory 8GiB");
  CHECK(asked(20, 15).empty());
  CHECK(asked(20, 19.9) == "--memory 24GiB");
}

TEST_CASE("devices that a job never used are too many") {
  std::vector<watch::UsageRow> rows = hundred(0.9, 60);
  for (int i = 0; i < 100; ++i) rows.push_back(minute(i, 0, 0.5, "GPU-1"));
  const UsageSum sum = sum_of(rows);
  CHECK(sum.unused_devices == 1);
  CHECK(sum.next == "--gpus 1");
}

TEST_CASE("a program that several jobs ran gets no advice") {
  std::vector<watch::UsageRow> rows = hundred(0.9, 60);
  for (int i = 0; i < 100; ++i) rows.push_back(minute(i, 0, 0.5, "GPU-1"));
  CHECK(sum_of(rows, "command").next == "--gpus 1");
  for (watch::UsageRow& one : rows)
    if (one.key.device == "GPU-1") one.key.job += 1;
  CHECK(sum_of(rows, "command").next.empty());
}

TEST_CASE("users get no advice, and who asked for nothing neither") {
  CHECK(sum_of(hundred(0.2, 4), "user").next.empty());
  std::vector<watch::UsageRow> rows = hundred(0.2, 4);
  for (watch::UsageRow& one : rows) one.usage.asked_memory_bytes.reset();
  CHECK(sum_of(rows, "command").next.empty());
}
