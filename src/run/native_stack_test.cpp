#include "run/native_stack.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/file.hpp"
#include "run/descendants.hpp"

using namespace berth;
using namespace berth::run;

extern "C" __attribute__((noinline, visibility("default"))) int berth_test_waits_here() {
  const int got = ::poll(nullptr, 0, 60'000);
  asm volatile("");  // no tail call
  return got;
}

TEST_CASE("the function in which a process waits is named, and the process is never stopped") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(berth_test_waits_here());
  }
  std::string lines;
  for (int i = 0; i < 400 && lines.find("berth_test_waits_here") == std::string::npos; ++i) {
    ::poll(nullptr, 0, 10);
    lines = native_lines(native_stack(child, child));
    const auto stat = read_stat("/proc", child);
    REQUIRE(stat);
    CHECK((stat->state == 'S' || stat->state == 'R'));
  }
  CHECK(lines.find("libc.so.6 ") == 0);
  CHECK(lines.find("poll") != std::string::npos);
#if defined(__x86_64__)
  CHECK(lines.find("berth_test_waits_here") != std::string::npos);
#endif
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(native_stack(child, child).empty());
}

TEST_CASE("damaged ELF files have no functions") {
  const std::string own = slurp("/proc/self/exe").value_or("");
  REQUIRE(own.size() > 1000);
  const std::string path = "/tmp/berth-elf-" + std::to_string(::getpid());
  std::string head = own.substr(0, 4096);
  for (std::size_t at = 4; at < 64; ++at) {
    std::string damaged = head;
    damaged[at] = '\xff';
    std::ofstream(path, std::ios::binary) << damaged;
    CHECK(functions_at(path, {0, 1, 4096, UINT64_MAX}) == std::vector<std::string>(4));
  }
  ::unlink(path.c_str());
  CHECK(functions_at("/dev/zero", {1}) == std::vector<std::string>(1));
  CHECK(functions_at("/no/such", {1}) == std::vector<std::string>(1));
}
