#include "serve/daemon.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <chrono>
#include <csignal>

#include "base/text.hpp"
#include "broker/journal.hpp"
#include "serve/api.hpp"
#include "serve/execution.hpp"
#include "serve/fence.hpp"
#include "serve/foreign_processes.hpp"
#include "serve/idle_bench.hpp"
#include "serve/launcher.hpp"
#include "serve/observer.hpp"
#include "serve/refusal.hpp"
#include "serve/server.hpp"
#include "serve/shutdown.hpp"
#include "serve/tcp_door.hpp"
#include "serve/token.hpp"
#include "serve/watch_feed.hpp"
#include "system/shutdown.hpp"

namespace berth::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

/// Maximum age of a snapshot for a new job: foreign processes may have appeared after an older
/// snapshot. If calls come steadily, a new snapshot starts after kSoonOld, so that no call waits
/// for it.
constexpr std::chrono::seconds kFresh(2);
constexpr std::chrono::seconds kSoonOld(1);
constexpr std::uint64_t kBeat = 15;  // ticks

watch::QueueNumbers queue_numbers(const std::map<model::JobId, model::Job>& jobs,
                                  const broker::Now& now) {
  watch::QueueNumbers numbers;
  for (const model::JobState state :
       {model::JobState::kRunning, model::JobState::kWaiting, model::JobState::kHeld})
    numbers.jobs[std::string(model::name(state))] = 0;
  for (const auto& [id, job] : jobs) {
    if (model::has_ended(job.state)) continue;
    ++numbers.jobs[std::string(model::name(job.state))];
    if (job.state == model::JobState::kWaiting)
      numbers.longest_wait_seconds = std::max(
          numbers.longest_wait_seconds,
          static_cast<double>(now.unix_milliseconds - job.requeued_unix_milliseconds.value_or(
                                                          job.submitted_unix_milliseconds)) /
              1000);
  }
  return numbers;
}

watch::AskedMemory asked_memory(const std::vector<JobRoot>& roots,
                                const std::map<model::JobId, model::Job>& jobs) {
  watch::AskedMemory asked;
  for (const JobRoot& root : roots) {
    const auto job = jobs.find(root.job);
    if (job == jobs.end() || job->second.grants.empty()) continue;
    std::uint64_t most = 0;
    bool is_whole = false;
    for (const model::Grant& grant : job->second.grants) {
      most = std::max(most, grant.memory_bytes);
      is_whole = is_whole || grant.memory_bytes == 0;
    }
    asked[root.job] = is_whole ? 0 : most;
  }
  return asked;
}

std::set<std::string> leased_units(const std::map<model::JobId, model::Job>& jobs) {
  std::set<std::string> units;
  for (const auto& [id, job] : jobs)
    if (!model::has_ended(job.state))
      for (const model::Grant& grant : job.grants) units.insert(grant.unit);
  return units;
}

class Daemon {
 public:
  Daemon(const DaemonOptions& options, broker::Journal journal, Launcher launcher,
         std::optional<Fence> fence, std::optional<ForeignProcesses> foreign_processes)
      : options_(options),
        foreign_processes_(std::move(foreign_processes)),
        execution_(loop_, options, std::move(journal), std::move(launcher), std::move(fence),
                   [this](const std::set<model::JobId>& changed) { api_.tell(changed); }),
        signals_(loop_, SIGTERM, SIGINT),
        tick_(loop_),
        limits_(loop_),
        syncing_(1),
        observer_(options.sources, options.settings.mig.manages, [this](Look look) {
          asio::post(loop_, [this, look = std::move(look)]() mutable { seen(std::move(look)); });
        }) {}

  Status run(const std::function<void()>& ready) {
    auto server = Server::listen(
        loop_, options_.socket, options_.for_all,
        [this](Call call, const Answer& answer) { take(std::move(call), answer); },
        [this] { rest(); });
    if (!server) return server.error();
    server_ = *std::move(server);
    if (!options_.link.empty())
      if (auto shown = server_->file().show_at(options_.link); !shown) return shown;
    if (!options_.tcp.empty()) {
      const auto token = token_in(token_file(options_.state_folder));
      if (!token) return token.error();
      auto door = TcpDoor::open(loop_, options_.tcp, *token, *server_);
      if (!door) return door.error();
      door_ = *std::move(door);
    }
    signals_.async_wait([this](error_code problem, int) {
      if (problem) return;
      is_told_to_end_ = true;
      loop_.stop();
    });
    // Take care of running jobs first; calls are answered after that.
    look();
    if (options_.watches)
      feed_.keep_history(options_.state_folder, options_.note, options_.settings.alerts,
                         options_.settings.otlp);
    ready_ = ready;
    tick();
    loop_.run();
    syncing_.join();
    if (is_told_to_end_ && system::is_machine_stopping()) execution_.let_jobs_save();
    execution_.keep_shares();
    execution_.sync();
    execution_.leave();
    if (foreign_processes_) foreign_processes_->take_back();
    leave_socket();
    return execution_.fault() ? Status(*execution_.fault()) : Status(Done{});
  }

 private:
  /// Leaves a socket that no process serves, which shows that a broker will return. Does this if
  /// there are unfinished jobs, and always for the system broker.
  void leave_socket() {
    server_->file().mark_time();
    const auto& jobs = execution_.broker().jobs();
    if (options_.for_all || execution_.fault() ||
        std::any_of(jobs.begin(), jobs.end(),
                    [](const auto& one) { return !model::has_ended(one.second.state); }))
      server_->file().leave();
  }

  void look() {
    if (looking_) return;
    looking_ = true;
    look_began_ = now().steady;
    observer_.ask(execution_.roots());
  }

  void seen(Look look) {
    looking_ = false;
    seen_at_ = now().steady;
    const auto with_lease = look.processes;
    execution_.see(std::move(look), look_began_);
    if (foreign_processes_)
      note(foreign_processes_->see(execution_.broker().snapshot(), with_lease, execution_.nodes()));
    if (!is_restored_) {
      is_restored_ = true;
      execution_.restore();
      // A full disk (E0908) may become writable again. After any other fault, a person must repair
      // the journal.
      if (execution_.fault() && execution_.fault()->id != "E0908") return loop_.stop();
      if (ready_) ready_();
    }
    for (auto& [call, answer] : std::exchange(held_, {})) act(call, answer);
    execution_.settle();
    look_after_pauses();
    measure_idle_devices();
    rest();
  }

  /// Takes a new snapshot when the pause of a job ends, because the job is placed only with a
  /// snapshot that began after its pause.
  void look_after_pauses() {
    const auto ends = execution_.broker().next_pause_end();
    if (ends && *ends <= now().steady) look();
  }

  void measure_idle_devices() {
    const auto at = now();
    idle_bench_.see(execution_.broker().snapshot(), leased_units(execution_.broker().jobs()),
                    execution_.broker().queue().waiting_count() > 0,
                    std::chrono::steady_clock::time_point(at.steady), at.unix_milliseconds);
  }

  void rest() {
    api_.answer_all();
    execution_.go_back();
  }

  void mind_fault() {
    execution_.go_back();
    if (execution_.fault() && execution_.retry()) look();
  }

  void take(Call call, const Answer& answer) {
    last_call_ = now().steady;
    // Answer this call even while a slow driver delays the snapshot.
    if (call.method == "GET" && call.path == "/v1/ping")
      return answer.send({200, "{\"schema\":1,\"ok\":true}\n"});
    if (feed_.act(call, answer)) return;
    if (is_restored_) execution_.mind_clock();
    // If this call has just ended the measurement of an idle device, the last snapshot may still
    // show the process of the measurement. So take a new snapshot before the job is placed.
    if (call.method == "POST" &&
        idle_bench_.give_way(std::chrono::steady_clock::time_point(last_call_)))
      seen_at_ = policy::Instant{-1'000'000};
    const auto age = last_call_ - seen_at_;
    const bool wants_look = call.method == "POST" && age > kSoonOld;
    if (wants_look) look();
    if (is_restored_ && !(wants_look && age > kFresh)) return act(call, answer);
    if (held_.size() >= look_through_at_) {
      std::erase_if(held_, [](const auto& one) { return !one.second.is_wanted(); });
      look_through_at_ = std::max<std::size_t>(64, 2 * held_.size());
    }
    held_.emplace_back(std::move(call), answer);
    look();
  }

  void act(const Call& call, const Answer& answer) {
    if (call.method == "POST" && call.path == "/v1/hand-over") return hand_over(answer);
    api_.act(call, answer);
  }

  /// A user who runs `berth serve` replaces a broker that would exit when idle. As after SIGTERM,
  /// jobs continue and clients reconnect.
  void hand_over(const Answer& answer) {
    if (options_.for_all || options_.idle_seconds == 0)
      return answer.send(refusal(another_serves(options_.state_folder, ::getpid())));
    api_.answer_all();
    answer.send({200, fmt::format("{{\"schema\":1,\"pid\":{}}}\n", ::getpid())});
    asio::post(loop_, [this] { loop_.stop(); });
  }

  /// Sets a timer for the next time limit of a job, if that comes before the next tick. Each tick
  /// sets the timer again.
  void mind_limits() {
    const auto next = execution_.next_limit();
    const auto at = now().steady;
    if (!next || *next <= at || *next > at + std::chrono::seconds(1)) return;
    limits_.expires_at(std::chrono::steady_clock::time_point(*next));
    limits_.async_wait([this](error_code problem) {
      if (problem) return;
      execution_.mind_time();
      look_after_pauses();
      mind_limits();
    });
  }

  void tick() {
    mind_limits();
    tick_.expires_after(std::chrono::seconds(1));
    tick_.async_wait([this](error_code problem) {
      if (problem) return;
      if (execution_.is_dirty()) asio::post(syncing_, [this] { execution_.sync(); });
      mind_fault();
      execution_.tidy(now().steady - last_call_ > std::chrono::seconds(1));
      if (is_restored_) execution_.keep_daily_copy();
      if (is_restored_) execution_.mind_clock();
      execution_.mind_time();
      look_after_pauses();
      execution_.limit_output();
      std::vector<JobRoot> roots = execution_.roots();
      auto asked = asked_memory(roots, execution_.broker().jobs());
      feed_.set_jobs(std::move(roots), std::move(asked), execution_.hangs());
      feed_.mind_sampler();
      if (options_.for_all) server_->file().mark_time();
      if (++ticks_ % kBeat == 0) api_.beat();
      note(execution_.keep_fences());
      if (foreign_processes_) watch_outsiders();
      if (now().steady - forgot_at_ > std::chrono::minutes(1)) {
        forgot_at_ = now().steady;
        execution_.forget_old();
        execution_.keep_shares();
      }
      const policy::Queue& queue = execution_.broker().queue();
      const bool pauses = execution_.broker().next_pause_end().has_value();
      if ((queue.waiting_count() > 0 || pauses) && now().steady - seen_at_ > kFresh) look();
      if (is_restored_ &&
          idle_bench_.wants_look(std::chrono::steady_clock::time_point(now().steady)))
        look();
      const bool is_idle = queue.waiting_count() + queue.running_count() == 0 && !pauses;
      if (options_.idle_seconds > 0 && is_idle &&
          now().steady - last_call_ > std::chrono::seconds(options_.idle_seconds))
        return loop_.stop();
      tick();
    });
  }

  void watch_outsiders() {
    note(foreign_processes_->keep());
    const auto often = foreign_processes_->wants_look();
    if (often.count() > 0 && now().steady - seen_at_ > often) look();
  }

  void note(const std::vector<std::string>& sentences) const {
    for (const std::string& sentence : sentences)
      if (options_.note) options_.note(sentence);
  }

  const DaemonOptions& options_;
  std::optional<ForeignProcesses> foreign_processes_;
  asio::io_context loop_{1};
  Execution execution_;
  Api api_{execution_, options_.admin_gids};
  std::unique_ptr<Server> server_;
  std::unique_ptr<TcpDoor> door_;
  asio::signal_set signals_;
  asio::steady_timer tick_, limits_;
  asio::thread_pool syncing_;
  std::function<void()> ready_;
  std::vector<std::pair<Call, Answer>> held_;  // calls that wait for the next snapshot
  std::size_t look_through_at_ = 64;           // check held_ for disconnected clients at this size
  policy::Instant seen_at_{-1'000'000}, look_began_{0}, forgot_at_{-1'000'000},
      last_call_ = now().steady;
  std::uint64_t ticks_ = 0;
  bool looking_ = false, is_restored_ = false, is_told_to_end_ = false;
  IdleBench idle_bench_{options_.settings.bench_every, options_.state_folder, options_.note};
  WatchFeed feed_{loop_, options_.sources, options_.version,
                  [this] { return queue_numbers(execution_.broker().jobs(), execution_.now()); },
                  options_.settings.alert_rules};
  // Declared last, because its thread must end before the members that it reports to.
  Observer observer_;
};

/// Each client needs a connection and each job a handle, so the usual limit of 1024 files is too
/// low. Jobs keep the original limit, because the fork server was started earlier.
void open_as_many_files_as_may_be() {
  rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

Status run_daemon(const DaemonOptions& options, const std::function<void()>& ready) {
  if (options.settings.mig.manages && (!options.for_all || ::geteuid() != 0))
    return Error{ErrorCode::kPermissionDenied, "E1063",
                 text("[mig] manage = true: only root's broker can make MIG partitions"),
                 "sudo berth serve --system"};
  auto journal = broker::Journal::open(options.state_folder);
  if (!journal) return std::move(journal).error();
  // Must come before the fork server is forked, because the fork server inherits the control group
  // of this process.
  std::optional<Fence> fence;
  std::optional<ForeignProcesses> foreign_processes;
  if (options.for_all && !options.groups.empty()) {
    auto opened = Fence::open(options.sources.roots, options.groups, options.state_folder);
    if (!opened && mode_named(options.settings.mode) == Mode::kEnforce)
      return std::move(opened).error();
    if (opened)
      fence = *std::move(opened);
    else if (options.note)
      options.note(text("only environment variables restrict jobs to their devices: {}",
                        opened.error().message));
    auto begun = ForeignProcesses::begin(options);
    if (!begun) return std::move(begun).error();
    foreign_processes = *std::move(begun);
  }
  auto launcher = Launcher::start(options.state_folder, options.for_all, options.lock_folder);
  if (!launcher) return std::move(launcher).error();
  open_as_many_files_as_may_be();
  // The reader of our standard error may have exited. Jobs do not inherit this setting, because the
  // fork server was started earlier.
  std::signal(SIGPIPE, SIG_IGN);
  Daemon daemon(options, *std::move(journal), *std::move(launcher), std::move(fence),
                std::move(foreign_processes));
  return daemon.run(ready);
}

}  // namespace berth::serve
