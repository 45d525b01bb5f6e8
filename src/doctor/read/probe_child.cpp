#include "doctor/read/probe_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/file.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kMostLines = 64 << 10;
constexpr std::size_t kLastWords = 4 << 10;

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> all;
  all.reserve(words.size() + 1);
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

/// Makes `ends` the descriptors 0 to 3 of the program. They are first duplicated to numbers from 10
/// on, so that none is overwritten.
void place_descriptors(std::array<int, 4> ends) {
  for (int& one : ends) one = ::fcntl(one, F_DUPFD, 10);
  for (int i = 0; i < 4; ++i) ::dup2(ends[static_cast<std::size_t>(i)], i);
  ::syscall(SYS_close_range, 4U, ~0U, 0U);
}

[[noreturn]] void become(char* const* words, char* const* variables, std::array<int, 4> ends,
                         pid_t keeper) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != keeper) ::_exit(127);
  ::setsid();
  place_descriptors(ends);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::execve(words[0], words, variables);
  ::_exit(127);
}

/// The children of the process, according to the kernel. Empty if the kernel has no such list.
std::vector<pid_t> children_of(pid_t pid) {
  const std::string id = std::to_string(pid);
  std::vector<pid_t> all;
  const std::string text = slurp("/proc/" + id + "/task/" + id + "/children", 1 << 20).value_or("");
  for (const std::string_view word : split(text, ' '))
    if (const auto child = to_number(word)) all.push_back(static_cast<pid_t>(*child));
  return all;
}

/// Kills the program and everything that it started. This process is a subreaper: detached
/// descendants of the program become its children. It kills its children until none remains.
void end_all(pid_t program) {
  for (int round = 0; round < 400; ++round) {
    ::kill(-program, SIGKILL);
    std::vector<pid_t> left = children_of(::getpid());
    for (std::size_t i = 0; i < left.size() && left.size() < 100'000; ++i)
      for (const pid_t below : children_of(left[i])) left.push_back(below);
    for (const pid_t one : left) ::kill(one, SIGKILL);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD) return;
    ::poll(nullptr, 0, round < 50 ? 1 : 5);
  }
}

/// Waits until the program ends and reports its status. Kills all processes when the caller closes
/// its end of `life`.
[[noreturn]] void keep(int life, pid_t program) {
  bool told = false;
  for (;;) {
    pollfd interest{life, POLLIN, 0};
    if (::poll(&interest, 1, told ? -1 : 10) > 0) break;  // the caller has closed the other end
    int status = 0;
    if (told || ::waitpid(program, &status, WNOHANG) != program) continue;
    told = true;
    static_cast<void>(!::send(life, &status, sizeof status, MSG_NOSIGNAL));
  }
  end_all(program);
  ::_exit(0);
}

[[noreturn]] void be_keeper(char* const* words, char* const* variables, std::array<int, 4> ends,
                            int life) {
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGPIPE, SIGCHLD, SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  const pid_t self = ::getpid();
  const pid_t program = ::fork();
  if (program == 0) become(words, variables, ends, self);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  place_descriptors({nothing, nothing, nothing, life});
  if (program < 0) ::_exit(1);
  keep(3, program);
}

/// Appends the available data. Returns false at end of file.
bool drain(Descriptor& from, std::string& into, std::size_t most, bool keep_end) {
  std::array<char, 16384> buffer{};
  for (int reads = 0; reads < 64; ++reads) {
    const ssize_t count = ::read(from.get(), buffer.data(), buffer.size());
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    into.append(buffer.data(), static_cast<std::size_t>(count));
    if (into.size() > most && keep_end) into.erase(0, into.size() - most);
    if (into.size() > most) into.resize(most);
  }
  return true;
}

}  // namespace

ProbeChild::ProbeChild(const std::vector<std::string>& words,
                       const std::vector<std::string>& environment) {
  std::array<int, 2> in{}, answers{}, noise{}, life{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0) return;
  const Descriptor their_in(in[0]);
  go_.reset(in[1]);
  if (::pipe2(answers.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
  answers_.reset(answers[0]);
  const Descriptor their_answers(answers[1]);
  // The end that the program writes to must block, so that no output is lost.
  ::fcntl(answers[1], F_SETFL, 0);
  if (::pipe2(noise.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
  noise_.reset(noise[0]);
  const Descriptor their_noise(noise[1]);
  ::fcntl(noise[1], F_SETFL, 0);
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life.data()) != 0) return;
  life_.reset(life[0]);
  const Descriptor their_life(life[1]);
  const auto word_pointers = pointers(words), variable_pointers = pointers(environment);
  keeper_ = ::fork();
  if (keeper_ == 0)
    be_keeper(word_pointers.data(), variable_pointers.data(),
              {in[0], noise[1], noise[1], answers[1]}, life[1]);
}

ProbeChild::ProbeChild(ProbeChild&& other) noexcept
    : keeper_(std::exchange(other.keeper_, -1)),
      answers_(std::move(other.answers_)),
      noise_(std::move(other.noise_)),
      life_(std::move(other.life_)),
      go_(std::move(other.go_)),
      lines_(std::move(other.lines_)),
      last_words_(std::move(other.last_words_)),
      status_(other.status_) {}

ProbeChild::~ProbeChild() {
  end();
}

void ProbeChild::read() {
  if (answers_ && !drain(answers_, lines_, kMostLines, false)) answers_.reset();
  if (noise_ && !drain(noise_, last_words_, kLastWords, true)) noise_.reset();
  if (!life_ || status_) return;
  int status = 0;
  const ssize_t got = ::recv(life_.get(), &status, sizeof status, MSG_DONTWAIT);
  if (got == sizeof status) status_ = status;
  if (got == 0) status_ = SIGKILL;  // the supervisor was killed, which also kills the program
}

void ProbeChild::say_go() {
  const char go = '\n';
  // If the program has already ended, the write raises SIGPIPE, which must not end this process.
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  static_cast<void>(!::write(go_.get(), &go, 1));
  ::sigaction(SIGPIPE, &before, nullptr);
}

void ProbeChild::end() {
  if (keeper_ <= 0) return;
  life_.reset();
  go_.reset();
  // Nothing can kill a process that is blocked in the driver. Stop waiting after a short time; the
  // supervisor continues to try.
  for (int tries = 0; tries < 200 && ::waitpid(keeper_, nullptr, WNOHANG) == 0; ++tries)
    ::poll(nullptr, 0, 5);
  keeper_ = -1;
}

}  // namespace berth::doctor
