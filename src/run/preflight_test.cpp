#include "run/preflight.hpp"

#include <doctest/doctest.h>

using namespace berth::run;
using State = berth::model::Preflight::State;

TEST_CASE("the last line of a rank says what it found") {
  const auto one = parse_preflight(
      "a warning of PyTorch\n{\"state\": \"ok\", \"backend\": \"gloo\", \"seconds\": 0.5}\n");
  CHECK(one.state == State::kOk);
  CHECK(one.backend == "gloo");
  CHECK(one.took == std::chrono::milliseconds(500));
}

TEST_CASE("a rank that says nothing, or nonsense, has failed") {
  for (const char* output : {"", "Traceback\n", "{}", "[1]", "{\"state\": 5}",
                             "{\"state\": \"fine\"}", "{\"state\": \"ok\"", "\xff\n"}) {
    CAPTURE(output);
    CHECK(parse_preflight(output).state == State::kFailed);
  }
  CHECK(parse_preflight("{\"state\":\"ok\",\"seconds\":1e300}").took.count() == 0);
}

TEST_CASE("a failure counts before success, and its reason before the silence of others") {
  const auto ok = parse_preflight(R"({"state":"ok","backend":"gloo","seconds":1})");
  const auto skewed =
      parse_preflight(R"({"state":"failed","step":"versions","why":"2.1 and 2.2"})");
  CHECK(sum_up({ok, ok}).state == State::kOk);
  CHECK(sum_up({ok, parse_preflight(""), skewed}).why == "2.1 and 2.2");
  CHECK(sum_up({ok, parse_preflight(R"({"state":"skipped","why":"no torch"})")}).state ==
        State::kSkipped);
  CHECK(sum_up({}).state == State::kFailed);
}

TEST_CASE("a failure before the ranks meet is told in its own words") {
  berth::model::Preflight one = parse_preflight(
      R"({"state":"failed","step":"import","why":"OSError: libcudart.so.12: cannot open"})");
  CHECK(preflight_sentence(one).find("imported: OSError: libcudart.so.12") != std::string::npos);
  one.step = "device";
  CHECK(preflight_sentence(one).find("its device: OSError") != std::string::npos);
  one.step = "";
  CHECK(preflight_sentence(one).find("without an answer: OSError") != std::string::npos);
  one.why = "";
  CHECK(preflight_sentence(one).find("not all ranks answered within") != std::string::npos);
}

TEST_CASE("only a Python program has a preflight") {
  CHECK(preflight_command({"/usr/bin/python3.11", "train.py"}).front() == "/usr/bin/python3.11");
  CHECK(preflight_command({"sh", "run.sh"}).empty());
  CHECK(preflight_command({}).empty());
}
