#include "system/spawn.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/descriptor.hpp"

using namespace berth;
using namespace berth::system;

namespace {

struct Said {
  std::string out;
  int status = 0;
};

Said said_by(const std::string& script, bool is_daemon) {
  std::array<int, 2> ends{-1, -1};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const Descriptor theirs(ends[0]);
  Descriptor ours(ends[1]);
  const auto child = spawn({.program = "/bin/sh",
                            .words = {"sh", "-c", script},
                            .out = ours.get(),
                            .err = ours.get(),
                            .is_daemon = is_daemon});
  REQUIRE(child.problem == 0);
  ours.reset();
  Said said;
  for (std::array<char, 256> bytes{};;) {
    const ssize_t n = ::read(theirs.get(), bytes.data(), bytes.size());
    if (n <= 0) break;
    said.out.append(bytes.data(), static_cast<std::size_t>(n));
  }
  REQUIRE(::waitpid(child.pid, &said.status, 0) == child.pid);
  return said;
}

}  // namespace

TEST_CASE("a spawned process inherits only the caller's variables") {
  sigset_t term;
  sigset_t before;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, &before);
  const auto interrupt = ::signal(SIGINT, SIG_IGN);
  const Descriptor kept(::open("/dev/null", O_RDONLY));  // without O_CLOEXEC
  const Said open = said_by("ls /proc/$$/fd; pwd", true);
  const Said interrupted = said_by("kill -INT $$; echo alive", false);
  const Said ended = said_by("kill -TERM $$; echo alive", false);
  const Said reads = said_by("read line || echo nothing", false);
  ::signal(SIGINT, interrupt);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  CHECK(open.out == "0\n1\n2\n/\n");
  CHECK(WTERMSIG(interrupted.status) == SIGINT);
  CHECK(interrupted.out.empty());
  CHECK(WTERMSIG(ended.status) == SIGTERM);
  CHECK(reads.out == "nothing\n");
}

TEST_CASE("a daemon leads a session of its own") {
  CHECK(said_by("test $(ps -o sid= -p $$) -eq $$ && echo leads", true).out == "leads\n");
  CHECK(said_by("test $(ps -o sid= -p $$) -eq $$ || echo follows", false).out == "follows\n");
}

TEST_CASE("a failed start has a reason") {
  CHECK(spawn({.program = "/nonexistent", .words = {"x"}, .out = 1, .err = 2}).problem == ENOENT);
}
