#include "run/native_stack.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>

#include "base/descriptor.hpp"
#include "run/descendants.hpp"

using namespace berth;
using namespace berth::run;

extern "C" __attribute__((noinline, visibility("default"))) int berth_test_waits_here() {
  const int got = ::poll(nullptr, 0, 60'000);
  asm volatile("");  // prevents a tail call, so that this function stays on the stack
  return got;
}

namespace {

std::string lines_of(pid_t pid) {
  return native_lines(native_stacks({{pid, pid}}, std::chrono::seconds(20)).front());
}

/// Maps the code of a file, mounts a file system that never answers over its folder, and waits.
[[noreturn]] void wait_on_a_dead_file_system(const std::string& folder, int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string file = folder + "/code";
  const Descriptor code(::open(file.c_str(), O_RDONLY));
  constexpr std::size_t kPage = 4096;
  void* where = ::mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, code.get(), 0);
  const Descriptor fuse(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  const std::string options =
      "fd=" + std::to_string(fuse.get()) + ",rootmode=40000,user_id=0,group_id=0";
  const bool is_covered =
      where != MAP_FAILED && fuse && ::unshare(CLONE_NEWNS) == 0 &&
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      ::mount("none", folder.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
  const char answer = is_covered ? 'y' : 'n';
  if (::write(ready, &answer, 1) != 1 || !is_covered) ::_exit(1);
#if defined(__x86_64__)
  reinterpret_cast<void (*)()>(where)();
#endif
  ::_exit(1);
}

}  // namespace

TEST_CASE("the function in which a process waits is named, and the process is never stopped") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(berth_test_waits_here());
  }
  std::string lines;
  for (int i = 0; i < 400 && lines.find("berth_test_waits_here") == std::string::npos; ++i) {
    ::poll(nullptr, 0, 10);
    lines = lines_of(child);
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
  CHECK(lines_of(child).empty());
}

#if defined(__x86_64__)
TEST_CASE("a file system that never answers does not hold up the reader") {
  const std::string folder = "/tmp/berth-dead-" + std::to_string(::getpid());
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  // mov $34, %eax (pause); syscall
  constexpr std::string_view kPause("\xb8\x22\x00\x00\x00\x0f\x05", 7);
  std::ofstream(folder + "/code", std::ios::binary) << kPause << std::string(4096, '\x90');
  std::array<int, 2> ready{};
  REQUIRE(::pipe2(ready.data(), O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) wait_on_a_dead_file_system(folder, ready[1]);
  char answer = 'n';
  CHECK(::read(ready[0], &answer, 1) == 1);
  if (answer == 'y') {
    std::vector<NativeFrame> frames;
    const auto waits = [&] { return !frames.empty() && frames[0].library == "code"; };
    for (int i = 0; i < 50 && !waits(); ++i) {
      ::poll(nullptr, 0, 10);
      const auto start = std::chrono::steady_clock::now();
      frames = native_stacks({{child, child}}, std::chrono::milliseconds(500)).front();
      CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
    }
    // What is known without the files is still returned.
    REQUIRE(waits());
    CHECK(frames[0].is_exact);
    CHECK(frames[0].function.empty());
  } else {
    MESSAGE("not tested: FUSE cannot be mounted here");
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const int one : ready) ::close(one);
  ::unlink((folder + "/code").c_str());
  ::rmdir(folder.c_str());
}
#endif
