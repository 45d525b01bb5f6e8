#include "sim/session.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/text.hpp"
#include "sim/child.hpp"
#include "sim/driver_library.hpp"
#include "sim/ending.hpp"
#include "sim/machine_check.hpp"
#include "sim/sleepers.hpp"
#include "sim/state.hpp"
#include "sim/sysfs_tree.hpp"
#include "wire/sim_cuda.hpp"
#include "wire/sim_mig.hpp"

namespace berth::sim {
namespace {

namespace wire = berth::wire::sim;

std::int64_t nanoseconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

Error failed(const char* what) {
  return {ErrorCode::kUnavailable, "E0616", text("{} failed: {}", what, error_words(errno)), ""};
}

/// The shared memory with the call counters of the simulated driver. This process also maps it, to
/// read the counters.
class SharedRegion {
 public:
  SharedRegion() = default;
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;
  ~SharedRegion() {
    if (region_ != nullptr) munmap(region_, bytes_);
  }
  [[nodiscard]] Status make(const Folder& folder, const wire::State& state) {
    wire::Shared header{wire::kSharedMagic, wire::kVersion, state.functions, state.devices,
                        state.processes};
    bytes_ = wire::shared_bytes(state.functions, state.devices, state.processes);
    std::string bytes(bytes_, '\0');
    std::memcpy(bytes.data(), &header, sizeof(header));
    if (auto written = folder.write("shared", bytes); !written) return written;
    const Descriptor file(::open((folder.path() + "/shared").c_str(), O_RDWR | O_CLOEXEC));
    void* where = file ? mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0)
                       : MAP_FAILED;
    if (where == MAP_FAILED) return failed("mmap");
    region_ = static_cast<wire::Shared*>(where);
    return Done{};
  }
  [[nodiscard]] wire::Shared* get() const { return region_; }

 private:
  wire::Shared* region_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Creates the region through which CUDA processes share devices. Most of it is never written, so
/// the file is sparse.
Status put_cuda_region(const Folder& folder, const wire::View& view) {
  const std::string path = folder.path() + "/cuda";
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || ::ftruncate(file.get(), sizeof(wire::CudaShared)) != 0) return failed("ftruncate");
  void* where =
      mmap(nullptr, sizeof(wire::CudaShared), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (where == MAP_FAILED) return failed("mmap");
  auto& shared = *static_cast<wire::CudaShared*>(where);
  const bool made = wire::begin_cuda(shared, view.state().devices);
  for (std::uint32_t i = 0; i < shared.devices; ++i) {
    const wire::Device& device = view.device(i);
    std::uint64_t taken = device.memory_reserved;
    for (std::uint32_t p = 0; p < device.process_count; ++p)
      taken += view.process(device.process_first + p).memory;
    shared.device[i].room = device.memory_total - std::min(device.memory_total, taken);
  }
  munmap(where, sizeof(wire::CudaShared));
  if (!made) return failed("pthread_mutex_init");
  return Done{};
}

/// Creates the region with the MIG partitions that programs make.
Status put_mig_region(const Folder& folder, const wire::View& view) {
  const std::string path = folder.path() + "/mig";
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || ::ftruncate(file.get(), sizeof(wire::MigShared)) != 0) return failed("ftruncate");
  void* where =
      mmap(nullptr, sizeof(wire::MigShared), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (where == MAP_FAILED) return failed("mmap");
  const bool made = wire::begin_mig(*static_cast<wire::MigShared*>(where), view.state().devices);
  munmap(where, sizeof(wire::MigShared));
  if (!made) return failed("pthread_mutex_init");
  return Done{};
}

class Session {
 public:
  Session(const Machine& machine, const Options& options, Folder folder, Sweeper sweeper,
          std::vector<Planned> processes)
      : machine_(machine),
        options_(options),
        folder_(std::move(folder)),
        sweeper_(std::move(sweeper)),
        processes_(std::move(processes)) {}

  Result<Ended> run(const std::vector<std::string>& command);
  /// Ends the remaining processes and removes the folder.
  void end();

 private:
  Status prepare();
  Status start_processes();
  Status watch_attached();
  Status put_driver();
  Status block_signals();
  Result<Ended> follow(pid_t child);
  bool reap(pid_t child, Ended& ended);
  void pass_on(pid_t child);
  void mark_gone(pid_t pid);
  void look_at_attached(const std::vector<pollfd>& ready, std::size_t first);
  void count_calls(Ended& ended) const;

  const Machine& machine_;
  const Options& options_;
  Folder folder_;
  Sweeper sweeper_;
  std::vector<Planned> processes_;
  Sleepers sleepers_;
  std::string state_;
  SharedRegion shared_;
  wire::View view_;
  Descriptor signals_, timer_;
  sigset_t before_{};
  std::vector<std::pair<pid_t, Descriptor>> attached_;
};

Status Session::put_driver() {
  if (auto made = folder_.make_folder("lib"); !made) return made;
  if (!machine_.driver) {
    // A simulated machine without a driver should have no NVML either. If this host has a real
    // libnvidia-ml, the simulated library must be loaded to hide it.
    void* real = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (real == nullptr) return Done{};
    dlclose(real);
  }
  const std::uint32_t major =
      machine_.driver
          ? parse_driver_version(machine_.driver->version).value_or(DriverVersion{}).major
          : 9999;
  if (auto written = folder_.write("lib/libnvidia-ml.so.1", driver_library(major), true); !written)
    return written;
  if (auto linked = folder_.link("lib/libnvidia-ml.so", "libnvidia-ml.so.1"); !linked)
    return linked;
  if (auto made = put_cuda_region(folder_, view_); !made) return made;
  if (auto made = put_mig_region(folder_, view_); !made) return made;
  if (auto written = folder_.write("lib/libcuda.so.1", cuda_library(), true); !written)
    return written;
  return folder_.link("lib/libcuda.so", "libcuda.so.1");
}

Status Session::start_processes() {
  if (auto written = folder_.write("user", sleeper_program(), true); !written) return written;
  for (Planned& process : processes_) {
    if (!process.ours) continue;
    auto pid = sleepers_.start(folder_.path() + "/user", process.command);
    if (!pid) return std::move(pid).error();
    process.pid = *pid;
  }
  sleepers_.await_commands();
  return Done{};
}

Status Session::watch_attached() {
  for (const Attached& given : options_.attached) {
    Descriptor handle(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(given.pid), 0)));
    if (!handle)
      return Error{ErrorCode::kInvalidArgument, "E0608",
                   text("--attach: there is no process {}", given.pid), "ps -e -o pid,user,args"};
    attached_.emplace_back(static_cast<pid_t>(given.pid), std::move(handle));
  }
  return Done{};
}

Status Session::prepare() {
  const auto functions = static_cast<std::uint32_t>(driver_functions().size());
  if (auto done = folder_.make_folder("run"); !done) return done;
  if (auto done = watch_attached(); !done) return done;
  if (auto done = start_processes(); !done) return done;
  const Clocks clocks{nanoseconds(CLOCK_MONOTONIC), nanoseconds(CLOCK_REALTIME) / 1000};
  state_ = build_state(machine_, options_, processes_, clocks, functions);
  const auto* state = reinterpret_cast<const wire::State*>(state_.data());
  BERTH_CHECK(wire::valid(state, state_.size()));
  if (auto done = shared_.make(folder_, *state); !done) return done;
  view_ = wire::View(state, shared_.get());
  if (auto done = folder_.write("state", state_); !done) return done;
  bool bound = machine_.driver.has_value();
  for (const Fault& fault : options_.faults)
    bound = bound && !(fault.kind == wire::kNoDriver && fault.from_ns == 0);
  if (auto done = write_sysfs(folder_, view_, bound); !done) return done;
  if (auto done = put_driver(); !done) return done;
  return block_signals();
}

Status Session::block_signals() {
  sigset_t mine;
  sigemptyset(&mine);
  for (const int number : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2})
    sigaddset(&mine, number);
  pthread_sigmask(SIG_BLOCK, &mine, &before_);
  signals_.reset(signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return failed("signalfd");
  if (!sysfs_moves(view_)) return Done{};
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  const itimerspec half_second{{0, 500'000'000}, {0, 500'000'000}};
  if (!timer_ || timerfd_settime(timer_.get(), 0, &half_second, nullptr) != 0)
    return failed("timerfd");
  return Done{};
}

void Session::mark_gone(pid_t pid) {
  for (std::uint32_t i = 0; i < view_.state().processes; ++i)
    if (view_.process(i).pid == pid) __atomic_store_n(view_.gone(i), 1, __ATOMIC_RELAXED);
}

/// Reaps all children that have ended. Returns true if `child` (the command) is one of them.
bool Session::reap(pid_t child, Ended& ended) {
  bool over = false;
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    if (pid == child) {
      ended.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      over = true;
    } else if (sleepers_.has(pid)) {
      mark_gone(pid);
      sleepers_.forget(pid);
    }
  }
  return over;
}

/// Passes a signal that this process received on to the command. Signals from a terminal are not
/// passed on, because the kernel sends them to the whole process group.
void Session::pass_on(pid_t child) {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    const auto number = static_cast<int>(info.ssi_signo);
    if (number != SIGCHLD && info.ssi_code != SI_KERNEL) kill(child, number);
  }
}

void Session::look_at_attached(const std::vector<pollfd>& ready, std::size_t first) {
  for (std::size_t i = attached_.size(); i-- > 0;) {
    if ((ready[first + i].revents & POLLIN) == 0) continue;
    mark_gone(attached_[i].first);
    attached_.erase(attached_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

Result<Ended> Session::follow(pid_t child) {
  Ended ended;
  for (;;) {
    std::vector<pollfd> wait{{signals_.get(), POLLIN, 0}, {timer_.get(), POLLIN, 0}};
    for (const auto& [pid, handle] : attached_) wait.push_back({handle.get(), POLLIN, 0});
    if (poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR) return failed("poll");
    if ((wait[0].revents & POLLIN) != 0) {
      pass_on(child);
      if (reap(child, ended)) return ended;
    }
    if ((wait[1].revents & POLLIN) != 0) {
      std::uint64_t ticks = 0;
      static_cast<void>(!read(timer_.get(), &ticks, sizeof(ticks)));
      refresh_sysfs(
          folder_, view_,
          static_cast<std::uint64_t>(nanoseconds(CLOCK_MONOTONIC) - view_.state().start_monotonic));
    }
    look_at_attached(wait, 2);
  }
}

void Session::count_calls(Ended& ended) const {
  const auto names = driver_functions();
  for (std::uint32_t i = 0; i < names.size(); ++i)
    if (const std::uint64_t n = __atomic_load_n(view_.calls(i), __ATOMIC_RELAXED); n > 0)
      ended.calls.emplace_back(names[i], n);
  for (std::uint32_t i = 0; i < view_.state().devices; ++i)
    ended.wakes.push_back(__atomic_load_n(view_.wakes(i), __ATOMIC_RELAXED));
}

Result<Ended> Session::run(const std::vector<std::string>& command) {
  if (auto ready = prepare(); !ready) return std::move(ready).error();
  const std::string library_path =
      env_nonempty("LD_LIBRARY_PATH") ? ":" + *env_nonempty("LD_LIBRARY_PATH") : "";
  const auto child =
      start_child(command,
                  environment_with({{"BERTH_SIM_DIR", folder_.path()},
                                    {"BERTH_RUNTIME_DIR", folder_.path() + "/run"},
                                    {"BERTH_STATE_DIR", folder_.path() + "/broker"},
                                    {"LD_LIBRARY_PATH", folder_.path() + "/lib" + library_path}}),
                  before_);
  if (!child) return child.error();
  auto ended = follow(*child);
  if (ended) count_calls(*ended);
  return ended;
}

void Session::end() {
  end_processes_of(folder_.path(), true);
  sleepers_.stop();
  folder_.remove();
  sweeper_.dismiss();
}

}  // namespace

Result<Ended> run(const Machine& machine, const Options& options,
                  const std::vector<std::string>& command) {
  auto processes = plan_processes(machine, options);
  if (!processes) return std::move(processes).error();
  const std::string temporary = temporary_directory();
  remove_stale_folders(temporary);
  auto folder = Folder::make(temporary);
  if (!folder) return std::move(folder).error();
  auto sweeper = Sweeper::start(*folder);
  if (!sweeper) {
    folder->remove();
    return std::move(sweeper).error();
  }
  Session session(machine, options, std::move(*folder), std::move(*sweeper), std::move(*processes));
  auto ended = session.run(command);
  session.end();
  return ended;
}

}  // namespace berth::sim
