#include "sim/ending.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::sim {
namespace {

enum class Belongs { kNo, kYes, kNotKnownYet };

/// Whether a process belongs to the simulation in `folder`. During exec, a process has a program
/// but no environment yet. Then its environment is read again later. (Kernel threads and zombies
/// have neither.)
Belongs belongs(const std::string& folder, const std::string& pid) {
  auto environment = slurp("/proc/" + pid + "/environ", 8U << 20U);
  if (!environment) return Belongs::kNo;
  if (environment->empty()) {
    char program = 0;
    const bool has = readlink(("/proc/" + pid + "/exe").c_str(), &program, 1) > 0;
    return has ? Belongs::kNotKnownYet : Belongs::kNo;
  }
  environment->insert(0, 1, '\0');
  std::string wanted(1, '\0');
  wanted += "BERTH_SIM_DIR=" + folder;
  wanted.push_back('\0');
  return environment->find(wanted) != std::string::npos ? Belongs::kYes : Belongs::kNo;
}

struct Found {
  pid_t pid;
  Descriptor handle;
};

/// The processes of the simulation. Sets `doubt` if some processes could not be checked.
std::vector<Found> processes_of(const std::string& folder, bool& doubt) {
  std::vector<Found> found;
  doubt = false;
  for (const std::string& name : list_folder("/proc")) {
    const auto pid = to_number(name);
    if (!pid || *pid == getpid()) continue;
    const Belongs first = belongs(folder, name);
    doubt = doubt || first == Belongs::kNotKnownYet;
    if (first != Belongs::kYes) continue;
    Descriptor handle(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(*pid), 0)));
    const Belongs still = handle ? belongs(folder, name) : Belongs::kNo;
    doubt = doubt || still == Belongs::kNotKnownYet;
    if (still == Belongs::kYes) found.push_back({static_cast<pid_t>(*pid), std::move(handle)});
  }
  return found;
}

void signal_all(const std::vector<Found>& processes, int number) {
  for (const Found& process : processes)
    syscall(SYS_pidfd_send_signal, process.handle.get(), number, nullptr, 0);
}

/// Waits until all of the processes have ended, at most `milliseconds` for each.
void wait_for(const std::vector<Found>& processes, int milliseconds) {
  for (const Found& process : processes) {
    pollfd ended{process.handle.get(), POLLIN, 0};
    poll(&ended, 1, milliseconds);
  }
}

[[noreturn]] void sweep(Folder& folder, int pipe) {
  prctl(PR_SET_NAME, "berth-sim-end");
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  setsid();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
  char word = 0;
  ssize_t n = 0;
  do n = read(pipe, &word, 1);
  while (n < 0 && errno == EINTR);
  if (n == 1) _exit(0);
  end_processes_of(folder.path(), false);
  folder.remove();
  _exit(0);
}

}  // namespace

void end_processes_of(const std::string& folder, bool politely) {
  // A process without an environment may be unrelated to the simulation, so look at it only a few
  // times.
  int patience = 10;
  bool asked = false;
  // repeat, because processes may have started others in the meantime
  for (int round = 0; round < 50; ++round) {
    bool doubt = false;
    const std::vector<Found> processes = processes_of(folder, doubt);
    if (processes.empty() && (!doubt || patience-- == 0)) return;
    if (processes.empty()) poll(nullptr, 0, 3);
    const bool ask = politely && !processes.empty() && !asked;
    asked = asked || ask;
    signal_all(processes, ask ? SIGTERM : SIGKILL);
    if (ask) signal_all(processes, SIGCONT);
    wait_for(processes, 1000);
  }
}

Result<Sweeper> Sweeper::start(Folder& folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Error{ErrorCode::kUnavailable, "E0613",
                 text("cannot start a simulated process: {}", error_words(errno)), ""};
  Descriptor mine(ends[1]), theirs(ends[0]);
  const pid_t pid = fork();
  if (pid < 0)
    return Error{ErrorCode::kUnavailable, "E0613",
                 text("cannot start a simulated process: {}", error_words(errno)), ""};
  if (pid == 0) {
    mine.reset();
    sweep(folder, theirs.get());
  }
  return Sweeper(pid, std::move(mine));
}

void Sweeper::dismiss() {
  const char word = 'q';
  while (write(pipe_.get(), &word, 1) < 0 && errno == EINTR) {
  }
  pipe_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace berth::sim
