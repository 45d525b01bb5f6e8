#include "doctor/read/probe.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>

#include "doctor/read/bundle_json.hpp"
#include "doctor/read/probe_child.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;

namespace {

ProbeAnswer answer(std::string_view lines, int status = 0, bool had_turn = true,
                   std::string_view noise = "") {
  return answer_from("torch", lines, status, had_turn, noise);
}

constexpr int kExit3 = 3 << 8;

/// Waits until `done` returns true; false if that takes more than 5 s.
template <typename Done>
bool soon(Done done) {
  for (int tries = 0; tries < 500; ++tries) {
    if (done()) return true;
    ::poll(nullptr, 0, 10);
  }
  return false;
}

}  // namespace

TEST_CASE("a framework's lines are combined into one answer") {
  const ProbeAnswer ran = answer(
      "{\"version\":\"2.9.1\"}\n{\"waits\":true}\n{\"device\":0,\"name\":\"H100\",\"ran\":true}\n"
      "{\"done\":true}\n");
  CHECK(ran.state == ProbeState::kRan);
  CHECK(ran.version == "2.9.1");
  REQUIRE(ran.devices.size() == 1);
  CHECK(ran.devices[0].name == "H100");
  const ProbeAnswer half = answer(
      "{\"device\":0,\"ran\":true}\n{\"device\":1,\"ran\":false,\"message\":\"no\"}\n{\"done\":"
      "true}");
  CHECK(half.state == ProbeState::kFailed);
  CHECK(half.message == "no");
  CHECK(answer("{\"waits\":true}\n{\"done\":true}").state == ProbeState::kNoDevice);
  CHECK(answer("{\"version\":\"1\"}\n{\"cpu_build\":true}\n{\"done\":true}").state ==
        ProbeState::kCpuBuild);
  CHECK(answer("{\"not_imported\":\"ImportError: x\"}").state == ProbeState::kNotImported);
  CHECK(answer("{\"failed\":\"RuntimeError: x\"}").message == "RuntimeError: x");
}

TEST_CASE("a framework that ends without output has crashed or was killed") {
  const ProbeAnswer killed = answer("{\"waits\":true}\n", SIGSEGV, true, "noise\nFatal: x\n\n");
  CHECK(killed.state == ProbeState::kCrashed);
  CHECK(killed.message == "ended by signal 11 (Segmentation fault); Fatal: x");
  CHECK(answer("", kExit3).message == "ended with exit code 3 and no answer");
  CHECK(answer("{\"waits\":true}\n", -1, true).state == ProbeState::kNoAnswer);
  CHECK(answer("{\"waits\":true}\n", -1, false).state == ProbeState::kNotReached);
}

TEST_CASE("output without a valid answer is ignored") {
  for (const char* text : {"", "{", "[]", "null\n7\n\"\"", "{\"device\":-1}", "{\"device\":\"x\"}",
                           "{\"version\":[[[[[[]]]]]]}"})
    CHECK(answer(text).state == ProbeState::kCrashed);
}

TEST_CASE("a probe's answers are read back from a bundle unchanged") {
  const std::vector<ProbeAnswer> given{
      {"torch", "2.9", ProbeState::kFailed, "why", {{0, "H100", true, ""}, {1, "", false, "why"}}},
      {"cupy", "", ProbeState::kNotReached, "", {}}};
  const auto back = probe_from_json(probe_to_json(given), "probe.json");
  REQUIRE(back);
  REQUIRE(back->has_value());
  CHECK(probe_to_json(**back) == probe_to_json(given));
  for (const char* bad :
       {"", "[]", "{}", "{\"answers\":[{}]}", "{\"answers\":[{\"framework\":\"x\"}]}",
        "{\"answers\":[{\"framework\":\"x\",\"state\":\"ran\",\"devices\":[1]}]}"})
    CHECK(probe_from_json(bad, "probe.json").error().id == "E0802");
}

TEST_CASE("no process that the program started is left, detached or not") {
  const berth::system::TemporaryTree folder;
  const std::string pids = folder.path + "/pids";
  ProbeChild child({"/bin/sh", "-c",
                    "(setsid sh -c 'echo $$ >>" + pids +
                        "; exec sleep 100' & ) ; "
                        "sleep 100 & echo $! >>" +
                        pids + "; echo noise; echo '{}' >&3; exit 7"},
                   {"PATH=/usr/bin:/bin"});
  REQUIRE(child.started());
  CHECK(soon([&] {
    child.read();
    return child.status().has_value() && std::filesystem::exists(pids) &&
           berth::slurp(pids).value_or("").find('\n') !=
               berth::slurp(pids).value_or("").rfind('\n');
  }));
  CHECK(child.status() == 7 << 8);
  CHECK(child.lines() == "{}\n");
  CHECK(child.last_words() == "noise\n");
  const std::string text = berth::slurp(pids).value_or("");
  child.end();
  for (const std::string_view line : berth::split(text, '\n'))
    if (const auto pid = berth::to_number(line))
      CHECK(soon([&] { return ::kill(static_cast<pid_t>(*pid), 0) != 0; }));
}

TEST_CASE("a program with excessive output continues, and its last words are kept") {
  ProbeChild child({"/bin/sh", "-c",
                    "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); "
                    "done; echo last; echo done >&3"},
                   {});
  CHECK(soon([&] {
    child.read();
    return child.status().has_value();
  }));
  child.read();
  CHECK(child.lines() == "done\n");
  CHECK(child.last_words().ends_with("last\n"));
  CHECK(child.last_words().size() <= 4096);
}

TEST_CASE("a program that does not exist ends at once") {
  ProbeChild child({"/nonexistent/python"}, {});
  CHECK(soon([&] {
    child.read();
    return child.status().has_value();
  }));
  CHECK(child.status() == 127 << 8);
}
