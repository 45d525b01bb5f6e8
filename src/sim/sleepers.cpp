#include "sim/sleepers.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error_words.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::sim {
namespace {

constexpr int kPipe = 3;  // the descriptor from which the program reads (simulator/sleeper.c)

Error cannot_start(int number) {
  return {ErrorCode::kUnavailable, "E0613",
          text("cannot start a simulated process: {}", error_words(number)),
          "berth sim --processes 10 …   ulimit -u"};
}

/// Runs in the child: closes the parent's files, resets signals, and arranges that the process dies
/// with its parent.
[[noreturn]] void become(const std::string& program, const std::vector<std::string>& words,
                         int pipe, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  setsid();  // a new session, so that terminal signals do not reach it
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
  if (pipe == kPipe)
    fcntl(pipe, F_SETFD, 0);
  else
    dup2(pipe, kPipe);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  char* const environment[] = {nullptr};
  execve(program.c_str(), argv.data(), environment);
  _exit(127);
}

std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> words;
  for (const std::string_view word : split(command, ' '))
    if (!word.empty()) words.emplace_back(word);
  return words;
}

}  // namespace

Result<pid_t> Sleepers::start(const std::string& program, const std::string& command) {
  if (!held_) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return cannot_start(errno);
    read_.reset(ends[0]);
    held_.reset(ends[1]);
  }
  if (!not_yet_) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return cannot_start(errno);
    ready_.reset(ends[0]);
    not_yet_.reset(ends[1]);
  }
  const std::vector<std::string> words = words_of(command);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return cannot_start(errno);
  if (pid == 0) become(program, words, read_.get(), parent);
  pids_.push_back(pid);
  return pid;
}

void Sleepers::await_commands() {
  constexpr int kMilliseconds = 10'000;
  not_yet_.reset();
  pollfd ended{ready_.get(), POLLIN, 0};
  while (ready_ && poll(&ended, 1, kMilliseconds) < 0 && errno == EINTR) {
  }
  ready_.reset();
}

bool Sleepers::has(pid_t pid) const {
  return std::find(pids_.begin(), pids_.end(), pid) != pids_.end();
}

void Sleepers::forget(pid_t pid) {
  pids_.erase(std::remove(pids_.begin(), pids_.end(), pid), pids_.end());
}

void Sleepers::stop() {
  held_.reset();
  read_.reset();
  for (const pid_t pid : pids_) kill(pid, SIGKILL);
  for (const pid_t pid : pids_)
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  pids_.clear();
}

}  // namespace berth::sim
