#include <doctest/doctest.h>

#include <string>

#include "plan/measured.hpp"

using namespace berth;
using namespace berth::plan;

namespace {

/// A recording of a program: 100 bytes stay allocated, the forward pass needs 10 for each sequence,
/// and the optimizer's step needs 150.
Recording step(double batch, std::optional<double> seq = {}, double per_token = 0) {
  const double activations = batch * (10 + per_token * seq.value_or(0) * seq.value_or(0));
  return {batch, seq, 100, {activations, 150, 0}, "same", {}};
}

Measurement measured(std::vector<Recording> recordings) {
  Measurement out;
  out.batch = recordings.front().batch, out.seq = recordings.front().seq;
  out.recordings = std::move(recordings);
  return out;
}

}  // namespace

TEST_CASE("the peak moves to another operation when the batch grows") {
  const Measurement m = measured({step(10), step(5)});
  CHECK(peak_of_step(m, 10, {})->bytes == 250);  // peak during the optimizer's step: 100 + 150
  CHECK(peak_of_step(m, 20, {})->bytes == 300);  // peak during the forward pass: 100 + 20 × 10
  CHECK(peak_of_step(m, 100, {})->bytes == 1100);
  CHECK(peak_of_step(m, 100, {})->is_by_point);
}

TEST_CASE("memory grows with the square of the sequence length") {
  const Measurement m = measured({step(10, 16, 1), step(5, 16, 1), step(10, 8, 1), step(10, 4, 1)});
  CHECK(peak_of_step(m, 10, 32)->bytes == doctest::Approx(100 + 10 * (10 + 1024)));
  CHECK(peak_of_step(m, 30, 32)->bytes == doctest::Approx(100 + 30 * (10 + 1024)));
  CHECK(peak_of_step(m, 30, 16)->bytes == doctest::Approx(100 + 30 * (10 + 256)));
}

TEST_CASE("recordings with different operations are compared by their peaks, and say so") {
  Recording other = step(5);
  other.pattern = "other";
  const auto peak = peak_of_step(measured({step(40), other}), 80, {});
  REQUIRE(peak);
  CHECK_FALSE(peak->is_by_point);
  CHECK(peak->bytes == doctest::Approx(500 + 40 * (500 - 250) / 35.0));
}

TEST_CASE("what was not recorded is not known") {
  CHECK_FALSE(peak_of_step({}, {}, {}));
  const Measurement m = measured({step(10)});
  CHECK(peak_of_step(m, 10, {})->bytes == 250);
  CHECK_FALSE(peak_of_step(m, 20, {}));
  CHECK_FALSE(peak_of_step(m, 10, 64));
  CHECK_FALSE(largest_batch(m, {}, 1e9));
}

TEST_CASE("the largest batch is the last one that fits") {
  const Measurement m = measured({step(10), step(5)});
  CHECK(largest_batch(m, {}, 1100) == 100);
  CHECK(largest_batch(m, {}, 1109) == 100);
  CHECK(largest_batch(m, {}, 1099) == 99);
  CHECK_FALSE(largest_batch(m, {}, 200));
  // If memory does not grow with the batch, no batch is the largest.
  Recording same = step(10);
  same.batch = 5;
  CHECK_FALSE(largest_batch(measured({step(10), same}), {}, 1e9));
}

TEST_CASE("a recording that the program made up is refused") {
  const std::string good =
      R"({"schema":1,"framework":"PyTorch 1.13","device":"cpu","batch":4,"seq":null,"optimizer":true,"problem":null,)"
      R"("parts":{"weights_bytes":1,"gradients_bytes":2,"optimizer_bytes":3,"other_bytes":4},)"
      R"("recordings":[{"batch":4,"seq":null,"base_bytes":10,"pattern":"x","curve":[1,5,2],"reserved_bytes":null}]})";
  const auto read = read_measurement(good);
  REQUIRE(read);
  CHECK(read->recordings.front().peak() == 15);
  CHECK(read->optimizer == 3);
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    CHECK_FALSE(read_measurement(good.substr(0, cut)));
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"[1,5,2]", "[]"},
        {"[1,5,2]", "[1e300]"},
        {"[1,5,2]", R"(["1"])"},
        {"\"schema\":1", "\"schema\":1e300"},
        {"\"batch\":4,\"seq\":null,\"base", "\"batch\":-4,\"seq\":null,\"base"},
        {"\"batch\":4,\"seq\":null,\"base", "\"batch\":0,\"seq\":null,\"base"},
        {"\"batch\":4,\"seq\":null,\"base", "\"batch\":4,\"seq\":0,\"base"},
        {"\"seq\":null,\"optimizer", "\"seq\":0,\"optimizer"},
        {"\"problem\":null", "\"problem\":1"},
        {"\"weights_bytes\":1", "\"weights_bytes\":-1"}}) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    INFO(bad);
    CHECK(read_measurement(bad).error().id == "E0954");
  }
}

TEST_CASE("two recordings of one size are refused") {
  const std::string recording =
      R"({"batch":4,"seq":8,"base_bytes":10,"pattern":"x","curve":[1],"reserved_bytes":null})";
  const std::string start =
      R"({"schema":1,"framework":"","device":"cpu","batch":4,"seq":8,"optimizer":true,)"
      R"("problem":"sizes","parts":null,"recordings":[)";
  CHECK(read_measurement(start + recording + "]}")->sizes_differ);
  const auto twice = read_measurement(start + recording + "," + recording + "]}");
  REQUIRE_FALSE(twice);
  CHECK(twice.error().id == "E0954");
}

TEST_CASE("what to reserve is more than the peak") {
  CHECK(reserve_for(10e9) == doctest::Approx(11e9 + 512.0 * 1024 * 1024));
}
