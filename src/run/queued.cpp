#include "run/queued.hpp"

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
#include <chrono>
#include <csignal>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/write_file.hpp"
#include "run/channel.hpp"
#include "run/descendants.hpp"
#include "run/ending.hpp"
#include "run/job_folder.hpp"
#include "run/own_name.hpp"
#include "run/queued_tries.hpp"
#include "run/warning.hpp"
#include "run/workload.hpp"
#include "system/device_locks.hpp"

namespace berth::run {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kNotStarted = 125;

// Sizes in the status file. kKeeperBytes: its first line. kStatusBytes: its two lines together.
// kMostRecord: the largest record of the broker.
constexpr std::size_t kKeeperBytes = 64, kStatusBytes = 256;
constexpr std::size_t kMostRecord = 1U << 20U;

std::string status_file(const std::string& job_files) {
  return job_files + ".status";
}

std::string stuck_file(const std::string& job_files) {
  return job_files + ".stuck";
}

/// Creates the status file. If several keepers start for one job, exactly one succeeds. It writes
/// its pid before anything starts.
Descriptor claim(const std::string& job_files, const std::string& job_record) {
  const auto self = read_stat("/proc", ::getpid());
  if (!self) return {};
  const std::string path = status_file(job_files);
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return {};
  std::string words = std::to_string(::getpid()) + " " + std::to_string(self->start_ticks);
  words.resize(kKeeperBytes - 1, ' ');
  words += '\n';
  words.resize(kStatusBytes, ' ');
  if (job_record.size() <= kMostRecord) words += job_record;
  if (::write(file.get(), words.data(), words.size()) == static_cast<ssize_t>(words.size()))
    return file;
  ::unlink(path.c_str());
  return {};
}

/// Redirects the output to the log. Standard input has been /dev/null since the fork server
/// started.
bool use_log(const std::string& job_files, const std::optional<Credentials>& user) {
  const Descriptor log(::open(log_of(job_files).c_str(),
                              O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (log && user && ::geteuid() == 0 && ::fchown(log.get(), user->uid, user->gid) != 0)
    return false;
  return log && ::dup2(log.get(), 1) == 1 && ::dup2(log.get(), 2) == 2;
}

/// Parses the line of the status file that the keeper wrote when the job ended.
Json status_in(const std::string& job_files) {
  const auto bytes = slurp(status_file(job_files), kStatusBytes);
  if (!bytes || bytes->size() <= kKeeperBytes) return {};
  const std::string_view line =
      std::string_view(*bytes).substr(kKeeperBytes, kStatusBytes - kKeeperBytes);
  return Json::parse(line, nullptr, false);
}

void say(const std::string& sentence) {
  const std::string line = "berth: " + sentence + "\n";
  [[maybe_unused]] const ssize_t said = ::write(2, line.data(), line.size());
}

class LoneKeeper {
 public:
  LoneKeeper(const Launch& launch, const Descriptor& status_file, const WriteReport& write,
             int announce)
      : launch_(launch), status_file_(status_file), write_(write), announce_(announce) {}

  void run() {
    sigset_t mine;
    ::sigemptyset(&mine);
    ::sigaddset(&mine, SIGCHLD);
    add_keeper_signals(mine);
    ::pthread_sigmask(SIG_BLOCK, &mine, nullptr);
    signals_.reset(::signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_ || !start()) {
      say(text("cannot start the job: {}", error_words(errno)));
      return tell(0, kNotStarted << 8);
    }
    while (!ended_ && !told_to_end_) {
      std::array<pollfd, 2> waits{{{signals_.get(), POLLIN, 0}, {trouble_.get(), POLLIN, 0}}};
      if (::poll(waits.data(), waits.size(), until_watch()) < 0) continue;
      if (waits[1].revents != 0) hear_of_the_start();
      if (waits[0].revents != 0) take_signals();
    }
    const bool by_itself = !told_to_end_;
    EndingPlan plan;
    // Remaining processes get a short time to end. In a cancelled job, they get the job's grace
    // period.
    if (told_to_end_) {
      save();
      plan = checkpoint_.plan_of_end(launch_.grace, ended_);
    }
    end_the_rest(std::move(plan));
    const auto wall = std::chrono::duration_cast<milliseconds>(
        (ended_ ? workload_ended_ : Clock::now()) - started_);
    goes_back_ = status_ != 0 && keep_tries(its_tries_, launch_.job_files) && by_itself;
    tell(workload_, status_, by_itself);
    if (watch_)
      send(watch_.get(), WatchEnd{status_, by_itself ? 1 : 0, wall.count(), cpu_microseconds_,
                                  peak_rss_kib_, checkpoint_.result()});
    watch_.reset();
    if (!goes_back_) run_on_end();
  }

  void tell(pid_t workload, int status, bool by_itself = true) const {
    std::string line = status_line(workload, status);
    std::string more = by_itself ? "" : ",\"told_to_end\":true";
    if (goes_back_) more += ",\"next_try\":true";
    if (workload > 0)
      more += ",\"cpu_milliseconds\":" + std::to_string(cpu_microseconds_ / 1000) +
              ",\"peak_memory_bytes\":" + std::to_string(peak_memory_bytes());
    line.insert(line.rfind('}'), more);
    [[maybe_unused]] const ssize_t n =
        ::pwrite(status_file_.get(), line.data(), line.size(), kKeeperBytes);
  }

 private:
  bool start() {
    started_ = Clock::now();
    watch_at_ = started_ + kWatchFrom;
    const std::string variable = kReportVariable + std::string("=");
    const auto is_asked = [&](const std::string& one) { return one.starts_with(variable); };
    const auto& all = launch_.environment;
    const auto asked = std::find_if(all.begin(), all.end(), is_asked);
    if (asked == all.end()) return begin(launch_);
    // Start no watch, because the `berth run` inside this job samples the job and writes the
    // report. Two samplers would read the same processes twice.
    watch_at_.reset();
    its_report_ = open_report_for(launch_);
    its_tries_ = open_tries_for(launch_.job_files);
    Launch own = launch_;
    own.environment[static_cast<std::size_t>(asked - all.begin())] =
        variable + std::to_string(its_report_.get());
    if (its_tries_)
      own.environment.push_back(fmt::format("{}={}", kTriesVariable, its_tries_.get()));
    const bool is_started = begin(own);
    its_report_.reset();
    return is_started;
  }

  /// Starts the watch (the process that samples the job) if it is due. Returns the milliseconds
  /// until then; -1 if no watch has to be started any more.
  int until_watch() {
    if (!watch_at_) return -1;
    const auto left = std::chrono::ceil<milliseconds>(*watch_at_ - Clock::now()).count();
    if (left > 0) return static_cast<int>(left);
    watch_at_.reset();
    watch_ = start_watch(launch_, workload_, write_, announce_);
    return -1;
  }

  bool begin(const Launch& launch) {
    std::array<int, 2> trouble{-1, -1};
    std::array<int, 2> go{-1, -1};
    if (::pipe2(trouble.data(), O_CLOEXEC) != 0 || ::pipe2(go.data(), O_CLOEXEC) != 0) return false;
    trouble_.reset(trouble[0]);
    const Descriptor go_on(go[1]);
    const Descriptor says(trouble[1]);
    const Descriptor waits(go[0]);
    const pid_t self = ::getpid();
    Inherited inherited;
    ::sigemptyset(&inherited.mask);
    for (int signal = 1; signal <= 64; ++signal)
      if ((launch.limits.blocked.value_or(0) >> (signal - 1) & 1) != 0)
        ::sigaddset(&inherited.mask, signal);
    // Only the job gets these descriptors; --on-end, which is started later, does not.
    if (its_report_) inherited.descriptors.push_back(its_report_.get());
    if (its_report_ && its_tries_) inherited.descriptors.push_back(its_tries_.get());
    std::sort(inherited.descriptors.begin(), inherited.descriptors.end());
    inherited.on_child = {};
    inherited.on_child.sa_handler = SIG_DFL;
    workload_ = ::fork();
    if (workload_ == 0) become_workload(launch, inherited, self, waits.get(), says.get());
    if (workload_ < 0) return false;
    const std::uint64_t no_signals = 0;
    return ::write(go_on.get(), &no_signals, sizeof no_signals) == sizeof no_signals;
  }

  void hear_of_the_start() {
    const auto trouble = next_trouble(trouble_);
    if (!trouble) {
      trouble_.reset();
      return;
    }
    const std::string why = error_words(trouble->error);
    switch (trouble->step) {
      case StartTrouble::Step::kPinning:
        return say(text(
            "the CPU affinity could not be set ({}); the job could run on all allowed cores", why));
      case StartTrouble::Step::kLimits:
        return say(
            text("not all limits could be set ({}); the job ran with the broker's limits", why));
      case StartTrouble::Step::kGroup:
        return say(text("cannot enter the control group {}: {}", printable(launch_.group), why));
      case StartTrouble::Step::kUser:
        return say(text("cannot switch to user {}: {}", launch_.user->uid, why));
      case StartTrouble::Step::kFolder:
        return say(text("cannot change to the folder {}: {}", printable(launch_.folder), why));
      case StartTrouble::Step::kExec:
        return say(text("'{}' cannot be executed: {}", printable(launch_.command.front()), why));
    }
  }

  void hear(const signalfd_siginfo& one) {
    const int number = static_cast<int>(one.ssi_signo);
    if (is_to_be_passed_on(one) && !ended_) {
      if (number == checkpoint_.signal())
        save();
      else
        warn(number);
    } else if (number != SIGCHLD && number != SIGUSR1 && number != SIGUSR2) {
      told_to_end_ = true;
    }
  }

  void warn(int signal) {
    wait_for_the_start(trouble_, [this] { hear_of_the_start(); });
    if (warn_descendants(signal).signalled == 0) say(not_sent_sentence(signal));
  }

  /// Sends the signal of --checkpoint-signal, if the job requested it and it was not sent yet.
  void save() {
    wait_for_the_start(trouble_, [this] { hear_of_the_start(); });
    const bool is_first = checkpoint_.result().signal == 0;
    static_cast<void>(checkpoint_.send());
    if (is_first && checkpoint_.is_wanted() && !checkpoint_.result().was_handled)
      say(not_sent_sentence(checkpoint_.signal()));
  }

  void drain_signals() {
    signalfd_siginfo one;
    while (::read(signals_.get(), &one, sizeof one) == sizeof one) hear(one);
  }

  void take_signals() {
    drain_signals();
    static_cast<void>(reap_all());
  }

  /// Reaps ended children. Returns true if no child is left: then the job has no process.
  bool reap_all() {
    for (;;) {
      int status = 0;
      rusage used = {};
      const pid_t pid = ::wait4(-1, &status, WNOHANG | __WALL, &used);
      if (pid < 0 && errno == EINTR) continue;
      if (pid <= 0) return pid < 0;
      count(used);
      if (pid != workload_) continue;
      ended_ = true;
      workload_ended_ = Clock::now();
      status_ = status;
      checkpoint_.finish(true);
      while (trouble_) hear_of_the_start();
    }
  }

  void count(const rusage& used) {
    const auto microseconds = [](const timeval& t) {
      return static_cast<std::int64_t>(t.tv_sec) * 1'000'000 + t.tv_usec;
    };
    cpu_microseconds_ += microseconds(used.ru_utime) + microseconds(used.ru_stime);
    peak_rss_kib_ = std::max<std::int64_t>(peak_rss_kib_, used.ru_maxrss);
  }

  /// The peak memory of the control group. If the kernel does not count it, the peak memory of the
  /// largest process.
  [[nodiscard]] std::int64_t peak_memory_bytes() const {
    const auto of_group =
        launch_.group.empty() ? std::nullopt : read_number(launch_.group + "/memory.peak");
    return of_group.value_or(peak_rss_kib_ * 1024);
  }

  /// Runs --on-end with the job's user, folder and variables. Its output goes to the job's log.
  void run_on_end() {
    constexpr milliseconds kMost = std::chrono::minutes(1);
    if (launch_.on_end.empty()) return;
    const int code = WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
    Launch after = launch_;
    after.command = {"/bin/sh", "-c", launch_.on_end};
    after.environment.push_back("BERTH_EXIT_CODE=" + std::to_string(code));
    after.environment.push_back(std::string("BERTH_ENDED=") + (told_to_end_ ? "told" : "itself"));
    ended_ = false;
    if (!begin(after))
      return say(text("cannot start the --on-end command: {}", error_words(errno)));
    const auto deadline = std::chrono::steady_clock::now() + kMost;
    while (!ended_) {
      const auto left =
          std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) break;
      std::array<pollfd, 2> waits{{{signals_.get(), POLLIN, 0}, {trouble_.get(), POLLIN, 0}}};
      if (::poll(waits.data(), waits.size(), static_cast<int>(left.count())) < 0) continue;
      if (waits[1].revents != 0) hear_of_the_start();
      if (waits[0].revents != 0) take_signals();
    }
    end_the_rest(EndingPlan{});
  }

  void end_the_rest(EndingPlan plan) {
    plan.none_left = [this] { return reap_all(); };
    plan.wait = [this](milliseconds most) {
      pollfd wait{signals_.get(), POLLIN, 0};
      ::poll(&wait, 1, static_cast<int>(most.count()));
      drain_signals();
      return false;
    };
    if (end_descendants(plan) == 0) return;
    std::string lines;
    for (const model::ProcessId& one : stuck_descendants())
      lines += fmt::format("{} {}\n", one.pid, one.start_ticks);
    if (!lines.empty()) static_cast<void>(replace_file(stuck_file(launch_.job_files), lines, 0600));
  }

  const Launch& launch_;
  const Descriptor& status_file_;
  const WriteReport& write_;
  int announce_;
  Descriptor signals_, trouble_, watch_, its_report_, its_tries_;
  Checkpoint checkpoint_{launch_.checkpoint};
  Clock::time_point started_{}, workload_ended_{};
  /// When to start the watch; nullopt: it has started, or the job has none.
  std::optional<Clock::time_point> watch_at_;
  pid_t workload_ = -1;
  int status_ = SIGKILL;  // wait status of the command; it stays SIGKILL if its end was not seen
  std::int64_t cpu_microseconds_ = 0, peak_rss_kib_ = 0;
  bool ended_ = false, told_to_end_ = false, goes_back_ = false;
};

void keep(const Launch& launch, const WriteReport& write, int announce) {
  const Descriptor status = claim(launch.job_files, launch.job_record);
  if (!status) return;
  LoneKeeper keeper(launch, status, write, announce);
  if (!use_log(launch.job_files, launch.user)) return keeper.tell(0, kNotStarted << 8);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  close_all_but({0, 1, 2, status.get(), announce});
  const auto locks = system::share_locks(launch.locks);
  keeper.run();
}

}  // namespace

std::optional<model::ProcessId> keeper_of(const std::string& job_files) {
  const auto bytes = slurp(status_file(job_files), kStatusBytes);
  if (!bytes) return std::nullopt;
  const auto words = split(trim(std::string_view(*bytes).substr(0, bytes->find('\n'))), ' ');
  if (words.size() != 2) return std::nullopt;
  const auto pid = to_number(words[0]);
  const auto ticks = to_number(words[1]);
  if (!pid || !ticks) return std::nullopt;
  return model::ProcessId{*pid, static_cast<std::uint64_t>(*ticks)};
}

bool was_told_to_end(const std::string& job_files) {
  const Json json = status_in(job_files);
  const auto told = json.find("told_to_end");
  return told != json.end() && *told == true;
}

std::optional<model::Outcome> outcome_of(const std::string& job_files) {
  const Json json = status_in(job_files);
  if (!json.is_object() || !json.contains("exit_code") || !json["exit_code"].is_number_integer())
    return std::nullopt;
  model::Outcome outcome;
  outcome.exit_code = json["exit_code"].get<int>();
  outcome.kind = outcome.exit_code == 0 ? model::OutcomeClass::kOk : model::OutcomeClass::kFailed;
  if (const auto signal = json.find("signal");
      signal != json.end() && signal->is_number_integer()) {
    outcome.kind = model::OutcomeClass::kSignal;
    outcome.signal = signal->get<int>();
  }
  return outcome;
}

bool wants_next_try(const std::string& job_files) {
  const Json json = status_in(job_files);
  const auto wants = json.find("next_try");
  return wants != json.end() && *wants == true;
}

model::JobUsage usage_of(const std::string& job_files) {
  const Json json = status_in(job_files);
  const auto number = [&](const char* key) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return found != json.end() && found->is_number_unsigned()
               ? std::optional(found->get<std::uint64_t>())
               : std::nullopt;
  };
  model::JobUsage usage;
  if (const auto cpu = number("cpu_milliseconds")) usage.cpu = milliseconds(*cpu);
  usage.peak_memory_bytes = number("peak_memory_bytes");
  return usage;
}

std::vector<model::ProcessId> stuck_of(const std::string& job_files) {
  constexpr std::size_t kMost = 1 << 16;
  std::vector<model::ProcessId> found;
  const std::string lines = slurp_regular(stuck_file(job_files), kMost).value_or("");
  for (const std::string_view line : split(lines, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() != 2) continue;
    const auto pid = to_number(words[0]);
    const auto ticks = to_number(words[1]);
    if (pid && ticks) found.push_back({*pid, static_cast<std::uint64_t>(*ticks)});
  }
  return found;
}

std::optional<std::int64_t> ended_at(const std::string& job_files) {
  struct stat about = {};
  if (::lstat(status_file(job_files).c_str(), &about) != 0) return std::nullopt;
  return about.st_mtim.tv_sec * 1000LL + about.st_mtim.tv_nsec / 1'000'000;
}

std::string log_of(const std::string& job_files) {
  return job_files + ".log";
}

std::string job_record_in(const std::string& job_files) {
  const auto bytes = slurp(status_file(job_files), kStatusBytes + kMostRecord);
  return bytes && bytes->size() > kStatusBytes ? bytes->substr(kStatusBytes) : "";
}

void forget_start(const std::string& job_files) {
  ::unlink(report_of(job_files).c_str());
  ::unlink(status_file(job_files).c_str());
  ::unlink(stuck_file(job_files).c_str());
}

void remove_files(const std::string& job_files) {
  ::unlink(log_of(job_files).c_str());
  ::unlink(tries_of(job_files).c_str());
  forget_start(job_files);
}

void keep_queued(const Launch& launch, const WriteReport& write, int announce) {
  ::signal(SIGCHLD, SIG_DFL);
  ::setsid();
  set_process_name("job-keeper");
  keep(launch, write, announce);
  ::_exit(0);
}

}  // namespace berth::run
