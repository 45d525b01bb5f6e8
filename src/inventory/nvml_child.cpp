#include "inventory/nvml_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "inventory/nvml_child_main.hpp"

namespace berth::inventory {

namespace {

constexpr int kPipeInChild = 3;
constexpr int kPipeSize =
    1 << 20;  // pipe size: large enough that the child does not block while the parent is busy
constexpr int kPatienceMilliseconds =
    50;  // time that a killed process needs to end if it is not stuck in the kernel

void close_from(int first) {
  if (syscall(SYS_close_range, first, ~0U, 0) == 0) return;
  const long most = std::min(sysconf(_SC_OPEN_MAX), 65536L);  // Linux before 5.9 has no close_range
  for (int fd = first; fd < most; ++fd) close(fd);
}

// Redirects descriptors 0 to 2 to /dev/null instead of closing them. If they were closed, a file
// that the driver opens could get one of these numbers, and library messages would be written into
// that file.
bool keep_only(int pipe) {
  if (pipe != kPipeInChild && dup2(pipe, kPipeInChild) < 0) return false;
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < kPipeInChild; ++fd) {
    if (nowhere >= 0) {
      dup2(nowhere, fd);
    } else {
      close(fd);
    }
  }
  close_from(kPipeInChild + 1);
  return true;
}

void default_signals() {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become_child(int pipe, pid_t parent, const NvmlTask& task) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);  // the parent died before prctl() took effect
  prctl(PR_SET_NAME, "berth-nvml");
  default_signals();
  setsid();  // a new session, so that Ctrl-C only reaches the parent
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (!keep_only(pipe)) _exit(1);
  run_nvml_child(kPipeInChild, task);
}

bool wait_for_exit(const NvmlChild& child) {
  if (!child.process) return false;
  pollfd exited{child.process.get(), POLLIN, 0};
  return poll(&exited, 1, kPatienceMilliseconds) == 1;
}

}  // namespace

NvmlChild start_nvml_child(const NvmlTask& task) {
  NvmlChild child;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return child;
  Descriptor read_end(ends[0]);
  const Descriptor write_end(ends[1]);
  fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  // This fails if the size is above the user's limit. The pipe then keeps its default of 64 KiB.
  fcntl(read_end.get(), F_SETPIPE_SZ, kPipeSize);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return child;
  if (pid == 0) become_child(write_end.get(), parent, task);
  child.pid = pid;
  child.pipe = std::move(read_end);
  child.process.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  return child;
}

bool read_frames(const NvmlChild& child, frames::Parser& parser) {
  std::array<char, 65536> buffer;
  const ssize_t size = read(child.pipe.get(), buffer.data(), buffer.size());
  if (size > 0) parser.add({buffer.data(), static_cast<std::size_t>(size)});
  return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

int ending_of(NvmlChild& child) {
  if (child.pid < 0) return -1;
  wait_for_exit(child);
  int status = 0;
  const pid_t got = waitpid(child.pid, &status, WNOHANG);
  if (got == child.pid || (got < 0 && errno == ECHILD)) child.pid = -1;
  if (got <= 0) return -1;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void end_nvml_child(NvmlChild& child) {
  child.pipe.reset();
  if (child.pid < 0) return;
  kill(child.pid, SIGKILL);
  static_cast<void>(ending_of(child));
}

}  // namespace berth::inventory
