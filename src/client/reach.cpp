#include "client/reach.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "system/runtime_folder.hpp"

namespace berth::client {
namespace {

using Clock = std::chrono::steady_clock;

/// A driver that starts takes half a minute, and the broker looks at the machine before it answers.
constexpr std::chrono::seconds kMostPatience(40);
constexpr const char* kIdle = "60s";
constexpr std::chrono::seconds kRestart(20);

Error cannot_start(const std::string& why) {
  return {ErrorCode::kUnavailable, "E0923", text("no broker could be started: {}", why),
          "berth serve"};
}

class SpawnPlan {
 public:
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  /// In a session of its own, with nothing of ours but its words and variables; what it says goes
  /// to `out`.
  [[nodiscard]] int spawn(const std::string& program, std::vector<const char*> words, int out) {
    ::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDWR, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, out, 1);
    ::posix_spawn_file_actions_adddup2(&actions_, out, 2);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, 3);
    ::posix_spawn_file_actions_addchdir_np(&actions_, "/");
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    words.push_back(nullptr);
    pid_t child = -1;
    // exec takes char* const[] for history's sake and changes nothing.
    return ::posix_spawn(&child, program.c_str(), &actions_, &attributes_,
                         const_cast<char* const*>(words.data()), environ);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// Its first line, or all that it said before it ended.
std::string first_line(int from) {
  const Clock::time_point end = Clock::now() + kMostPatience;
  std::string said;
  while (said.find('\n') == std::string::npos && said.size() < 4096) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd wait{from, POLLIN, 0};
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) == 0) break;
    std::array<char, 1024> bytes;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const ssize_t n = ::read(from, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    said.append(bytes.data(), static_cast<std::size_t>(n));
  }
  return said;
}

/// "error: what happened (E0907)" without what surrounds it.
std::string reason_in(const std::string& said) {
  std::string_view line(said);
  line = trim(line.substr(0, line.find('\n')));
  if (const auto at = line.find(": "); at != std::string_view::npos) line.remove_prefix(at + 2);
  return line.empty() ? std::string(tr("it does not answer")) : printable(line);
}

enum class Started { kOurs, kAnother };

/// One that says that it is ready, or that another has its place.
Result<Started> start(const std::string& program) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return cannot_start(::strerrordesc_np(errno));
  const Descriptor theirs(ends[0]);
  Descriptor ours(ends[1]);
  SpawnPlan plan;
  const int problem =
      plan.spawn(program, {"berth", "--lang", "en", "serve", "--idle", kIdle}, ours.get());
  if (problem != 0) return cannot_start(::strerrordesc_np(problem));
  ours.reset();
  const std::string said = first_line(theirs.get());
  if (said.starts_with("serving ")) return Started::kOurs;
  // Two clients at once start two brokers, of which one stays.
  if (said.find("E0906") != std::string::npos || said.find("E0909") != std::string::npos)
    return Started::kAnother;
  return cannot_start(reason_in(said));
}

}  // namespace

Result<Client> reach(IfNone if_none, const std::string& program) {
  const auto runtime = system::runtime_folder();
  if (!runtime) return runtime.error();
  if (!env_nonempty("BERTH_RUNTIME_DIR"))
    if (auto of_all = Client::connect(system::kSystemSocket)) return of_all;
  const std::string socket = *runtime + "/berth.sock";
  const Clock::time_point end = Clock::now() + kMostPatience;
  for (int pause = 20;; pause = std::min(2 * pause, 1000)) {
    auto client = Client::connect(socket);
    if (client || client.error().id != "E0920" || if_none == IfNone::kFail) return client;
    if (Clock::now() > end) return client;
    const auto started = start(program);
    if (!started) return started.error();
    // Another that has the journal may not listen yet, or be about to end.
    if (*started == Started::kAnother) ::poll(nullptr, 0, pause);
  }
}

Result<Client> reach_again(const std::string& socket, const std::string& program) {
  if (socket != system::kSystemSocket) return reach(IfNone::kStart, program);
  const Clock::time_point end = Clock::now() + kRestart;
  for (int pause = 5;; pause = std::min(2 * pause, 200)) {
    auto client = Client::connect(socket);
    if (client || Clock::now() > end) return client;
    ::poll(nullptr, 0, pause);
  }
}

}  // namespace berth::client
