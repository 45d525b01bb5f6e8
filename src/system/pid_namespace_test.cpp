#include "system/pid_namespace.hpp"

#include <doctest/doctest.h>
#include <unistd.h>
#include <test_paths.hpp>

#include <string>

using namespace berth;
using namespace berth::system;

namespace {
Roots recorded(const std::string& machine) {
  const std::string root = std::string(BERTH_TEST_MACHINES) + "/" + machine;
  return {root + "/proc", root + "/sys", root + "/dev", root + "/etc", root + "/proc"};
}
constexpr std::uint64_t kInitial = 4026531836, kOther = 4026532501;
}  // namespace

TEST_CASE("the pid namespace of the driver's pids is decided only by conclusive matches") {
  CHECK(pid_view({true, kInitial, false}) == PidView::kHost);
  CHECK(pid_view({true, kInitial, true}) == PidView::kHost);
  CHECK(pid_view({true, kOther, false}) == PidView::kForeign);
  CHECK(pid_view({true, kOther, true}) == PidView::kHostProc);
  CHECK(pid_view({true, std::nullopt, true}) == PidView::kHost);
  CHECK(pid_view({true, std::nullopt, false}) == PidView::kForeign);
  CHECK(pid_view({false, std::nullopt, false}) == PidView::kHost);
  CHECK(pid_view({false, kOther, false}) == PidView::kForeign);
}

TEST_CASE("on the host the driver's pids are ours") {
  const PidTranslator translator(recorded("processes-host"));
  CHECK(translator.view() == PidView::kHost);
  CHECK(translator.find(4121).folder == 4121);
  CHECK(translator.find(4121).pid == 4121);
  CHECK(!translator.find(4122).pid);
  CHECK(!translator.find(0).folder);
  CHECK(!translator.find(-5).folder);
}

TEST_CASE("in a container, an equal pid is another process") {
  const PidTranslator translator(recorded("processes-container"));
  CHECK(translator.view() == PidView::kForeign);
  CHECK(!translator.find(4121).folder);
  CHECK(!translator.find(4121).pid);
}

TEST_CASE("with the host's proc in a container, inner pids are known for our own namespace only") {
  const PidTranslator translator(recorded("processes-host-proc"));
  CHECK(translator.view() == PidView::kHostProc);
  CHECK(translator.find(4121).folder == 4121);
  CHECK(translator.find(4121).pid == 33);
  CHECK(translator.find(4188).folder == 4188);
  CHECK(!translator.find(4188).pid);
  CHECK(translator.find(4200).folder == 4200);
  CHECK(!translator.find(4200).pid);
  CHECK(!translator.find(4999).folder);
}

TEST_CASE("the processes of a simulated machine run beside us wherever that is") {
  const PidTranslator translator(recorded("processes-container"), PidView::kHost);
  CHECK(translator.find(4121).pid == 4121);
}

TEST_CASE("on the real kernel a view is found, and in the host's view we find our own process") {
  const PidTranslator translator(Roots{});
  if (translator.view() == PidView::kHost) CHECK(translator.find(::getpid()).pid == ::getpid());
  if (translator.view() == PidView::kForeign) CHECK(!translator.find(::getpid()).pid);
}
