#include "bench/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace berth::bench {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
constexpr std::size_t kMostBytes = 4 << 20;

/// A folder for files that OpenCL platforms write, such as compiled kernels. The destructor removes
/// it. Its path is "" if no folder could be created.
class ScratchFolder {
 public:
  ScratchFolder() {
    for (const std::string& place :
         {env_nonempty("TMPDIR").value_or("/tmp"), std::string("/tmp")}) {
      path_ = place + "/berth-bench-XXXXXX";
      if (::mkdtemp(path_.data()) != nullptr) return;
    }
    path_.clear();
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Delays signals that end this process, so that it can first end the child and remove the folder.
/// The signals stay pending until the destructor unblocks them.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t ends;
    ::sigemptyset(&ends);
    for (const int one : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&ends, one);
    ::sigprocmask(SIG_BLOCK, &ends, &before_);
    came_.reset(::signalfd(-1, &ends, SFD_CLOEXEC));
  }
  ~HeldSignals() { let_in(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  void let_in() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  /// A descriptor that becomes readable when one of these signals arrives.
  [[nodiscard]] int descriptor() const { return came_.get(); }

 private:
  sigset_t before_{};
  Descriptor came_;
};

/// In the child: closes all descriptors except the pipe, which becomes 3; discards what libraries
/// print; ends if the parent dies.
void isolate(int pipe, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (pipe != 3) ::dup2(pipe, 3);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {0, 1, 2})
    if (null >= 0) ::dup2(null, standard);
  ::syscall(SYS_close_range, 4U, ~0U, 0U);
}

// NOLINTBEGIN(concurrency-mt-unsafe): the child has one thread.
void set_variables(const Target& target, const std::string& scratch) {
  const std::string threads = std::to_string(target.threads);
  // A BLAS starts a thread for each CPU of the machine and ignores the quota of a container.
  // Variables that the user has set are not changed.
  for (const char* variable : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"})
    ::setenv(variable, threads.c_str(), 0);
  if (!scratch.empty())
    for (const char* variable : {"XDG_CACHE_HOME", "POCL_CACHE_DIR"})
      ::setenv(variable, scratch.c_str(), 1);
}
// NOLINTEND(concurrency-mt-unsafe)

[[noreturn]] void be_the_child(int pipe, pid_t parent, const Case& one, const Target& target,
                               const Effort& effort, const std::string& scratch) {
  isolate(pipe, parent);
  set_variables(target, scratch);
  const std::string answer = encode(one.run(target, effort));
  std::string_view left = answer;
  while (!left.empty()) {
    const ssize_t n = ::write(3, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(1);
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  // Skip exit handlers, because those of OpenCL platforms wait for the platforms' threads.
  ::_exit(0);
}

/// Reads until the child closes the pipe. nullopt at the deadline or after a signal.
std::optional<std::string> read_until(int fd, const HeldSignals& signals, Clock::time_point end,
                                      const std::function<void()>& meanwhile) {
  constexpr std::int64_t kBetweenCalls = 250;  // time between calls of `meanwhile`, in milliseconds
  std::string bytes;
  std::array<char, 16384> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  while (bytes.size() <= kMostBytes) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    std::array<pollfd, 2> waiting{{{fd, POLLIN, 0}, {signals.descriptor(), POLLIN, 0}}};
    const std::int64_t most = meanwhile ? kBetweenCalls : std::int64_t{1} << 30;
    const int ready = ::poll(waiting.data(), waiting.size(),
                             static_cast<int>(std::clamp<std::int64_t>(left, 0, most)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && meanwhile && Clock::now() < end) {
      meanwhile();
      continue;
    }
    if (ready <= 0 || waiting[1].revents != 0) return std::nullopt;
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return bytes;
}

/// Kills the child and returns its wait status, or -1 if waitpid() fails.
int end(pid_t child) {
  ::kill(child, SIGKILL);
  int status = -1;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// Waits up to a second until a child that has closed its pipe exits by itself. Then kills it.
/// Returns the same as end().
int reap(pid_t child) {
  int status = -1;
  for (int tries = 0; tries < 100; ++tries) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return -1;
    ::poll(nullptr, 0, 10);
  }
  return end(child);
}

Error not_started(int problem) {
  return {ErrorCode::kUnavailable, "E1051",
          text("a process for the benchmark cannot be started: {}",
               std::generic_category().message(problem)),
          "ulimit -u"};
}

}  // namespace

std::string encode(const Result<Measured>& answer) {
  Json json;
  if (answer) {
    json = {{"library", answer->library},
            {"size", answer->size},
            {"work", answer->work},
            {"seconds", answer->seconds}};
    const auto put = [&](const char* key, const std::optional<double>& number) {
      if (number) json[key] = *number;
    };
    put("naive_seconds", answer->naive_seconds);
    put("max_error", answer->max_error);
    put("allowed_error", answer->allowed_error);
  } else {
    const Error& error = answer.error();
    json = {{"error", name(error.code)},
            {"id", error.id},
            {"message", error.message},
            {"hint", error.hint}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Result<Measured>> decode(std::string_view bytes) {
  const Json json = Json::parse(bytes, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    if (json.contains("error")) {
      const auto code = error_code(json.at("error").get<std::string>());
      if (!code) return std::nullopt;
      return Result<Measured>(Error{*code, json.at("id").get<std::string>(),
                                    json.at("message").get<std::string>(),
                                    json.at("hint").get<std::string>()});
    }
    const auto maybe = [&](const char* key) {
      return json.contains(key) ? std::optional(json.at(key).get<double>()) : std::nullopt;
    };
    Measured measured;
    measured.library = json.at("library").get<std::string>();
    measured.size = json.at("size").get<std::uint64_t>();
    measured.work = json.at("work").get<double>();
    measured.seconds = json.at("seconds").get<std::vector<double>>();
    measured.naive_seconds = maybe("naive_seconds");
    measured.max_error = maybe("max_error");
    measured.allowed_error = maybe("allowed_error");
    if (measured.seconds.empty()) return std::nullopt;
    return Result<Measured>(std::move(measured));
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

Result<Measured> run_in_child(const Case& one, const Target& target, const Effort& effort,
                              std::chrono::milliseconds deadline,
                              const std::function<void()>& meanwhile) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return not_started(errno);
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  // Declared before the folder, so it is destroyed after the folder.
  const HeldSignals signals;
  std::optional<ScratchFolder> scratch;
  if (target.backend == Backend::kOpenCl) scratch.emplace();
  const std::string folder = scratch ? scratch->path() : std::string();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return not_started(errno);
  if (child == 0) {
    signals.let_in();
    be_the_child(writing.get(), parent, one, target, effort, folder);
  }
  writing.reset();
  const auto bytes = read_until(reading.get(), signals, Clock::now() + deadline, meanwhile);
  const int status = bytes ? reap(child) : end(child);
  if (!bytes)
    return Error{
        ErrorCode::kUnavailable, "E1050",
        text("the benchmark did not finish within {} and was ended", show_duration(deadline)),
        "berth doctor"};
  if (auto answer = decode(*bytes)) return std::move(*answer);
  return Error{ErrorCode::kUnavailable, "E1051",
               WIFSIGNALED(status)
                   ? text("the library crashed (signal {})", WTERMSIG(status))
                   : text("the library ended the process before there was a result"),
               "berth doctor"};
}

}  // namespace berth::bench
