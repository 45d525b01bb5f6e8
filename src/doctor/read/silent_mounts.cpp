#include "doctor/read/silent_mounts.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <map>

#include "base/file.hpp"
#include "doctor/read/process.hpp"
#include "system/cgroup.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kMostAsked = 256;

/// File systems that the kernel provides itself. The mounts of automounters are also skipped,
/// because accessing them would mount something.
bool is_of_the_kernel(std::string_view type) {
  constexpr auto kTypes = std::to_array<std::string_view>(
      {"autofs",  "bdev",      "binfmt_misc", "bpf",        "btrfs",      "cgroup",    "cgroup2",
       "cpuset",  "configfs",  "debugfs",     "devpts",     "devtmpfs",   "ecryptfs",  "efivarfs",
       "fusectl", "hugetlbfs", "mqueue",      "nsfs",       "overlay",    "aufs",      "proc",
       "pstore",  "ramfs",     "rootfs",      "rpc_pipefs", "securityfs", "selinuxfs", "sysfs",
       "tmpfs",   "tracefs",   "zfs",         "nfsd",       "squashfs",   "resctrl",   "smackfs"});
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

struct Question {
  int pipe;
  std::uint16_t number;
  const char* path;
};

/// Accesses a mount, and reports that it has answered. An error is an answer too.
void* ask(void* given) {
  const auto* question = static_cast<const Question*>(given);
  struct statvfs about {};
  static_cast<void>(::statvfs(question->path, &about));
  static_cast<void>(!::write(question->pipe, &question->number, sizeof question->number));
  return nullptr;
}

/// Closes all descriptors except `pipe`. A thread that waits for a file server cannot be killed. If
/// it kept the output pipe open, the reader of the pipe would wait for it too.
void let_go_of_all_but(int pipe) {
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int stream : {0, 1, 2})
    if (nothing >= 0) ::dup2(nothing, stream);
  ::syscall(SYS_close_range, 3U, static_cast<unsigned>(pipe) - 1U, 0U);
  ::syscall(SYS_close_range, static_cast<unsigned>(pipe) + 1U, ~0U, 0U);
}

[[noreturn]] void be_the_child(pid_t parent, std::vector<Question>& questions, int pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  ::prctl(PR_SET_NAME, "berth-mounts");
  let_go_of_all_but(pipe);
  std::vector<pthread_t> threads;
  for (Question& one : questions) {
    pthread_t thread{};
    if (::pthread_create(&thread, nullptr, ask, &one) == 0)
      threads.push_back(thread);
    else  // without a test, no mount counts as silent
      static_cast<void>(!::write(pipe, &one.number, sizeof one.number));
  }
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
  ::_exit(0);
}

}  // namespace

std::vector<std::vector<std::string>> served_mounts(const std::string& mountinfo) {
  std::map<std::string_view, std::vector<std::string>> by_device;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto fields = system::mount_line(line);
    // Skip file systems on disks: their major number is not 0, as it is for virtual and network
    // file systems.
    if (!fields || !fields->device.starts_with("0:") || is_of_the_kernel(fields->type)) continue;
    by_device[fields->device].push_back(system::unescaped(fields->point));
  }
  std::vector<std::vector<std::string>> found;
  for (auto& [device, points] : by_device)
    if (found.size() < kMostAsked) found.push_back(std::move(points));
  return found;
}

MountsAsked::MountsAsked(const std::string& process, std::string root,
                         const Environment& environment)
    : asked_(served_mounts(slurp(process + "/mountinfo", 4 << 20).value_or(""))),
      start_(std::chrono::steady_clock::now()) {
  for (const auto& [folder, variable] : written_folders(environment)) asked_.push_back({folder});
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  pipe_.reset(ends[0]);
  // Use a number above the standard streams, even if some of them are closed.
  const Descriptor writing(::fcntl(ends[1], F_DUPFD_CLOEXEC, 10));
  ::close(ends[1]);
  if (!writing) return;
  std::vector<std::string> paths;
  for (const auto& points : asked_) paths.push_back(root + points.front());
  std::vector<Question> questions;
  for (const std::string& path : paths)
    questions.push_back(
        {writing.get(), static_cast<std::uint16_t>(questions.size()), path.c_str()});
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ == 0) be_the_child(parent, questions, writing.get());
}

MountsAsked::~MountsAsked() {
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  // If the process cannot be killed, abandon it.
  for (int tries = 0; tries < 20 && ::waitpid(child_, nullptr, WNOHANG) == 0; ++tries)
    ::poll(nullptr, 0, 5);
}

std::vector<std::string> MountsAsked::finish(std::chrono::milliseconds deadline) {
  if (child_ <= 0) return {};
  std::vector<bool> answered(asked_.size());
  while (std::find(answered.begin(), answered.end(), false) != answered.end()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        start_ + deadline - std::chrono::steady_clock::now());
    pollfd ready{pipe_.get(), POLLIN, 0};
    const int polled = ::poll(&ready, 1, std::max(0, static_cast<int>(left.count())));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) break;
    std::uint16_t number = 0;
    const ssize_t size = ::read(pipe_.get(), &number, sizeof number);
    if (size < 0 && errno == EINTR) continue;
    // The child ended early, so nothing is known about the other mounts.
    if (size != static_cast<ssize_t>(sizeof number)) return {};
    if (number < answered.size()) answered[number] = true;
  }
  std::vector<std::string> silent;
  for (std::size_t i = 0; i < asked_.size(); ++i)
    if (!answered[i]) silent.insert(silent.end(), asked_[i].begin(), asked_[i].end());
  return silent;
}

}  // namespace berth::doctor
