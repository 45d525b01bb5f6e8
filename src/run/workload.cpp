#include "run/workload.hpp"

#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string>

#include "model/cpu_list.hpp"
#include "run/supervisor.hpp"
#include "system/control_group.hpp"
#include "system/process_limits.hpp"

namespace berth::run {

void say_trouble(int to, StartTrouble::Step step) {
  const StartTrouble trouble{step, errno};
  while (::write(to, &trouble, sizeof trouble) < 0 && errno == EINTR) {
  }
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  // exec takes char* const[] for historical reasons, and does not modify the words.
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

bool pin(const std::vector<int>& cpus) {
  if (cpus.empty()) return true;
  constexpr std::size_t kMost = 8192;  // the largest number of processors that the kernel supports
  cpu_set_t* set = CPU_ALLOC(kMost);
  if (set == nullptr) return false;
  const std::size_t bytes = CPU_ALLOC_SIZE(kMost);
  CPU_ZERO_S(bytes, set);
  for (const int cpu : cpus) {
    const auto number = static_cast<std::size_t>(cpu);
    if (number < kMost) CPU_SET_S(number, bytes, set);
  }
  const bool done = ::sched_setaffinity(0, bytes, set) == 0;
  const int problem = errno;
  CPU_FREE(set);
  errno = problem;
  return done;
}

void ignore_signals(std::uint64_t mask) {
  for (int signal = 1; signal <= 64; ++signal)
    if ((mask >> (signal - 1) & 1) != 0) ::signal(signal, SIG_IGN);
}

namespace {

/// The lease's cores, restricted to the submitter's affinity; without a lease the submitter's
/// affinity.
std::vector<int> cores_of(const Launch& launch) {
  if (launch.cpus.empty() || launch.limits.cpus.empty())
    return launch.cpus.empty() ? launch.limits.cpus : launch.cpus;
  auto both = model::intersection(launch.cpus, launch.limits.cpus);
  return both.empty() ? launch.cpus : both;
}

bool become(const Credentials& user) {
  if (::geteuid() != 0) return user.uid == ::geteuid();
  return ::setgroups(user.groups.size(), user.groups.data()) == 0 &&
         ::setresgid(user.gid, user.gid, user.gid) == 0 &&
         ::setresuid(user.uid, user.uid, user.uid) == 0;
}

[[noreturn]] void give_up(int trouble, StartTrouble::Step step) {
  say_trouble(trouble, step);
  ::_exit(125);
}

}  // namespace

std::optional<StartTrouble> next_trouble(const Descriptor& from) {
  StartTrouble trouble;
  ssize_t n = -1;
  while ((n = ::read(from.get(), &trouble, sizeof trouble)) < 0 && errno == EINTR) {
  }
  if (n != static_cast<ssize_t>(sizeof trouble)) return std::nullopt;
  return trouble;
}

void become_workload(const Launch& launch, const Inherited& inherited, pid_t keeper, int go,
                     int trouble) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != keeper) ::_exit(125);  // the keeper died before PR_SET_PDEATHSIG was set
  if (!launch.group.empty() && !system::ControlGroup(launch.group).enter(0))
    give_up(trouble, StartTrouble::Step::kGroup);
  if (!pin(cores_of(launch))) say_trouble(trouble, StartTrouble::Step::kPinning);
  std::vector<char*> arguments = pointers(launch.command);
  std::vector<char*> environment = pointers(launch.environment);
  if (launch.mask) ::umask(*launch.mask);
  // Set the limits and switch the user only after all allocations, because the limits may prevent
  // further allocations.
  if (!system::set_limits(launch.limits)) say_trouble(trouble, StartTrouble::Step::kLimits);
  if (launch.user && !become(*launch.user)) give_up(trouble, StartTrouble::Step::kUser);
  if (!launch.folder.empty() && ::chdir(launch.folder.c_str()) != 0)
    give_up(trouble, StartTrouble::Step::kFolder);
  std::uint64_t early = 0;
  ssize_t got = -1;
  while ((got = ::read(go, &early, sizeof early)) < 0 && errno == EINTR) {
  }
  if (got != static_cast<ssize_t>(sizeof early)) ::_exit(125);
  early &= ~pending_signals();
  for (int signal = 1; signal <= 64; ++signal)
    if ((early >> (signal - 1) & 1) != 0) ::raise(signal);
  close_ours_on_exec(inherited);
  if (launch.limits.no_new_privileges) ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (launch.supervision) supervise(launch, inherited, trouble);
  ::sigaction(SIGCHLD, &inherited.on_child, nullptr);
  ignore_signals(launch.limits.ignored.value_or(0));
  ::pthread_sigmask(SIG_SETMASK, &inherited.mask, nullptr);
  ::execvpe(arguments[0], arguments.data(), environment.data());
  say_trouble(trouble, StartTrouble::Step::kExec);
  ::_exit(errno == ENOENT ? 127 : 126);
}

}  // namespace berth::run
