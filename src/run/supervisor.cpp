// Starts the ranks of a job, watches them and ends them: one loop with one poll(), and the
// decisions that depend on all ranks. The code for a single rank is in rank.hpp, rank_log.hpp,
// rank_stream.hpp and rank_environment.hpp. retry.hpp decides whether another try follows. If a
// signal was sent to our whole process group (the terminal's Ctrl-C), the ranks have received it
// already; the signal probe shows that. A signal sent only to us is passed on to each rank.
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
#include <ctime>
#include <optional>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/translated.hpp"
#include "base/units.hpp"
#include "base/write_file.hpp"
#include "model/cpu_list.hpp"
#include "model/tries.hpp"
#include "run/ending.hpp"
#include "run/failure.hpp"
#include "run/flight_recorder.hpp"
#include "run/group_counters.hpp"
#include "run/hang_watch.hpp"
#include "run/meeting_point.hpp"
#include "run/nccl_log.hpp"
#include "run/own_name.hpp"
#include "run/preflight.hpp"
#include "run/rank.hpp"
#include "run/rank_environment.hpp"
#include "run/retry.hpp"
#include "run/signal_probe.hpp"
#include "run/stacks.hpp"
#include "run/tries_record.hpp"
#include "run/warning.hpp"
#include "run/workload.hpp"

namespace berth::run {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Time = Clock::time_point;

// how long to wait for the cause if a rank lost its connection to another rank
constexpr milliseconds kPeerLoss(500);
constexpr milliseconds kErrorEnds(5'000);   // how long a rank may take to end after its error
constexpr milliseconds kUnkillable(5'000);  // how long a process may take to end after SIGKILL
constexpr int kNoFlight = 125;              // exit code if the preflight fails

milliseconds since(Time then) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - then);
}

class Supervisor {
 public:
  Supervisor(const Launch& launch, const Inherited& inherited, int trouble)
      : launch_(launch),
        inherited_(inherited),
        plan_(*launch.supervision),
        specs_(plan_.ranks),
        shown_(plan_.shown),
        input_rank_(plan_.input_rank),
        trouble_(trouble),
        out_(1),
        err_(2) {}

  /// Returns the wait status for the job.
  int run() {
    listen();
    tries_ = plan_.earlier;
    tries_.has_ranks = plan_.has_ranks;
    tries_.world_size = world_size();
    tries_.most_tries = plan_.most_tries;
    int number = static_cast<int>(tries_.all.size()) + 1;
    change_ = plan_.change;
    int status = kNoFlight << 8;
    if (number > 1 || preflight_passes())
      status = run_try(number, plan_.waited);
    else if (is_stopped_ || is_warned_)
      status = is_stopped_ ? stop_signal_ : SIGTERM;  // a wait status: ended by that signal
    change_ = model::TryChange::kNothing;
    for (++number; number <= plan_.most_tries && may_try_again(); ++number) {
      const milliseconds pause = pause_before_try(number, plan_.backoff_least, plan_.backoff_most);
      say(text("try {} of {} ended: {}; the next one starts in {}", number - 1, plan_.most_tries,
               model::name(tries_.all.back().kind), show_duration(pause)));
      const Time until = Clock::now() + pause;
      while (!is_stopped_ && !is_warned_ && Clock::now() < until) wait_and_act(until);
      if (is_stopped_) status = stop_signal_;
      if (is_stopped_ || is_warned_) break;
      leave_out_devices();
      status = run_try(number, pause);
    }
    pass_error_on();
    // A slow reader still gets the remaining output. But if the user wants the job to end, do not
    // wait for the reader.
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
    // Ctrl-Z stops this supervisor as well as the ranks. The keeper sees that, and tells the
    // process in the foreground. If the caller ignores or blocks a stop signal, nothing stops.
    for (const int stop : {SIGTSTP, SIGTTIN, SIGTTOU})
      if (::sigismember(&inherited_.mask, stop) == 0) ::sigdelset(&mine, stop);
    ::pthread_sigmask(SIG_SETMASK, &mine, nullptr);
    signals_.reset(::signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK));
    // As a subreaper, this process finds processes that remain from a try, and ends them before the
    // next try. The keeper does the same after the last try.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }

  [[nodiscard]] bool may_try_again() const {
    if (is_stopped_ || is_warned_ || tries_.all.empty()) return false;
    const model::TryClass kind = tries_.all.back().kind;
    // If the job may continue with fewer ranks, the supervisor uses the remaining devices of the
    // lease.
    const bool is_here = kind == model::TryClass::kDeviceFault && plan_.fewer;
    if (plan_.leaves_changes_to_front && may_need_changes(kind) && !is_here) return false;
    return is_worth_a_retry(kind, plan_.hang_action);
  }

  /// Runs the preflight, if requested. Returns whether the program may start.
  bool preflight_passes() {
    if (plan_.preflight.empty()) return true;
    is_preflight_ = true;
    static_cast<void>(run_try(0, milliseconds(0)));
    is_preflight_ = false;
    tries_.all.clear();
    // no result is expected, because ranks that were stopped print none
    if (is_stopped_ || is_warned_) return false;
    std::vector<model::Preflight> found;
    for (const Rank& rank : ranks_) found.push_back(found_by(rank));
    tries_.preflight = sum_up(found);
    const bool passes = tries_.preflight->state != model::Preflight::State::kFailed;
    say(preflight_sentence(*tries_.preflight) + (passes ? "" : " (E0953)"));
    return passes;
  }

  /// The result that a rank of the preflight printed. If it failed without a result, its last line
  /// of output.
  static model::Preflight found_by(const Rank& rank) {
    model::Preflight one = parse_preflight(rank.out.tail());
    if (!one.step.empty() || !rank.has_failed() || rank.was_ended_by_us) return one;
    const auto last = last_lines(rank.err.tail(), 1);
    if (one.state == model::Preflight::State::kFailed && !last.empty()) one.why = last.front();
    return one;
  }

  /// After a fault of a device, starts the next try without the devices of the rank that failed
  /// first.
  void leave_out_devices() {
    const model::Try& last = tries_.all.back();
    const model::RankEnd* first = model::first_failed(last);
    if (last.kind != model::TryClass::kDeviceFault || !plan_.fewer || first == nullptr ||
        first->devices.empty())
      return;
    std::vector<int> lost = lost_devices_;
    lost.insert(lost.end(), first->devices.begin(), first->devices.end());
    std::sort(lost.begin(), lost.end());
    auto ranks = plan_.fewer(lost);
    if (ranks.empty()) return;
    specs_ = std::move(ranks);
    lost_devices_ = std::move(lost);
    say(text_n("the job continues with {0} rank, without GPU {1}",
               "the job continues with {0} ranks, without GPU {1}",
               static_cast<long long>(specs_.size()), specs_.size(),
               model::show_cpu_list(lost_devices_)));
    choose_other_ranks();
  }

  /// Chooses other ranks for --stdin-rank and --tee if those ranks no longer exist.
  void choose_other_ranks() {
    const int count = world_size();
    if (input_rank_ >= count) {
      input_rank_ = count - 1;
      say(text("rank {} has standard input now", input_rank_));
    }
    if (shown_.empty()) return;
    std::erase_if(shown_, [&](int rank) { return rank >= count; });
    if (shown_.empty()) say(text("no rank of --tee is left: the output of all ranks is shown"));
  }

  int run_try(int number, milliseconds waited) {
    model::Try& one = tries_.all.emplace_back();
    one.number = number;
    one.waited = waited;
    one.change = change_;
    one.batch_scale = plan_.batch_scale;
    one.world_size = tries_.world_size = world_size();
    one.lost_devices = lost_devices_;
    begun_ = Clock::now();
    is_hang_ended_ = false;
    first_.reset();
    suspect_until_.reset();
    end_began_.reset();
    kill_at_.reset();
    is_killing_ = false;
    oom_kills_before_ = oom_kills();
    start_ranks(number);
    hangs_.begin(stack_folder_, flight_stem_, begun_);
    hangs_.set_meeting_ports({meeting_.port, meeting_.relay_port});
    if (!is_preflight_) trouble_.reset();
    if (plan_.most_tries ==
        number) {  // our copies would keep pipes open that the ranks have closed
      close_inherited(inherited_);
      redirect_standard_streams(0, 0);
    }
    while (any_running()) {
      wait_and_act(next_deadline());
      decide();
      if (is_preflight_ && !end_began_ && Clock::now() >= begun_ + kPreflightLimit) end_others();
      if (!is_preflight_ && plan_.has_ranks && Clock::now() >= hangs_.next_look()) look_for_hang();
    }
    end_of_hang();
    if (first_) end_what_is_left();
    for (Rank& rank : ranks_) finish_output(rank);
    meeting_point_.close();
    end_flight();
    return fill(one);
  }

  // Starting the ranks.

  void start_ranks(int number) {
    ranks_.clear();
    if (stack_folder_.empty()) stack_folder_ = make_stack_folder();
    choose_flight_stem();
    if (plan_.has_ranks) {
      meet();
      tries_.master = fmt::format("{}:{}", meeting_.address, meeting_.port);
    }
    ranks_.reserve(specs_.size());
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      Rank& rank = ranks_.emplace_back(first_number() + static_cast<int>(i));
      start(rank, number);
    }
  }

  /// The number of the first rank on this node.
  [[nodiscard]] int first_number() const {
    return plan_.node.rank * static_cast<int>(specs_.size());
  }
  [[nodiscard]] int world_size() const {
    return plan_.node.count * static_cast<int>(specs_.size());
  }
  [[nodiscard]] const RankSpec& spec_of(const Rank& rank) const {
    return specs_[static_cast<std::size_t>(rank.number - first_number())];
  }

  void meet() {
    meeting_ = meeting_point_.make(plan_.node, specs_.size());
    if (meeting_point_.is_taken())
      say(text("port {} is in use on this node; MASTER_PORT sets another", plan_.node.port));
  }

  [[nodiscard]] bool is_shown(int rank) const {
    if (is_preflight_) return false;
    return shown_.empty() || std::find(shown_.begin(), shown_.end(), rank) != shown_.end();
  }

  void open_log(Rank& rank, int number) {
    if (plan_.log_folder.empty() || is_preflight_) return;
    const std::string try_words = number == 1 ? "" : fmt::format(".try-{}", number);
    if (!rank.log.open(fmt::format("{}/rank-{}{}.log", plan_.log_folder, rank.number, try_words),
                       plan_.log_limit))
      no_log(rank);
  }

  void no_log(const Rank& rank) {
    say(text("the output of rank {} is not written to {}: {}", rank.number,
             printable(rank.log.path()), error_words(errno)));
  }

  void write_log(Rank& rank, std::string_view bytes) {
    const bool was_split = rank.log.is_split();
    if (!rank.log.write(bytes)) return no_log(rank);
    if (!was_split && rank.log.is_split())
      say(
          text("rank {} writes more than half of --log-limit: {} has the beginning, and the end "
               "goes to {}.1 and {}.2",
               rank.number, printable(rank.log.path()), printable(rank.log.path()),
               printable(rank.log.path())));
  }

  /// If there is a log folder, the error file is in it and remains after the job, as with torchrun.
  void choose_error_file(Rank& rank) {
    if (!plan_.has_ranks || (plan_.log_folder.empty() && stack_folder_.empty())) return;
    rank.error_path = plan_.log_folder.empty()
                          ? fmt::format("{}/{}-{}.json", stack_folder_, ::getpid(), rank.number)
                          : fmt::format("{}/rank-{}.error.json", plan_.log_folder, rank.number);
    ::unlink(rank.error_path.c_str());
  }

  /// PyTorch's flight recorder records NCCL, so only ranks with devices have one.
  void choose_flight_stem() {
    flight_stem_.clear();
    if (!plan_.has_ranks || is_preflight_ || specs_.front().devices.empty()) return;
    if (!plan_.log_folder.empty())
      flight_stem_ = plan_.log_folder + "/flight-recorder-";
    else if (!stack_folder_.empty())
      flight_stem_ = fmt::format("{}/{}-flight-", stack_folder_, ::getpid());
  }

  void end_flight() const {
    std::vector<int> all;
    for (const Rank& rank : ranks_) all.push_back(rank.number);
    if (!flight_stem_.empty()) remove_flight_files(flight_stem_, all, !plan_.log_folder.empty());
  }

  /// If there is a log folder, NCCL's own logs stay in it. If not, they are removed after the try.
  void choose_nccl_log(Rank& rank, int number) {
    const std::string& folder = plan_.log_folder.empty() ? stack_folder_ : plan_.log_folder;
    if (!plan_.nccl_debug || is_preflight_ || folder.empty()) return;
    const std::string try_words = number == 1 ? "" : fmt::format(".try-{}", number);
    const std::string job = plan_.log_folder.empty() ? fmt::format("{}-", ::getpid()) : "";
    rank.nccl_stem = fmt::format("{}/{}rank-{}{}.nccl", folder, job, rank.number, try_words);
    NcclLogs old;  // reading also removes the logs of an earlier run in this folder
    read_nccl_files(rank.nccl_stem, rank.number, true, old);
  }

  void read_nccl_logs(model::Try& one) const {
    if (!plan_.nccl_debug || is_preflight_) return;
    NcclLogs logs;
    for (const Rank& rank : ranks_)
      if (!rank.nccl_stem.empty())
        read_nccl_files(rank.nccl_stem, rank.number, plan_.log_folder.empty(), logs);
    one.nccl = logs.result();
  }

  /// Whether a running rank has written its error file, but takes long to end.
  [[nodiscard]] bool has_error_of_running_rank() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
      return rank.is_running() && parse_error_file(rank.text_of_error_file());
    });
  }

  /// Writes the first error to the TORCHELASTIC_ERROR_FILE of `berth run` itself, if torchx or a
  /// script of the user has set one.
  void pass_error_on() {
    std::string path;
    for (const std::string& one : launch_.environment)
      if (one.starts_with("TORCHELASTIC_ERROR_FILE=")) path = one.substr(one.find('=') + 1);
    if (!plan_.has_ranks || path.empty() || tries_.all.empty()) return;
    const model::RankEnd* const first = model::first_failed(tries_.all.back());
    if (first == nullptr) return;
    const Rank& rank = ranks_[static_cast<std::size_t>(first->rank - first_number())];
    const std::string last = first->last_lines.empty() ? "" : first->last_lines.back();
    const ErrorFile made{
        first->traceback.empty() ? last : first->traceback.substr(first->traceback.rfind('\n') + 1),
        first->traceback, std::time(nullptr)};
    const int code = first->exit_code.value_or(-first->signal.value_or(0));
    const Descriptor file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666));
    if (!file || !write_all(file.get(), error_file_text(rank.error_text, made, code)))
      say(text("the error of rank {} is not written to {}: {}", first->rank, printable(path),
               error_words(errno)));
  }

  void start(Rank& rank, int number) {
    open_log(rank, number);
    choose_error_file(rank);
    choose_nccl_log(rank, number);
    rank.started = Clock::now();
    Descriptor out;
    Descriptor err;
    const bool takes_output = plan_.has_ranks;
    bool has_pipes = rank.err.open(err);
    if (takes_output) has_pipes = rank.out.open(out) && has_pipes;
    rank.out.set_raw(!plan_.has_ranks);
    rank.err.set_raw(!plan_.has_ranks);
    if (is_shown(rank.number)) {
      rank.out.show(out_);
      rank.err.show(err_);
    }
    const auto variables = environment_of(
        {plan_, spec_of(rank), rank, world_size(), number, meeting_, stack_folder_, flight_stem_},
        launch_.environment);
    const pid_t self = ::getpid();
    rank.pid = has_pipes ? ::fork() : -1;
    if (rank.pid == 0) become(rank, variables, self, out.get(), err.get());
    if (rank.pid > 0) return;
    say(text("cannot start rank {}: {}", rank.number, error_words(errno)));
    rank.ended = Clock::now();
    rank.status = 125 << 8;
  }

  [[noreturn]] void become(const Rank& rank, const std::vector<std::string>& variables, pid_t self,
                           int out, int err) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != self) ::_exit(125);
    if (plan_.has_ranks && (is_preflight_ || rank.number != input_rank_))
      redirect_standard_streams(0, 0);
    if (out >= 0) ::dup2(out, 1);
    ::dup2(err, 2);
    if (!pin(spec_of(rank).cpus)) say_trouble(trouble_.get(), StartTrouble::Step::kPinning);
    std::vector<char*> words = pointers(is_preflight_ ? plan_.preflight : launch_.command);
    std::vector<char*> environment = pointers(variables);
    ::sigaction(SIGCHLD, &inherited_.on_child, nullptr);
    ignore_signals(launch_.limits.ignored.value_or(0));
    ::pthread_sigmask(SIG_SETMASK, &inherited_.mask, nullptr);
    ::execvpe(words[0], words.data(), environment.data());
    say_trouble(trouble_.get(), StartTrouble::Step::kExec);
    ::_exit(errno == ENOENT ? 127 : 126);
  }

  // While the ranks run.

  [[nodiscard]] bool any_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.is_running(); });
  }

  [[nodiscard]] Time next_deadline() const {
    Time next = Clock::now() + std::chrono::seconds(10);
    if (is_preflight_)
      next = std::min(next, begun_ + kPreflightLimit);
    else if (plan_.has_ranks)
      next = std::min(next, hangs_.next_look());
    if (kill_at_) next = std::min(next, *kill_at_);
    if (saving_until_ && *saving_until_ > Clock::now()) next = std::min(next, *saving_until_);
    if (suspect_until_) next = std::min(next, *suspect_until_);
    for (const Rank& rank : ranks_)
      for (const RankStream* stream : {&rank.out, &rank.err})
        if (const auto due = stream->rest_due()) next = std::min(next, *due);
    return next;
  }

  void wait_and_act(Time until) {
    std::vector<pollfd> waits{{signals_.get(), POLLIN, 0}, out_.wish(), err_.wish()};
    std::vector<std::pair<Rank*, RankStream*>> streams;
    for (Rank& rank : ranks_)
      for (RankStream* stream : {&rank.out, &rank.err}) {
        waits.push_back({stream->wish(), POLLIN, 0});
        streams.emplace_back(&rank, stream);
      }
    const std::size_t relay_at = waits.size();
    meeting_point_.relay().add_waits(waits);
    if (const auto next = meeting_point_.relay().next_try()) until = std::min(until, *next);
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    if (::poll(waits.data(), waits.size(),
               static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000))) < 0)
      return;
    if (waits[1].revents != 0) out_.write();
    if (waits[2].revents != 0) err_.write();
    for (std::size_t i = 0; i < streams.size(); ++i)
      if (waits[i + 3].revents != 0) read_once(*streams[i].first, *streams[i].second);
    meeting_point_.relay().act(waits.data() + relay_at);
    show_rests();
    if (waits[0].revents != 0) take_signals();
  }

  /// Reads once from the rank's pipe. Returns false if nothing more can be read now.
  bool read_once(Rank& rank, RankStream& stream) {
    std::array<char, 1 << 16> room;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const ssize_t n = ::read(stream.descriptor(), room.data(), room.size());
    if (n < 0) return errno == EINTR;
    if (n == 0) {
      stream.close();
      return false;
    }
    const std::string_view bytes(room.data(), static_cast<std::size_t>(n));
    rank.written += bytes.size();
    if (rank.log.is_open()) write_log(rank, bytes);
    stream.take(bytes);
    return stream.is_open();
  }

  void show_rests() {
    const auto now = Clock::now();
    for (Rank& rank : ranks_) {
      rank.out.show_rest(now);
      rank.err.show_rest(now);
    }
  }

  void drain(Rank& rank) {
    for (RankStream* stream : {&rank.out, &rank.err})
      for (int times = 0; stream->is_open() && times < 64 && read_once(rank, *stream); ++times) {
      }
  }

  void finish_output(Rank& rank) {
    drain(rank);
    rank.out.finish();
    rank.err.finish();
  }

  void take_signals() {
    signalfd_siginfo one;
    while (::read(signals_.get(), &one, sizeof one) == sizeof one) hear(one);
    reap();
  }

  void hear(const signalfd_siginfo& one) {
    const int signal = static_cast<int>(one.ssi_signo);
    if (signal == SIGCHLD || signal == SIGPIPE) return;
    if (is_to_be_passed_on(one)) return warn(signal);
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

  /// Sends the signal that warns the ranks: the job will be ended soon. So no further try starts.
  void warn(int signal) {
    is_warned_ = true;
    wait_for_exec();
    const bool is_handled = warn_descendants(signal, probe_->pid()).handlers > 0;
    if (is_handled && signal == launch_.checkpoint.signal)
      saving_until_ = Clock::now() + launch_.checkpoint.before;
    if (!is_handled) say(not_sent_sentence(signal));
  }

  /// Waits until the ranks execute their commands. Until then, a rank has all signals blocked, as
  /// if it handled them.
  void wait_for_exec() const {
    // milliseconds; a limit, because the rank's command may be `berth` itself
    constexpr int kMost = 1000;
    const auto is_waiting = [](const Rank& rank) {
      return rank.is_running() && is_berth(rank.pid);
    };
    for (int i = 0; i < kMost && std::any_of(ranks_.begin(), ranks_.end(), is_waiting); ++i)
      ::poll(nullptr, 0, 1);
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
        rank.read_error_file(!plan_.log_folder.empty());
        if (rank.number == 0) meeting_point_.relay().give_up();
      }
    }
  }

  // Ending the ranks.

  void look_for_hang() {
    const auto now = Clock::now();
    std::vector<WatchedRank> watched;
    for (const Rank& rank : ranks_)
      watched.push_back({rank.number, rank.is_running() ? rank.pid : -1, rank.written});
    if (auto hang = hangs_.look(watched, end_began_ || is_stopped_, now)) {
      say(model::hang_sentence(*hang));
      if (const auto last = model::collectives_sentence(*hang); !last.empty()) say(last);
      tries_.all.back().hangs.push_back(*std::move(hang));
      write_record(plan_.record, tries_);
    } else if (!hangs_.is_hanging()) {
      end_of_hang();
    }
    if (plan_.hang_action != HangAction::kReport && hangs_.has_hung_for(plan_.hang_timeout, now))
      end_hang();
  }

  /// Records that the ranks do not hang any more. The front reads that.
  void end_of_hang() {
    auto& hangs = tries_.all.back().hangs;
    if (hangs.empty() || std::exchange(hangs.back().is_over, true)) return;
    write_record(plan_.record, tries_);
  }

  void end_hang() {
    const auto& odd = tries_.all.back().hangs.back().odd_ranks;
    const auto is_odd = [&](const Rank& rank) {
      return rank.is_running() &&
             (odd.empty() || std::find(odd.begin(), odd.end(), rank.number) != odd.end());
    };
    const auto found = std::find_if(ranks_.begin(), ranks_.end(), is_odd);
    // The rank that caused the hang may already have exited with 0. Then the first running rank
    // counts as failed, and the others are ended.
    first_ = found != ranks_.end()
                 ? found->number
                 : std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& one) {
                     return one.is_running();
                   })->number;
    is_hang_ended_ = true;
    say(translated(hang_evidence()));
    end_others();
  }

  /// The evidence of the hang, in English. The report translates it.
  [[nodiscard]] std::string hang_evidence() const {
    constexpr auto kEnded = msgid("no progress for {}: Berth ended all ranks (--hang-action {})");
    const bool is_retry = plan_.hang_action == HangAction::kRetry;
    return fmt::format(fmt::runtime(kEnded), show_duration(plan_.hang_timeout),
                       is_retry ? "retry" : "kill");
  }

  void decide() {
    const auto now = Clock::now();
    // A rank that has saved its state may exit with any code. So do not end the other ranks while
    // they still have time to save.
    const bool may_save = saving_until_ && now < *saving_until_;
    Rank* const failed = end_began_ || may_save ? nullptr : failed_first(ranks_);
    if (failed != nullptr) {
      // A rank that lost its connection may end before the rank that caused the failure, so wait a
      // moment for the cause.
      if (!suspect_until_) suspect_until_ = now + kPeerLoss;
      const bool may_be_other = only_lost_a_peer(*failed) && any_running() && !is_stopped_;
      if (may_be_other && has_error_of_running_rank())
        suspect_until_ = std::max(*suspect_until_, *failed->ended + kErrorEnds);
      if (!may_be_other || now >= *suspect_until_) {
        first_ = failed->number;
        suspect_until_.reset();
        end_others();
      }
    }
    // A cancelled job gets time to save its state, as it does at its time limit.
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

  /// Ends processes that remain from ranks which we ended. The user is not told about them.
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

  int fill(model::Try& one) {
    const Rank* ended_with = nullptr;
    for (const Rank& rank : ranks_) {
      const bool counts = first_ ? rank.number == *first_ : rank.has_failed();
      if (counts && ended_with == nullptr) ended_with = &rank;
    }
    // A rank that only waited, and was then killed, did not fail first.
    if (ended_with != nullptr && was_killed(*ended_with))
      one.left_early = model::gone_while_others_waited(one);
    const bool may_be_first = one.left_early.empty();
    if (ended_with != nullptr && only_lost_a_peer(*ended_with) && may_be_first)
      for (const Rank& rank : ranks_)
        if (rank.ended && rank.status == 0 && *rank.ended <= *ended_with->ended)
          one.left_early.push_back(rank.number);
    for (const Rank& rank : ranks_) {
      const bool is_first = may_be_first && first_ == rank.number;
      one.ranks.push_back(end_of(rank, spec_of(rank), is_first, is_stopped_));
      if (std::find(one.left_early.begin(), one.left_early.end(), rank.number) !=
          one.left_early.end())
        one.ranks.back().part = model::RankPart::kLeftEarly;
    }
    one.wall = since(begun_);
    read_nccl_logs(one);
    const int status = ended_with == nullptr ? 0 : ended_with->status;
    if (WIFEXITED(status)) one.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) one.signal = WTERMSIG(status);
    if (is_hang_ended_) {
      one.kind = model::TryClass::kHang;
      one.evidence = hang_evidence();
    } else if (is_stopped_) {
      one.kind = model::TryClass::kStopped;
    } else if (ended_with != nullptr) {
      std::string output =
          std::string(ended_with->out.tail()) + "\n" + std::string(ended_with->err.tail());
      if (ended_with->error) output += "\n" + ended_with->error->traceback;
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
  std::vector<RankSpec> specs_;
  std::vector<int> shown_;  // ranks whose output is shown; empty: all ranks
  int input_rank_;
  std::vector<int> lost_devices_;
  Descriptor trouble_, signals_;
  std::optional<SignalProbe> probe_;
  Sink out_, err_;
  MeetingPoint meeting_point_;
  Meeting meeting_;
  std::vector<Rank> ranks_;
  model::Tries tries_;
  model::TryChange change_ = model::TryChange::kNothing;  // what the next try changes
  Time begun_{};
  std::optional<int> first_;  // the rank that failed first
  std::uint64_t oom_kills_before_ = 0;
  std::string stack_folder_, flight_stem_;
  HangWatch hangs_;
  bool is_hang_ended_ = false, is_preflight_ = false;
  int stop_signal_ = 0;
  std::optional<Time> suspect_until_, end_began_, kill_at_, saving_until_;
  bool is_stopped_ = false, is_warned_ = false, is_killing_ = false;
};

/// Ends this process with the same exit code or signal as the command.
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
