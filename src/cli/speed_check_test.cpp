#include "cli/speed_check.hpp"

#include <doctest/doctest.h>

using namespace berth;
using bench::EarlierResult;
using bench::EarlierResults;
using watch::Verdict;

namespace {

model::Device card(const std::string& uuid) {
  model::Device device;
  device.uuid = uuid;
  device.name = "X100";
  return device;
}

void add(EarlierResults& into, const std::string& uuid, double work, double spread = 1,
         const std::string& key = "gemm.fp32") {
  into[bench::result_key(card(uuid), key)] = EarlierResult{1, work, spread, 0, "X100", key};
}

}  // namespace

TEST_CASE("a card that is slower than in its baseline has a finding") {
  EarlierResults baseline, latest;
  add(baseline, "a", 100);
  add(latest, "a", 96);
  CHECK(cli::speed_check(card("a"), latest, baseline).verdict == Verdict::kOk);
  add(latest, "a", 90);
  const auto slow = cli::speed_check(card("a"), latest, baseline);
  CHECK(slow.verdict == Verdict::kFailed);
  CHECK(slow.detail.find("gemm.fp32 is 10 % slower than in the baseline") != std::string::npos);
  // The measurements have a spread of 20 %, so a loss of 10 % is not reported.
  add(latest, "a", 90, 20);
  CHECK(cli::speed_check(card("a"), latest, baseline).verdict == Verdict::kOk);
}

TEST_CASE("a card that is slower than its twins has a finding without a baseline") {
  EarlierResults latest;
  add(latest, "a", 100);
  add(latest, "b", 101);
  add(latest, "c", 80);
  CHECK(cli::speed_check(card("a"), latest, {}).verdict == Verdict::kOk);
  const auto slow = cli::speed_check(card("c"), latest, {});
  CHECK(slow.verdict == Verdict::kFailed);
  CHECK(slow.detail.find("other devices of this model") != std::string::npos);
}

TEST_CASE("a card without results to compare is not checked") {
  EarlierResults latest;
  CHECK(cli::speed_check(card("a"), latest, {}).verdict == Verdict::kNotChecked);
  add(latest, "a", 100);
  const auto alone = cli::speed_check(card("a"), latest, {});
  CHECK(alone.verdict == Verdict::kNotChecked);
  CHECK(alone.detail.find("berth bench --keep") != std::string::npos);
  CHECK(cli::speed_check(card("b"), latest, latest).verdict == Verdict::kNotChecked);
}
