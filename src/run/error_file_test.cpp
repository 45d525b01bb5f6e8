#include "run/error_file.hpp"

#include <doctest/doctest.h>

#include "base/json.hpp"

using namespace berth::run;

namespace {

const char* const kPyTorch =
    R"({"message": {"message": "ValueError: no data", "extraInfo": {)"
    R"("py_callstack": "Traceback (most recent call last):\n  File \"a.py\", line 3\nValueError: no data\n",)"
    R"("timestamp": "1700000000"}}})";

}  // namespace

TEST_CASE("PyTorch's error file is read") {
  const auto error = parse_error_file(kPyTorch);
  REQUIRE(error);
  CHECK(error->message == "ValueError: no data");
  CHECK(error->traceback.ends_with("\nValueError: no data"));
  CHECK(error->when == 1700000000);
  const auto old = parse_error_file(R"({"message": "it broke"})");
  REQUIRE(old);
  CHECK(old->message == "it broke");
  CHECK_FALSE(old->when);
}

TEST_CASE("any other content is not an error file") {
  for (const char* wrong :
       {"", "{", "[]", "7", "{}", R"({"message": 7})", R"({"message": {}})",
        R"({"message": {"message": 7, "extraInfo": []}})", R"({"message": null})", "\xff\xfe"})
    CHECK_FALSE(parse_error_file(wrong));
}

TEST_CASE("the file that is passed on has the exit code") {
  const auto passed = nlohmann::json::parse(error_file_text(kPyTorch, {}, 42));
  CHECK(passed["message"]["errorCode"] == 42);
  CHECK(passed["message"]["message"] == "ValueError: no data");
  const auto made = nlohmann::json::parse(error_file_text("", {"it broke", "Traceback", 5}, -9));
  CHECK(made["message"]["errorCode"] == -9);
  CHECK(made["message"]["message"] == "it broke");
  CHECK(made["message"]["extraInfo"]["timestamp"] == "5");
  const auto again = parse_error_file(made.dump());
  REQUIRE(again);
  CHECK(again->traceback == "Traceback");
}
