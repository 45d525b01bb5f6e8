#include "cli/request_options.hpp"

#include <doctest/doctest.h>

using berth::Error;
using berth::ErrorCode;
using berth::cli::Arguments;
using berth::cli::environment_options;
using berth::cli::join;
using berth::cli::kRequestOptions;
using berth::cli::Option;
using berth::cli::parse_request;

namespace {

Arguments given(std::initializer_list<std::pair<const char*, const char*>> options) {
  Arguments arguments;
  for (const auto& [name, value] : options) arguments.options[name].emplace_back(value);
  return arguments;
}

std::string error_of(std::initializer_list<std::pair<const char*, const char*>> options) {
  const auto request = parse_request(given(options), {});
  return request ? "none" : request.error().id;
}

}  // namespace

TEST_CASE("without options the request is empty") {
  const auto request = parse_request({}, {});
  REQUIRE(request);
  CHECK_FALSE(request->gpus);
  CHECK(request->devices.empty());
  CHECK_FALSE(request->memory_bytes);
  CHECK_FALSE(request->cpus);
  CHECK_FALSE(request->inherited_cuda);
}

TEST_CASE("three ways to ask for the CPU are one request") {
  for (const auto& options : {given({{"--gpus", "none"}}), given({{"--gpus", "0"}}),
                              given({{"--cpu", ""}}), given({{"--cpu", ""}, {"--gpus", "0"}})}) {
    const auto request = parse_request(options, {});
    REQUIRE(request);
    CHECK(request->gpus == 0);
  }
}

TEST_CASE("numbers, sizes and lists of devices are read") {
  const auto request = parse_request(
      given({{"--gpus", "2"}, {"--memory", "8GiB"}, {"--cpus", "16"}, {"--devices", "0,GPU-1a2b"}}),
      {});
  REQUIRE(request);
  CHECK(request->gpus == 2);
  CHECK(request->memory_bytes == 8ULL << 30);
  CHECK(request->cpus == 16);
  CHECK(request->devices == std::vector<std::string>{"0,GPU-1a2b"});
  CHECK(parse_request(given({{"--memory", "8GiB"}, {"--share", "30%"}}), {})->share_permille ==
        300);
  CHECK(parse_request(given({{"--memory", "8GiB"}, {"--share", "0.0001"}}), {})->share_permille ==
        1);
  CHECK(error_of({{"--memory", "8GiB"}, {"--share", "30"}}) == "E0102");
  CHECK(error_of({{"--cpu", ""}, {"--share", "30%"}}) == "E0010");
}

TEST_CASE("a cap without a share reserves as much, and turns need memory") {
  const auto capped = parse_request(given({{"--memory", "8GiB"}, {"--cap", "50%"}}), {});
  REQUIRE(capped);
  CHECK(capped->turns.cap_permille == 500);
  CHECK(capped->share_permille == 500);
  const auto both = parse_request(
      given({{"--memory", "8GiB"}, {"--cap", "50%"}, {"--share", "20%"}, {"--turn", "10m"}}), {});
  REQUIRE(both);
  CHECK(both->share_permille == 200);
  CHECK(both->turns.slice_milliseconds == 600'000);
  CHECK(both->turns.keeps_turn == true);
  const auto rest =
      parse_request(given({{"--memory", "8GiB"}, {"--best-effort", ""}, {"--cap", "50%"}}), {});
  REQUIRE(rest);
  CHECK(rest->turns.best_effort == true);
  CHECK_FALSE(rest->share_permille);
  CHECK(error_of({{"--latency", ""}}) == "E0013");
  CHECK(error_of({{"--memory", "1GiB"}, {"--latency", ""}, {"--best-effort", ""}}) == "E0010");
  CHECK(error_of({{"--memory", "1GiB"}, {"--slice", "1s"}, {"--turn", "1s"}}) == "E0010");
  CHECK(error_of({{"--memory", "1GiB"}, {"--slice", "0s"}}) == "E0963");
  CHECK(error_of({{"--memory", "1GiB"}, {"--slice", "2d"}}) == "E0963");
  CHECK(error_of({{"--memory", "1GiB"}, {"--share", "60%"}, {"--cap", "50%"}}) == "E0963");
}

TEST_CASE("all GPUs and a list of cores are read, and an error names every accepted word") {
  const auto all = parse_request(given({{"--gpus", "all"}}), {});
  REQUIRE(all);
  CHECK(all->all_gpus == true);
  CHECK_FALSE(all->gpus);
  CHECK(error_of({{"--gpus", "all"}, {"--cpu", ""}}) == "E0010");
  const auto cores = parse_request(given({{"--cpus", "0-3,8"}}), {});
  REQUIRE(cores);
  CHECK(cores->cpus == 5);
  CHECK(cores->cpu_list == "0-3,8");
  CHECK_FALSE(parse_request(given({{"--cpus", "4"}}), {})->cpu_list);
  CHECK(error_of({{"--cpus", "3-0"}}) == "E0104");
  CHECK(error_of({{"--cpus", "a-b"}}) == "E0104");
  const auto word = parse_request(given({{"--gpus", "two"}}), {});
  REQUIRE_FALSE(word);
  CHECK(word.error().message.find("all or none") != std::string::npos);
}

TEST_CASE("an empty variable is not the same as one that is not set") {
  const auto request = parse_request({}, {{"CUDA_VISIBLE_DEVICES", ""}, {"ZE_AFFINITY_MASK", "1"}});
  REQUIRE(request);
  CHECK(request->inherited_cuda == "");
  CHECK(request->inherited_ze == "1");
  CHECK_FALSE(request->inherited_hip);
}

TEST_CASE("wrong numbers, sizes and contradictions have their own errors") {
  CHECK(error_of({{"--gpus", "many"}}) == "E0104");
  CHECK(error_of({{"--gpus", "-1"}}) == "E0104");
  CHECK(error_of({{"--gpus", "99999999999999999999"}}) == "E0104");
  CHECK(error_of({{"--cpus", "0"}}) == "E0104");
  CHECK(error_of({{"--memory", "8"}}) == "E0101");
  CHECK(error_of({{"--memory", "0GiB"}}) == "E0011");
  CHECK(error_of({{"--cpu", ""}, {"--gpus", "1"}}) == "E0010");
  CHECK(error_of({{"--gpus", "none"}, {"--devices", "0"}}) == "E0010");
  CHECK(error_of({{"--cpu", ""}, {"--memory", "1GiB"}}) == "E0010");
}

TEST_CASE("an error names the option it is about") {
  const auto request = parse_request(given({{"--gpus", "x"}}), {});
  REQUIRE_FALSE(request);
  CHECK(request.error().message.rfind("--gpus: ", 0) == 0);
  CHECK(request.error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("switches reach the environment's options") {
  CHECK_FALSE(environment_options({}).override_user);
  CHECK(environment_options(given({{"--override", ""}})).override_user);
  CHECK(environment_options(given({{"--quiet", ""}})).quiet);
}

TEST_CASE("two option tables join in order") {
  constexpr std::array<Option, 1> kMine{{{"--mine", nullptr, "x"}}};
  constexpr auto kAll = join(kRequestOptions, kMine);
  static_assert(kAll.size() == kRequestOptions.size() + 1);
  CHECK(std::string(kAll.front().names) == "--gpus");
  CHECK(std::string(kAll.back().names) == "--mine");
}
