// Tests how the quota is counted while processes race and die.
#include "wire/guard.hpp"

#include <sys/mman.h>
#include <sys/wait.h>

#include <doctest/doctest.h>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>

#include "wire/turns.hpp"

using namespace berth::wire::guard;
using berth::wire::turns::file_name;

namespace {

struct Unmap {
  void operator()(Usage* usage) const { munmap(usage, sizeof(Usage)); }
};

std::unique_ptr<Usage, Unmap> shared_usage() {
  void* where =
      mmap(nullptr, sizeof(Usage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(where != MAP_FAILED);
  auto* usage = static_cast<Usage*>(where);
  usage->magic = kUsageMagic;
  usage->version = kVersion;
  return std::unique_ptr<Usage, Unmap>(usage);
}

/// Memory that was granted to living processes. Pending requests are not included, because they may
/// exceed the limit.
std::uint64_t granted(const Usage& usage) {
  const Sum sum = sum_of(usage, 0);
  return sum.used - sum.asked;
}

}  // namespace

TEST_CASE("a quota can be used to its last byte, and no further") {
  const auto usage = shared_usage();
  Process* own = take_place(*usage, getpid());
  REQUIRE(own != nullptr);
  Counters& counters = own->device[0];
  CHECK(charge(*usage, counters, 0, 1000, 1000) == Answer::kGranted);
  CHECK(charge(*usage, counters, 0, 1, 1000) == Answer::kOverQuota);
  give_back(counters, 400);
  CHECK(charge(*usage, counters, 0, 401, 1000) == Answer::kOverQuota);
  CHECK(charge(*usage, counters, 0, 400, 1000) == Answer::kGranted);
  CHECK(charge(*usage, counters, 0, kNoLimit, 1000) == Answer::kOverQuota);
  CHECK(usage->peak[0] == 1000);
}

TEST_CASE("memory of a killed process is free again, whatever it was doing") {
  const auto usage = shared_usage();
  Process* own = take_place(*usage, getpid());
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      Process* place = take_place(*usage, getpid());
      for (;;) {
        if (charge(*usage, place->device[0], 0, 700, 1000) == Answer::kGranted)
          give_back(place->device[0], 700);
      }
    }
    usleep(1000 + static_cast<useconds_t>(i) * 97);
    kill(child, SIGKILL);
    // Leaves the child a zombie. Its memory does not count, as with a real driver.
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
    CHECK(charge(*usage, own->device[0], 0, 1000, 1000) == Answer::kGranted);
    give_back(own->device[0], 1000);
    waitpid(child, nullptr, 0);
  }
}

TEST_CASE("racing processes never exceed the quota together, and each one progresses") {
  const auto usage = shared_usage();
  constexpr std::uint64_t kLimit = 1000, kEach = 600;
  constexpr int kProcesses = 4, kRounds = 5000;
  pid_t children[kProcesses];
  auto* inside = static_cast<int*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  for (pid_t& child : children) {
    child = fork();
    if (child != 0) continue;
    Process* place = take_place(*usage, getpid());
    int over = 0, got = 0;
    for (int i = 0; i < kRounds; ++i) {
      if (charge(*usage, place->device[0], 0, kEach, kLimit) != Answer::kGranted) continue;
      ++got;
      if (__atomic_add_fetch(inside, 1, __ATOMIC_SEQ_CST) != 1) ++over;
      __atomic_sub_fetch(inside, 1, __ATOMIC_SEQ_CST);
      give_back(place->device[0], kEach);
    }
    _exit(over != 0 ? 1 : got == 0 ? 2 : 0);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  bury_the_dead(*usage);
  CHECK(granted(*usage) == 0);
  munmap(inside, 4096);
}

TEST_CASE("a place belongs to one process, identified by pid and start time") {
  const auto usage = shared_usage();
  Process* own = take_place(*usage, getpid());
  CHECK(berth::wire::lives(own->pid, own->start));
  CHECK_FALSE(berth::wire::lives(own->pid, own->start + 1));
  own->device[0].used = 5;
  own->start += 1;
  bury_the_dead(*usage);
  CHECK(sum_of(*usage, 0).used == 0);
}

TEST_CASE("a place is free again if its process died before it wrote to it") {
  const auto usage = shared_usage();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  for (Process& process : usage->process) process.state = berth::wire::taken_by(child);
  usage->places = kMaxProcesses;
  waitpid(child, nullptr, 0);
  CHECK(take_place(*usage, getpid()) != nullptr);
}

TEST_CASE("only living processes are tallied, and what the driver may keep for streams is told") {
  const auto usage = shared_usage();
  Process* own = take_place(*usage, getpid());
  REQUIRE(own != nullptr);
  Counters& counters = own->device[1];
  counters.used = 1000;
  counters.pooled = 300;
  counters.pooled_peak = 800;
  counters.allocations = 5;
  counters.frees = 2;
  const auto tally = tally_of(*usage, 1);
  CHECK(tally.processes == 1);
  CHECK(tally.used == 1000);
  CHECK(tally.kept == 500);
  CHECK(tally.events == 7);
  CHECK(tally_of(*usage, 0).used == 0);
  own->state = kDead;
  CHECK(tally_of(*usage, 1).processes == 0);
}

TEST_CASE("jobs on one device take turns in one file, whether its uuid or its address is known") {
  DeviceLimit a{}, b{};
  a.uuid[0] = b.uuid[0] = 0x6e;
  a.uuid[15] = b.uuid[15] = 0x4a;
  a.pci = pci_word(0, 1, 0, 0);
  const auto name = [](const DeviceLimit& limit) { return std::string(file_name(limit).text); };
  CHECK(name(a) == "turns-3-6e00000000000000000000000000004a");
  CHECK(name(b) == name(a));
  DeviceLimit c{}, d{};
  c.pci = pci_word(0, 1, 0, 0);
  d.pci = pci_word(0, 2, 0, 0);
  CHECK(name(c) == "turns-3-00010000000000800000000000000000");
  CHECK(name(c) != name(d));
}
