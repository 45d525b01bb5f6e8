#include "client/reach.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "client/jobs.hpp"
#include "system/runtime_folder.hpp"
#include "system/spawn.hpp"

namespace berth::client {
namespace {

using Clock = std::chrono::steady_clock;

/// A driver may take half a minute to start, and the broker reads the machine before it answers.
constexpr std::chrono::seconds kMostPatience(40);
constexpr const char* kIdle = "60s";
constexpr std::chrono::milliseconds kGlance(
    1000);  // time limit for commands that only show the state and must not wait

Error cannot_start(const std::string& why, const std::string& hint = "berth serve") {
  return {ErrorCode::kUnavailable, "E0923", text("no broker could be started: {}", why), hint};
}

/// The first line that the program prints, or its whole output if it ends without a newline.
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

enum class Started { kOurs, kAnother };

/// Starts a broker and waits until it reports that it is ready or that another broker is running.
Result<Started> start(const std::string& program) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return cannot_start(error_words(errno));
  const Descriptor theirs(ends[0]);
  Descriptor ours(ends[1]);
  const auto broker =
      system::spawn({.program = program,
                     .words = {"berth", "--lang", "en", "--json", "serve", "--idle", kIdle},
                     .out = ours.get(),
                     .err = ours.get(),
                     .is_daemon = true});
  if (broker.problem != 0) return cannot_start(error_words(broker.problem));
  ours.reset();
  const std::string said = first_line(theirs.get());
  const auto error = error_in(said);
  if (!error && said.starts_with('{')) return Started::kOurs;
  if (!error)
    return cannot_start(said.empty() ? std::string(tr("it does not answer"))
                                     : printable(trim(said)));
  // If two clients start a broker at the same time, one of the brokers exits.
  if (error->id == "E0906" || error->id == "E0909") return Started::kAnother;
  return cannot_start(error->message + " (" + error->id + ")",
                      error->hint.empty() ? "berth serve" : error->hint);
}

/// Waits between attempts, with pauses of growing length. Reports the wait after a second.
class Patience {
 public:
  Patience(Clock::duration most, std::string sentence)
      : end_(begun_ + most), sentence_(std::move(sentence)) {}
  [[nodiscard]] bool is_over() const { return Clock::now() >= end_; }
  void pause(int most) {
    if (!sentence_.empty() && Clock::now() - begun_ >= std::chrono::seconds(1)) {
      say_wait(sentence_);
      sentence_.clear();
    }
    ::poll(nullptr, 0, pause_ = std::min(2 * pause_, most));
  }

 private:
  Clock::time_point begun_ = Clock::now(), end_;
  std::string sentence_;
  int pause_ = 5;  // milliseconds
};

Error is_away() {
  return {ErrorCode::kUnavailable, "E0929",
          text("the broker for all users does not answer at {}", system::kSystemSocket),
          "systemctl status berth"};
}

/// Connects to the system broker. If it is restarting for an upgrade, waits for it, because no
/// other broker knows its jobs.
Result<Client> reach_that_of_all() {
  const auto most = system::system_broker_expected_for();
  Patience patience(most, text("the broker for all users does not answer; waiting up to {} for it",
                               show_duration(most)));
  for (;;) {
    auto client = Client::connect(system::kSystemSocket);
    if (client || client.error().id != "E0920") return client;
    if (patience.is_over()) return is_away();
    patience.pause(200);
  }
}

/// Connects to this user's broker. Its socket is in the runtime folder or beside the journal; the
/// folder of the journal still exists after logout and without a session.
Result<Client> connect_own(const std::string& socket, const std::string& at_the_journal,
                           std::chrono::milliseconds at_most) {
  auto client = Client::connect(socket, at_most);
  if (client || client.error().id != "E0920") return client;
  auto there = Client::connect(at_the_journal, at_most);
  return there || there.error().id != "E0920" ? std::move(there) : std::move(client);
}

Result<Client> reach_own(const std::string& runtime, IfNone if_none, const std::string& program) {
  const std::string folder = system::state_folder(), at_the_journal = folder + "/berth.sock";
  Patience patience(kMostPatience, text("another broker has the journal in {}; waiting for it",
                                        printable(folder)));
  for (;;) {
    auto client = connect_own(runtime + "/berth.sock", at_the_journal,
                              if_none == IfNone::kGlance ? kGlance : kAnswerSoon);
    if (client || client.error().id != "E0920" || if_none == IfNone::kGlance) return client;
    // If there is no socket beside the journal, the last broker left no unfinished work, so do not
    // start a new broker.
    if (if_none == IfNone::kFail && ::access(at_the_journal.c_str(), F_OK) != 0) return client;
    if (patience.is_over())
      return Error{
          ErrorCode::kUnavailable, "E0923",
          text("another broker has the journal in {}, and does not answer", printable(folder)),
          "fuser -v " + printable(folder) + "/journal.db"};
    const auto started = start(program);
    if (!started) return started.error();
    // Another broker has opened the journal; it may not listen yet, or it may be exiting.
    if (*started == Started::kAnother) patience.pause(1000);
  }
}

}  // namespace

Result<Client> reach(IfNone if_none, const std::string& program) {
  const auto runtime = system::runtime_folder();
  if (!runtime) return runtime.error();
  bool has_left = false;
  if (!env_nonempty("BERTH_RUNTIME_DIR")) {
    auto of_all = if_none == IfNone::kGlance ? Client::connect(system::kSystemSocket, kGlance)
                                             : reach_that_of_all();
    if (of_all) return of_all;
    has_left = ::access(system::kSystemSocket, F_OK) == 0;
  }
  auto own = reach_own(*runtime, if_none, program);
  if (!has_left || if_none == IfNone::kGlance) return own;
  if (!own && own.error().id == "E0920") return is_away();
  if (own) say_wait(text("the broker for all users does not answer: using a broker of your own"));
  return own;
}

Status ask_to_hand_over(const std::string& state_folder) {
  auto client = Client::connect(state_folder + "/berth.sock");
  if (!client) return std::move(client).error();
  const auto answer = client->call("POST", "/v1/hand-over");
  if (!answer) return answer.error();
  if (answer->status >= 300) return error_in(answer->body).value_or(unreadable_answer(*answer));
  return Done{};
}

std::string left_with_own(const Client& reached) {
  const auto runtime = system::runtime_folder();
  // If there is no socket beside the journal, this user's own broker left no unfinished work.
  if (reached.socket() != system::kSystemSocket || !runtime ||
      ::access((system::state_folder() + "/berth.sock").c_str(), F_OK) != 0)
    return "";
  return "BERTH_RUNTIME_DIR=" + shell_word(*runtime) + " berth jobs";
}

Result<Client> reach_again(const std::string& socket, const std::string& program) {
  return socket == system::kSystemSocket ? reach_that_of_all() : reach(IfNone::kStart, program);
}

bool Following::goes_on() {
  constexpr int kMost = 10;
  const bool at_once = Clock::now() - begun_ < std::chrono::seconds(1);
  in_a_row_ = at_once ? in_a_row_ + 1 : 1;
  return in_a_row_ <= kMost;
}

}  // namespace berth::client
