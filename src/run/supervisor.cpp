// One thread, one poll(). If a signal was sent to our whole process group (the terminal's Ctrl-C),
// the ranks have received it already; the signal probe shows that. A signal sent only to us is
// passed on to each rank.
#include "run/supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <random>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "model/cpu_list.hpp"
#include "model/tries.hpp"
#include "run/ending.hpp"
#include "run/failure.hpp"
#include "run/hang.hpp"
#include "run/held_port.hpp"
#include "run/own_name.hpp"
#include "run/rank_lines.hpp"
#include "run/signal_probe.hpp"
#include "run/stacks.hpp"
#include "run/tries_record.hpp"
#include "run/workload.hpp"
#include "system/cgroup.hpp"

namespace berth::run {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Time = Clock::time_point;

constexpr milliseconds kRestShown(500);  // when a partial line is shown
constexpr milliseconds kPeerLoss(
    500);  // how long a rank that lost another is not taken for the cause
constexpr milliseconds kUnkillable(5'000);     // after SIGKILL
constexpr milliseconds kLook(1'000);           // between two checks of the ranks' activity
constexpr milliseconds kHangSeen(10'000);      // without any activity: inspect the ranks' stacks
constexpr std::size_t kMostWaiting = 1 << 20;  // bytes buffered for a terminal that does not read
constexpr std::size_t kLinesKept = 8;

/// How many processes of our control group the kernel's OOM killer has ended; 0 if the kernel does
/// not count them.
std::uint64_t oom_kills() {
  const std::string mountinfo = slurp("/proc/self/mountinfo").value_or("");
  const auto memberships = system::parse_cgroup(slurp("/proc/self/cgroup").value_or(""));
  std::uint64_t count = 0;
  for (const system::CgroupMount& mount : system::parse_cgroup_mounts(mountinfo))
    for (const system::CgroupMembership& group : memberships) {
      const auto has_memory = [](const std::vector<std::string>& controllers) {
        return std::find(controllers.begin(), controllers.end(), "memory") != controllers.end();
      };
      const bool fits =
          mount.v2 ? group.v2 : has_memory(mount.controllers) && has_memory(group.controllers);
      if (!fits) continue;
      const auto folders = system::group_folders(mount, group.path);
      if (folders.empty()) continue;
      const auto events =
          slurp(folders.front() + (mount.v2 ? "/memory.events" : "/memory.oom_control"));
      count = std::max(count, system::stat_value(events.value_or(""), "oom_kill").value_or(0));
    }
  return count;
}

milliseconds since(Time then) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - then);
}

/// Buffers bytes for standard output or error. Their reader may be slow or gone.
class Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}
  void add(std::string_view bytes) {
    if (!gone_) waiting_ += bytes;
  }
  [[nodiscard]] bool is_full() const { return waiting_.size() >= kMostWaiting; }
  [[nodiscard]] bool is_gone() const { return gone_; }
  [[nodiscard]] bool has_bytes() const { return !waiting_.empty(); }
  [[nodiscard]] pollfd wish() const { return {has_bytes() ? fd_ : -1, POLLOUT, 0}; }
  /// Call it when poll() reports that the descriptor is writable; so few bytes never block.
  void write() {
    const std::size_t size = std::min<std::size_t>(waiting_.size(), PIPE_BUF);
    const ssize_t n = ::write(fd_, waiting_.data(), size);
    if (n > 0) waiting_.erase(0, static_cast<std::size_t>(n));
    if (n >= 0 || errno == EINTR || errno == EAGAIN) return;
    gone_ = true;
    waiting_.clear();
  }

 private:
  int fd_;
  std::string waiting_;
  bool gone_ = false;
};

/// One of a rank's two streams.
struct Stream {
  Stream(std::string prefix, std::size_t kept) : lines(std::move(prefix)), tail(kept) {}
  Descriptor from;
  Sink* to = nullptr;  // nullptr: not shown
  bool raw = false;    // passed on unchanged
  RankLines lines;
  Tail tail;
  std::optional<Time> rest_since;
};

struct Rank {
  explicit Rank(int number_)
      : number(number_),
        out(fmt::format("[rank {}] ", number_), 4 * 1024),
        err(fmt::format("[rank {}] ", number_), 16 * 1024) {}
  int number;
  pid_t pid = -1;
  Time started{};
  std::optional<Time> ended;
  int status = 0;
  rusage used{};
  Stream out, err;
  Descriptor log;
  std::string log_path;
  Movement movement;
  std::uint64_t written = 0;  // bytes of output
  bool was_ended_by_us = false, is_unkillable = false;

  [[nodiscard]] bool is_running() const { return pid > 0 && !ended && !is_unkillable; }
  [[nodiscard]] bool has_failed() const { return ended && status != 0; }
};

class Supervisor {
 public:
  Supervisor(const Launch& launch, const Inherited& inherited, int trouble)
      : launch_(launch),
        inherited_(inherited),
        plan_(*launch.supervision),
        trouble_(trouble),
        out_(1),
        err_(2) {}

  /// Returns the wait status for the job.
  int run() {
    listen();
    tries_.has_ranks = plan_.has_ranks;
    tries_.world_size = static_cast<int>(plan_.ranks.size());
    tries_.most_tries = plan_.most_tries;
    int status = run_try(1, milliseconds(0));
    for (int number = 2; number <= plan_.most_tries && may_try_again(); ++number) {
      const milliseconds pause = pause_before(number);
      say(text("try {} of {} ended: {}; the next one starts in {}", number - 1, plan_.most_tries,
               model::name(tries_.all.back().kind), show_duration(pause)));
      const Time until = Clock::now() + pause;
      while (!is_stopped_ && Clock::now() < until) wait_and_act(until);
      if (is_stopped_) {
        status = stop_signal_;  // a wait status: ended by that signal
        break;
      }
      status = run_try(number, pause);
    }
    // A slow reader gets the remaining output, but a user who wants the job to end does not wait
    // for it.
    const auto no_more = [&] { return is_stopped_ && since(begun_) > kUnkillable; };
    while ((out_.has_bytes() || err_.has_bytes()) && !no_more())
      wait_and_act(Clock::now() + milliseconds(100));
    write_record(plan_.record, tries_);
    if (!stack_folder_.empty()) tidy_stack_folder(stack_folder_);
    return status;
  }

 private:
  void listen() {
    sigset_t mine;
    ::sigfillset(&mine);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
      ::sigdelset(&mine, fault);
    ::pthread_sigmask(SIG_SETMASK, &mine, nullptr);
    ::signal(SIGCHLD, SIG_DFL);
    probe_.emplace();
    // Ctrl-Z stops us together with the ranks, so that the keeper reports it to the front.
    for (const int stop : {SIGTSTP, SIGTTIN, SIGTTOU}) {
      ::sigdelset(&mine, stop);
      ::signal(stop, SIG_DFL);
    }
    ::pthread_sigmask(SIG_SETMASK, &mine, nullptr);
    signals_.reset(::signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK));
    // Processes left by one try are ended before the next, as the keeper does after the last.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }

  /// An error in the program would only occur again.
  [[nodiscard]] bool may_try_again() const {
    switch (tries_.all.back().kind) {
      case model::TryClass::kOutOfMemory:
      case model::TryClass::kDeviceFault:
      case model::TryClass::kKilled:
      case model::TryClass::kHang:
        return !is_stopped_;
      default:
        return false;
    }
  }

  /// Doubles each time, with a random part, so that jobs that failed together do not restart
  /// together.
  [[nodiscard]] milliseconds pause_before(int number) const {
    milliseconds pause = plan_.backoff_least;
    for (int i = 2; i < number && pause < plan_.backoff_most; ++i) pause *= 2;
    pause = std::min(pause, plan_.backoff_most);
    std::random_device chance;
    return pause - milliseconds(static_cast<std::int64_t>(chance()) % (pause.count() / 4 + 1));
  }

  int run_try(int number, milliseconds waited) {
    model::Try& one = tries_.all.emplace_back();
    one.number = number;
    one.waited = waited;
    begun_ = moved_ = looked_ = Clock::now();
    hang_.reset();
    is_hang_ended_ = false;
    first_.reset();
    suspect_until_.reset();
    end_began_.reset();
    kill_at_.reset();
    is_killing_ = false;
    oom_kills_before_ = oom_kills();
    start_ranks(number);
    trouble_.reset();
    if (plan_.most_tries ==
        number) {  // our copies would keep pipes open that the ranks have closed
      close_inherited(inherited_);
      redirect_standard_streams(0, 0);
    }
    while (any_running()) {
      wait_and_act(next_deadline());
      decide();
      if (plan_.has_ranks && Clock::now() >= looked_ + kLook) look_for_hang();
    }
    if (first_) end_what_is_left();
    for (Rank& rank : ranks_) finish_output(rank);
    port_ = {};
    return fill(one);
  }

  // Start.

  void start_ranks(int number) {
    ranks_.clear();
    if (stack_folder_.empty()) stack_folder_ = make_stack_folder();
    if (plan_.has_ranks) {
      port_ = hold_port();
      tries_.master = fmt::format("127.0.0.1:{}", port_.number);
    }
    ranks_.reserve(plan_.ranks.size());
    for (std::size_t i = 0; i < plan_.ranks.size(); ++i) {
      Rank& rank = ranks_.emplace_back(static_cast<int>(i));
      start(rank, number);
    }
  }

  [[nodiscard]] bool is_shown(int rank) const {
    return plan_.shown.empty() ||
           std::find(plan_.shown.begin(), plan_.shown.end(), rank) != plan_.shown.end();
  }

  static bool open_pipe(Stream& stream, Descriptor& its_end) {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    stream.from.reset(ends[0]);
    its_end.reset(ends[1]);
    return ::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
  }

  void open_log(Rank& rank, int number) {
    if (plan_.log_folder.empty()) return;
    const std::string try_words = number == 1 ? "" : fmt::format(".try-{}", number);
    rank.log_path = fmt::format("{}/rank-{}{}.log", plan_.log_folder, rank.number, try_words);
    rank.log.reset(
        ::open(rank.log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666));
    if (!rank.log) no_log(rank);
  }

  void no_log(Rank& rank) {
    say(text("the output of rank {} is not written to {}: {}", rank.number,
             printable(rank.log_path), error_words(errno)));
    rank.log.reset();
  }

  void start(Rank& rank, int number) {
    open_log(rank, number);
    rank.started = Clock::now();
    Descriptor out;
    Descriptor err;
    const bool takes_output = plan_.has_ranks;
    bool has_pipes = open_pipe(rank.err, err);
    if (takes_output) has_pipes = open_pipe(rank.out, out) && has_pipes;
    rank.err.raw = rank.out.raw = !plan_.has_ranks;
    if (is_shown(rank.number)) {
      rank.out.to = &out_;
      rank.err.to = &err_;
    }
    const auto variables = variables_of(rank, number);
    const pid_t self = ::getpid();
    rank.pid = has_pipes ? ::fork() : -1;
    if (rank.pid == 0) become(rank, variables, self, out.get(), err.get());
    if (rank.pid > 0) return;
    say(text("cannot start rank {}: {}", rank.number, error_words(errno)));
    rank.ended = Clock::now();
    rank.status = 125 << 8;
  }

  [[nodiscard]] std::vector<std::string> variables_of(const Rank& rank, int number) const {
    std::map<std::string, std::string> own =
        plan_.ranks[static_cast<std::size_t>(rank.number)].variables;
    own["BERTH_TRY"] = std::to_string(number);
    if (plan_.has_ranks) {
      own["MASTER_ADDR"] = "127.0.0.1";
      own["MASTER_PORT"] = std::to_string(port_.number);
      own["TORCHELASTIC_RESTART_COUNT"] = std::to_string(number - 1);
      own["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(plan_.most_tries - 1);
      own["TORCHELASTIC_RUN_ID"] = fmt::format("berth-{}", ::getpid());
    }
    std::string python_path;
    for (const std::string& one : launch_.environment)
      if (one.starts_with("PYTHONPATH=")) python_path = one.substr(one.find('=') + 1);
    if (!stack_folder_.empty()) add_stack_variables(stack_folder_, own, python_path);
    std::vector<std::string> all;
    bool says_unbuffered = false;
    for (const std::string& one : launch_.environment) {
      const std::string name = one.substr(0, one.find('='));
      says_unbuffered = says_unbuffered || name == "PYTHONUNBUFFERED";
      if (!own.contains(name)) all.push_back(one);
    }
    // Python buffers output to a pipe in blocks. Lines would appear late, and the last ones never.
    if (plan_.has_ranks && !says_unbuffered) own["PYTHONUNBUFFERED"] = "1";
    for (const auto& [name, value] : own) all.push_back(name + "=" + value);
    return all;
  }

  [[noreturn]] void become(const Rank& rank, const std::vector<std::string>& variables, pid_t self,
                           int out, int err) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != self) ::_exit(125);
    if (plan_.has_ranks && rank.number != 0) redirect_standard_streams(0, 0);
    if (out >= 0) ::dup2(out, 1);
    ::dup2(err, 2);
    if (!pin(plan_.ranks[static_cast<std::size_t>(rank.number)].cpus))
      say_trouble(trouble_.get(), StartTrouble::Step::kPinning);
    std::vector<char*> words = pointers(launch_.command);
    std::vector<char*> environment = pointers(variables);
    for (const int stop : {SIGTSTP, SIGTTIN, SIGTTOU}) ::signal(stop, SIG_DFL);
    ::sigaction(SIGCHLD, &inherited_.on_child, nullptr);
    ignore_signals(launch_.limits.ignored.value_or(0));
    ::pthread_sigmask(SIG_SETMASK, &inherited_.mask, nullptr);
    ::execvpe(words[0], words.data(), environment.data());
    say_trouble(trouble_.get(), StartTrouble::Step::kExec);
    ::_exit(errno == ENOENT ? 127 : 126);
  }

  // While it runs.

  [[nodiscard]] bool any_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.is_running(); });
  }

  [[nodiscard]] Time next_deadline() const {
    Time next = Clock::now() + std::chrono::seconds(10);
    if (plan_.has_ranks) next = std::min(next, looked_ + kLook);
    if (kill_at_) next = std::min(next, *kill_at_);
    if (suspect_until_) next = std::min(next, *suspect_until_);
    for (const Rank& rank : ranks_)
      for (const Stream* stream : {&rank.out, &rank.err})
        if (stream->rest_since) next = std::min(next, *stream->rest_since + kRestShown);
    return next;
  }

  void wait_and_act(Time until) {
    std::vector<pollfd> waits{{signals_.get(), POLLIN, 0}, out_.wish(), err_.wish()};
    std::vector<std::pair<Rank*, Stream*>> streams;
    for (Rank& rank : ranks_)
      for (Stream* stream : {&rank.out, &rank.err}) {
        const bool may_read = stream->from && !(stream->to != nullptr && stream->to->is_full());
        waits.push_back({may_read ? stream->from.get() : -1, POLLIN, 0});
        streams.emplace_back(&rank, stream);
      }
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    if (::poll(waits.data(), waits.size(),
               static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000))) < 0)
      return;
    if (waits[1].revents != 0) out_.write();
    if (waits[2].revents != 0) err_.write();
    for (std::size_t i = 0; i < streams.size(); ++i)
      if (waits[i + 3].revents != 0) read_once(*streams[i].first, *streams[i].second);
    show_rests();
    if (waits[0].revents != 0) take_signals();
  }

  /// False if nothing more can be read now.
  bool read_once(Rank& rank, Stream& stream) {
    std::array<char, 1 << 16> room;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const ssize_t n = ::read(stream.from.get(), room.data(), room.size());
    if (n < 0) return errno == EINTR;
    if (n == 0) {
      stream.from.reset();
      return false;
    }
    const std::string_view bytes(room.data(), static_cast<std::size_t>(n));
    stream.tail.add(bytes);
    rank.written += bytes.size();
    if (rank.log && !write_all(rank.log.get(), bytes)) no_log(rank);
    pass(stream, bytes);
    // If the output has no reader any more, the program must notice, as it would without us.
    if (stream.to != nullptr && stream.to->is_gone()) stream.from.reset();
    return static_cast<bool>(stream.from);
  }

  static void pass(Stream& stream, std::string_view bytes) {
    if (stream.to == nullptr) return;
    if (stream.raw) return stream.to->add(bytes);
    stream.to->add(stream.lines.add(bytes));
    if (!stream.lines.has_rest())
      stream.rest_since.reset();
    else if (!stream.rest_since)
      stream.rest_since = Clock::now();
  }

  void show_rests() {
    const auto now = Clock::now();
    for (Rank& rank : ranks_)
      for (Stream* stream : {&rank.out, &rank.err})
        if (stream->rest_since && now - *stream->rest_since >= kRestShown) {
          stream->to->add(stream->lines.take_rest());
          stream->rest_since.reset();
        }
  }

  static bool write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  void drain(Rank& rank) {
    for (Stream* stream : {&rank.out, &rank.err})
      for (int times = 0; stream->from && times < 64 && read_once(rank, *stream); ++times) {
      }
  }

  void finish_output(Rank& rank) {
    drain(rank);
    for (Stream* stream : {&rank.out, &rank.err}) {
      if (stream->to != nullptr && !stream->raw) stream->to->add(stream->lines.take_rest());
      stream->rest_since.reset();
      stream->from.reset();
    }
  }

  void take_signals() {
    signalfd_siginfo one;
    while (::read(signals_.get(), &one, sizeof one) == sizeof one) hear(one);
    reap();
  }

  void hear(const signalfd_siginfo& one) {
    const int signal = static_cast<int>(one.ssi_signo);
    if (signal == SIGCHLD || signal == SIGPIPE) return;
    const bool have_it = probe_->saw(signal);
    for (const Rank& rank : ranks_) {
      if (have_it || !rank.is_running()) continue;
      sigval value{};
      value.sival_ptr = reinterpret_cast<void*>(one.ssi_ptr);
      if (one.ssi_code == SI_QUEUE)
        ::sigqueue(rank.pid, signal, value);
      else
        ::kill(rank.pid, signal);
    }
    if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT) {
      is_stopped_ = true;
      stop_signal_ = signal;
    }
  }

  void reap() {
    for (;;) {
      int status = 0;
      rusage used = {};
      const pid_t pid = ::wait4(-1, &status, WNOHANG | __WALL, &used);
      if (pid < 0 && errno == EINTR) continue;
      if (pid <= 0) return;
      for (Rank& rank : ranks_) {
        if (rank.pid != pid || rank.ended) continue;
        rank.ended = Clock::now();
        rank.status = status;
        rank.used = used;
        drain(rank);
      }
    }
  }

  // The end.

  void look_for_hang() {
    const auto now = Clock::now();
    const double passed = std::chrono::duration<double>(now - looked_).count();
    looked_ = now;
    bool moved = false;
    for (Rank& rank : ranks_) {
      if (!rank.is_running()) continue;
      const Movement seen = movement_of(rank.pid);
      moved = moved || rank.written > 0 || has_moved(rank.movement, seen, passed);
      rank.movement = seen;
      rank.written = 0;
    }
    if (moved || end_began_ || is_stopped_) {
      moved_ = now;
      hang_.reset();
      return;
    }
    if (!hang_ && now - moved_ >= kHangSeen) see_hang();
    if (hang_ && *hang_ && plan_.ends_hangs && now - moved_ >= plan_.hang_timeout) end_hang();
  }

  /// Once until a rank is active again, because it costs the ranks some time.
  void see_hang() {
    std::vector<pid_t> processes;
    for (const Rank& rank : ranks_)
      if (rank.is_running()) processes.push_back(rank.pid);
    auto stacks = ask_for_stacks(stack_folder_, processes);
    std::vector<RankState> states;
    for (const Rank& rank : ranks_) {
      RankState& state = states.emplace_back();
      state.rank = rank.number;
      state.has_ended = !rank.is_running();
      if (state.has_ended) continue;
      state.stack = std::move(stacks[rank.pid]);
      const auto threads = threads_of(rank.pid);
      if (!threads.empty()) state.waits_in = threads.front().waits_in;
    }
    auto hang = find_hang(states);
    hang_ = hang.has_value();
    if (!hang) return;
    hang->silent = since(moved_);
    hang->after = since(begun_);
    say(model::hang_sentence(*hang));
    tries_.all.back().hangs.push_back(*std::move(hang));
    write_record(plan_.record, tries_);
  }

  void end_hang() {
    const auto& odd = tries_.all.back().hangs.back().odd_ranks;
    const auto is_odd = [&](const Rank& rank) {
      return rank.is_running() &&
             (odd.empty() || std::find(odd.begin(), odd.end(), rank.number) != odd.end());
    };
    const auto found = std::find_if(ranks_.begin(), ranks_.end(), is_odd);
    // That rank may have ended with 0 long ago; then its peers are ended instead.
    first_ = found != ranks_.end()
                 ? found->number
                 : std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& one) {
                     return one.is_running();
                   })->number;
    is_hang_ended_ = true;
    end_others();
  }

  static bool only_lost_a_peer(const Rank& rank) {
    return WIFEXITED(rank.status) &&
           (mentions_lost_peer(rank.err.tail.bytes()) || mentions_lost_peer(rank.out.tail.bytes()));
  }

  /// The rank that failed first, as far as that is known.
  [[nodiscard]] Rank* culprit() {
    Rank* found = nullptr;
    const auto is_better = [](const Rank& a, const Rank& b) {
      if (only_lost_a_peer(a) != only_lost_a_peer(b)) return only_lost_a_peer(b);
      return *a.ended < *b.ended;
    };
    for (Rank& rank : ranks_)
      if (rank.has_failed() && !rank.was_ended_by_us &&
          (found == nullptr || is_better(rank, *found)))
        found = &rank;
    return found;
  }

  void decide() {
    const auto now = Clock::now();
    Rank* const failed = end_began_ ? nullptr : culprit();
    if (failed != nullptr) {
      // A rank that lost its peer may end before the peer does, so wait a moment for the peer.
      if (!suspect_until_) suspect_until_ = now + kPeerLoss;
      const bool may_be_other = only_lost_a_peer(*failed) && any_running() && !is_stopped_;
      if (!may_be_other || now >= *suspect_until_) {
        first_ = failed->number;
        suspect_until_.reset();
        end_others();
      }
    }
    // A cancelled job gets time to save its state, as at a time limit.
    if (is_stopped_ && !kill_at_) kill_at_ = now + launch_.grace;
    if (kill_at_ && now >= *kill_at_) kill_the_rest(now);
  }

  void end_others() {
    end_began_ = Clock::now();
    kill_at_ = *end_began_ + launch_.grace;
    for (Rank& rank : ranks_) {
      if (!rank.is_running()) continue;
      rank.was_ended_by_us = true;
      if (!is_stopped_) ::kill(rank.pid, SIGTERM);
      ::kill(rank.pid, SIGCONT);
    }
  }

  void kill_the_rest(Time now) {
    if (now >= *kill_at_ + kUnkillable) {
      for (Rank& rank : ranks_)
        if (rank.is_running()) rank.is_unkillable = true;
      return;
    }
    for (Rank& rank : ranks_)
      if (rank.is_running()) {
        rank.was_ended_by_us = true;
        ::kill(rank.pid, SIGKILL);
      }
    if (!is_killing_) kill_at_ = now;
    is_killing_ = true;
  }

  /// Ends processes left by ranks that we ended. The user need not know about them.
  void end_what_is_left() {
    EndingPlan plan;
    plan.spared = {probe_->pid()};
    plan.none_left = [this] {
      reap();
      return descendants_except({probe_->pid()}).empty();
    };
    plan.wait = [this](milliseconds most) {
      wait_and_act(Clock::now() + most);
      return false;
    };
    static_cast<void>(end_descendants(plan));
  }

  static model::RankPart part_of(const Rank& rank, bool is_first, bool is_stopped) {
    if (rank.is_unkillable) return model::RankPart::kUnkillable;
    if (rank.status == 0) return model::RankPart::kOk;
    if (is_stopped) return model::RankPart::kStopped;
    return is_first ? model::RankPart::kFailedFirst : model::RankPart::kVictim;
  }

  [[nodiscard]] model::RankEnd end_of(const Rank& rank) const {
    const RankSpec& spec = plan_.ranks[static_cast<std::size_t>(rank.number)];
    const auto as_time = [](const timeval& t) {
      return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
    };
    model::RankEnd end;
    end.rank = rank.number;
    end.pid = rank.pid;
    end.part = part_of(rank, first_ == rank.number, is_stopped_);
    if (rank.ended && WIFEXITED(rank.status)) end.exit_code = WEXITSTATUS(rank.status);
    if (rank.ended && WIFSIGNALED(rank.status)) end.signal = WTERMSIG(rank.status);
    end.wall =
        std::chrono::duration_cast<milliseconds>(rank.ended.value_or(Clock::now()) - rank.started);
    end.cpu = std::chrono::duration_cast<milliseconds>(as_time(rank.used.ru_utime) +
                                                       as_time(rank.used.ru_stime));
    end.peak_rss_bytes = static_cast<std::uint64_t>(rank.used.ru_maxrss) * 1024;
    end.devices = spec.devices;
    end.cpus = model::show_cpu_list(spec.cpus);
    end.threads = spec.threads;
    end.log = rank.log ? rank.log_path : "";
    if (end.part == model::RankPart::kOk) return end;
    const auto err = rank.err.tail.bytes();
    end.traceback = traceback_in(err);
    end.last_lines = last_lines(err, kLinesKept);
    if (end.last_lines.empty()) end.last_lines = last_lines(rank.out.tail.bytes(), kLinesKept);
    return end;
  }

  int fill(model::Try& one) {
    const Rank* ended_with = nullptr;
    for (const Rank& rank : ranks_) {
      one.ranks.push_back(end_of(rank));
      const bool counts = first_ ? rank.number == *first_ : rank.has_failed();
      if (counts && ended_with == nullptr) ended_with = &rank;
    }
    one.wall = since(begun_);
    const int status = ended_with == nullptr ? 0 : ended_with->status;
    if (WIFEXITED(status)) one.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) one.signal = WTERMSIG(status);
    if (is_hang_ended_) {
      one.kind = model::TryClass::kHang;
      one.evidence = fmt::format("no progress for {}", show_duration(plan_.hang_timeout));
    } else if (is_stopped_) {
      one.kind = model::TryClass::kStopped;
    } else if (ended_with != nullptr) {
      const std::string output = std::string(ended_with->out.tail.bytes()) + "\n" +
                                 std::string(ended_with->err.tail.bytes());
      auto classified =
          classify({one.exit_code, one.signal, output, oom_kills() - oom_kills_before_});
      one.kind = classified.kind;
      one.evidence = std::move(classified.evidence);
    }
    return status;
  }

  void say(const std::string& sentence) {
    if (!plan_.quiet) err_.add(text("note: {}", sentence) + "\n");
  }

  const Launch& launch_;
  const Inherited& inherited_;
  const Supervision& plan_;
  Descriptor trouble_, signals_;
  std::optional<SignalProbe> probe_;
  Sink out_, err_;
  HeldPort port_;
  std::vector<Rank> ranks_;
  model::Tries tries_;
  Time begun_{};
  std::optional<int> first_;  // the rank that failed first
  std::uint64_t oom_kills_before_ = 0;
  std::string stack_folder_;
  Time moved_{}, looked_{};   // time of the ranks' last activity; time of our last check
  std::optional<bool> hang_;  // whether the stacks show a hang since then; nullopt: not inspected
  bool is_hang_ended_ = false;
  int stop_signal_ = 0;
  std::optional<Time> suspect_until_, end_began_, kill_at_;
  bool is_stopped_ = false, is_killing_ = false;
};

/// Ends this process with the command's wait status.
[[noreturn]] void end_like(int status) {
  if (!WIFSIGNALED(status)) ::_exit(WEXITSTATUS(status));
  ::prctl(PR_SET_DUMPABLE, 0);  // the command has dumped its own core; do not dump ours
  const int signal = WTERMSIG(status);
  ::signal(signal, SIG_DFL);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::raise(signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::_exit(128 + signal);
}

}  // namespace

void supervise(const Launch& launch, const Inherited& inherited, int trouble) {
  int status = 0;
  {
    Supervisor supervisor(launch, inherited, trouble);
    status = supervisor.run();
  }
  end_like(status);
}

}  // namespace berth::run
