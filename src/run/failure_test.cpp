#include "run/failure.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "base/json.hpp"

using namespace berth::run;

namespace {
constexpr const char* kOutput =
    "epoch 1\n"
    "Traceback (most recent call last):\n"
    "  File \"a.py\", line 1, in <module>\n"
    "KeyError: 'x'\n"
    "\n"
    "During handling of the above exception, another exception occurred:\n"
    "\n"
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 12, in <module>\n"
    "    main()\n"
    "  File \"train.py\", line 7, in main\n"
    "    raise ValueError(\"\x1b[31mno data\x1b[0m\")\n"
    "ValueError: no data\n"
    "bye\n";
}

TEST_CASE("the last traceback, with its exception and without what follows") {
  const std::string found = traceback_in(kOutput);
  CHECK(found.starts_with("Traceback (most recent call last):\n  File \"train.py\", line 12"));
  CHECK(found.ends_with("raise ValueError(\"no data\")\nValueError: no data"));
  CHECK(traceback_in("all is well\n") == "");
}

TEST_CASE("the last lines, without blank ones and escape sequences") {
  CHECK(last_lines("a\n\n\x1b[1;32mb\x1b[0m\n  \nc", 2) == std::vector<std::string>{"b", "c"});
  CHECK(last_lines("1 %\r2 %\r\n", 5) == std::vector<std::string>{"2 %"});
  CHECK(last_lines("", 5).empty());
}

TEST_CASE("a rank that only lost its peer is distinguished from the one that failed") {
  CHECK(
      mentions_lost_peer("RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by "
                         "peer [127.0.0.1]:4711\n"));
  CHECK_FALSE(mentions_lost_peer(kOutput));
}

namespace {

using berth::model::TryClass;
using Json = nlohmann::json;

/// What Python writes when this exception ends a program.
std::string output_of(const Json& exception) {
  std::string type = exception.at("type").get<std::string>();
  if (type.starts_with("builtins.")) type.erase(0, std::string_view("builtins.").size());
  return "step 1\nTraceback (most recent call last):\n  File \"train.py\", line 1, in <module>\n" +
         type + ": " + exception.at("text").get<std::string>() + "\n";
}

Classified ended(std::string_view output, int code = 1) {
  return classify({code, std::nullopt, output, 0});
}

}  // namespace

TEST_CASE("real and lookalike texts of frameworks are classified") {
  std::ifstream file(BERTH_SOURCE_DIR "/python/tests/oom_texts.json");
  const Json corpus = Json::parse(file);
  REQUIRE(corpus.at("oom").size() > 50);
  for (const Json& one : corpus.at("oom")) {
    // Skip exceptions that are recognised by their error code, because Python does not print that
    // code.
    if (one.contains("code") || one.contains("errno")) continue;
    INFO(one.dump());
    CHECK(ended(output_of(one)).kind == TryClass::kOutOfMemory);
  }
  for (const Json& one : corpus.at("not_oom")) {
    INFO(one.dump());
    CHECK(ended(output_of(one)).kind != TryClass::kOutOfMemory);
  }
}

TEST_CASE("what real programs printed at their end is classified") {
  std::ifstream file(BERTH_SOURCE_DIR "/tests/run/recorded_outputs.json");
  const Json recorded = Json::parse(file);
  REQUIRE(recorded.size() > 20);
  for (const Json& one : recorded) {
    INFO(one.dump(1));
    const int code = one.at("exit_code").get<int>();
    const std::string output = one.at("output").get<std::string>();
    const auto found = code < 0 ? classify({std::nullopt, -code, output, 0}) : ended(output, code);
    CHECK(berth::model::name(found.kind) == one.at("class").get<std::string>());
  }
}

TEST_CASE("the kernel's counters take precedence over any text") {
  const auto killed = classify({std::nullopt, 9, "all is well", 1});
  CHECK(killed.kind == TryClass::kOutOfMemory);
  CHECK(killed.evidence == "SIGKILL, oom_kill 1 in the control group");
  CHECK(classify({137, std::nullopt, "", 2}).kind == TryClass::kOutOfMemory);
  CHECK(classify({std::nullopt, 9, "", 0}).kind == TryClass::kKilled);
  CHECK(classify({std::nullopt, 15, "", 0}).kind == TryClass::kKilled);
  CHECK(classify({std::nullopt, 11, "RuntimeError: x", 0}).kind == TryClass::kUserError);
  CHECK(classify({1, std::nullopt, "MyError: no\n", 5}).kind == TryClass::kUserError);
  CHECK(classify({0, std::nullopt, "CUDA out of memory. Tried to allocate 2 GiB", 0}).kind ==
        TryClass::kOk);
}

TEST_CASE("a handled error earlier in the output is ignored") {
  const std::string handled =
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n"
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
      "trying a smaller batch\n";
  CHECK(ended(handled + kOutput).kind == TryClass::kUserError);
  CHECK(ended(handled).kind == TryClass::kOutOfMemory);
}

TEST_CASE("faults of devices and of the network") {
  for (const char* text :
       {"RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/x.cpp:1275, unhandled "
        "system error, NCCL version 2.19.3\nncclSystemError: System call failed"}) {
    const std::string output =
        std::string("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n") + text;
    CHECK(ended(output).kind == TryClass::kDeviceFault);
  }
  const std::string program =
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n"
      "RuntimeError: CUDA error: an illegal memory access was encountered\n";
  CHECK(ended(program).kind == TryClass::kUserError);
}

TEST_CASE("programs that are not written in Python") {
  CHECK(classify({std::nullopt, 6,
                  "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  "
                  "std::bad_alloc\n",
                  0})
            .kind == TryClass::kOutOfMemory);
  CHECK(ended("CUDA error: out of memory\n").kind == TryClass::kOutOfMemory);
  CHECK(ended("see the log of the previous run: CUDA error: out of memory\n").kind ==
        TryClass::kUserError);
  CHECK(ended("usage: train\n", 2).evidence == "usage: train");
  CHECK(ended("", 2).evidence == "exit code 2");
}
