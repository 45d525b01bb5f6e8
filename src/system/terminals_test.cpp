#include "system/terminals.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <utmpx.h>

#include <cstring>

#include "base/descriptor.hpp"
#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::system;

namespace {

std::string entry(short kind, const char* user, const char* line) {
  utmpx one{};
  one.ut_type = kind;
  std::strncpy(one.ut_user, user, sizeof one.ut_user);
  std::strncpy(one.ut_line, line, sizeof one.ut_line);
  return {reinterpret_cast<const char*>(&one), sizeof one};
}

}  // namespace

TEST_CASE("a process's terminal and those of its user's logins") {
  const TemporaryTree tree;
  // The device 136:3 as one number: bits 0-7 and 20-31 are the minor, bits 8-19 the major.
  tree.put("proc/77/stat", "77 (a) b) S 1 77 77 " + std::to_string((136 << 8) | 3) + " 77 0 0");
  tree.put("proc/78/stat", "78 (x) S 1 78 78 " + std::to_string((4 << 8) | 2) + " 78");
  tree.put("proc/79/stat", "79 (daemon) S 1 79 79 0 -1");
  tree.put("utmp", entry(USER_PROCESS, "lin", "pts/3") + entry(USER_PROCESS, "zhao", "pts/4") +
                       entry(DEAD_PROCESS, "lin", "pts/5") + entry(USER_PROCESS, "lin", "pts/6") +
                       entry(USER_PROCESS, "lin", "../etc/passwd") +
                       entry(USER_PROCESS, "lin", ":0") + "cut");
  const auto of = [&](std::int64_t pid, const char* user) {
    auto found = terminals_of(tree.roots(), tree.path + "/utmp", pid, user);
    for (std::string& one : found) one = one.substr(tree.path.size());
    return found;
  };
  CHECK(of(77, "lin") == std::vector<std::string>{"/dev/pts/3", "/dev/pts/6"});
  CHECK(of(78, "zhao") == std::vector<std::string>{"/dev/tty2", "/dev/pts/4"});
  CHECK(of(79, "nobody").empty());
  CHECK(of(4711, "nobody").empty());
}

TEST_CASE("a message to a terminal does not block, and no other file is written") {
  const Descriptor master(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK));
  REQUIRE(master);
  REQUIRE((::grantpt(master.get()) == 0 && ::unlockpt(master.get()) == 0));
  const std::string slave = ::ptsname(master.get());
  const Descriptor open(::open(slave.c_str(), O_RDWR | O_NOCTTY));
  REQUIRE(open);
  CHECK(tell_terminal(slave, ::geteuid(), "one \x1b[31m\ntwo"));
  std::string said(200, '\0');
  const ssize_t n = ::read(master.get(), said.data(), said.size());
  REQUIRE(n > 0);
  said.resize(static_cast<std::size_t>(n));
  CHECK(said.find("two\r") != std::string::npos);
  CHECK(said.find('\x1b') == std::string::npos);
  CHECK(!tell_terminal(slave, ::geteuid() + 1, "not yours"));
  // No process reads the terminal, so its buffer fills up; writing must not block then.
  const std::string much(4000, 'x');
  int told = 0;
  while (told < 1000 && tell_terminal(slave, ::geteuid(), much)) ++told;
  CHECK(told < 1000);
  const TemporaryTree tree;
  tree.put("file", "");
  CHECK(!tell_terminal(tree.path + "/file", ::geteuid(), "a file"));
  CHECK(!tell_terminal("/dev/null", ::geteuid(), "no terminal"));
}
