// Reading /proc/PID is most of the work of `berth ps`, so each process costs only four files: stat
// (state, times, memory), cmdline, cgroup, and the folder itself. The folder's owner is the
// effective user, also for programs whose files belong to root (task_dump_owner in fs/proc/base.c).
// A recorded tree has other owners and maybe another page size, so there status is read instead.
#include "system/process.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>

#include "system/process_text.hpp"

namespace berth::system {

namespace {

/// USER_HZ is 100 in the kernel's ABI of every architecture with GPUs.
constexpr double kTicksPerSecond = 100.0;
constexpr std::size_t kFileLimit = 4096;  // longer arguments are cut off at this size

/// Reads a file of /proc/PID into `buffer`; nullopt with errno on failure.
template <std::size_t N>
std::optional<std::string_view> read_into(std::array<char, N>& buffer, int folder,
                                          const char* name) {
  const Descriptor file(::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file) return std::nullopt;
  ssize_t size = -1;
  // The kernel returns the whole content in one read, so a second read to detect the end is not
  // needed.
  do size = ::read(file.get(), buffer.data(), N);
  while (size < 0 && errno == EINTR);
  if (size < 0) return std::nullopt;
  return std::string_view(buffer.data(), static_cast<std::size_t>(size));
}

model::Absence why_absent() {
  return errno == EACCES || errno == EPERM ? model::Absence::kNoPermission
                                           : model::Absence::kFailed;
}

bool is_procfs(int folder) {
  struct statfs about {};
  return folder >= 0 && ::fstatfs(folder, &about) == 0 && about.f_type == PROC_SUPER_MAGIC;
}

/// The name in brackets, "[name]". Like ps, Berth shows processes without arguments in this form:
/// kernel threads, zombies, and programs that erased their arguments.
std::string bracketed(std::string_view name) {
  return "[" + printable(name) + "]";
}

}  // namespace

ProcessReader::ProcessReader(Roots roots)
    : roots_(std::move(roots)),
      proc_(::open(roots_.proc.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
      procfs_(is_procfs(proc_.get())),
      users_(roots_.etc) {
  if (procfs_) return;
  const auto line = slurp(roots_.proc + "/uptime", 256);
  if (!line) return;
  double seconds = 0;
  const auto parsed = std::from_chars(line->data(), line->data() + line->size(), seconds);
  if (parsed.ec == std::errc() && seconds >= 0) recorded_uptime_ = seconds;
}

std::optional<double> ProcessReader::uptime() const {
  if (!procfs_) return recorded_uptime_;
  // /proc/uptime is not used: in LXC it is the container's uptime, while start times count from the
  // boot of the kernel.
  timespec now{};
  if (::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return std::nullopt;
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void ProcessReader::fill_times(model::DeviceProcess& process, std::uint64_t cpu_ticks) const {
  const auto up = uptime();
  const double started = static_cast<double>(*process.start_ticks) / kTicksPerSecond;
  // Allow a difference of one tick: the start time is rounded down, and the clocks are read one
  // after the other.
  if (!up || started > *up + 1 / kTicksPerSecond) {
    process.age_seconds = process.cpu_percent = model::Absence::kFailed;
    return;
  }
  const double age = std::max(*up - started, 0.0);
  process.age_seconds = age;
  if (age < 1 / kTicksPerSecond)
    process.cpu_percent = model::Absence::kNeedsTwoReadings;
  else
    process.cpu_percent = static_cast<double>(cpu_ticks) / kTicksPerSecond / age * 100;
}

void ProcessReader::fill_home(model::DeviceProcess& process, int folder) {
  std::array<char, 8192>
      buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled by read()
  const auto text = read_into(buffer, folder, "cgroup");
  if (!text) return;
  if (*text != last_cgroup_) {
    last_home_ = home_of(*text);
    last_cgroup_ = *text;
  }
  process.container = last_home_.container;
  process.unit = last_home_.unit;
  process.pod = last_home_.pod;
}

void ProcessReader::fill_owner(model::DeviceProcess& process, int folder, std::uint32_t owner) {
  if (procfs_) {
    process.uid = owner;
  } else {
    std::array<char, kFileLimit> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const auto text = read_into(buffer, folder, "status");
    if (!text) return;
    const StatusText status = parse_status(*text);
    process.uid = status.uid;
    if (status.rss_bytes) process.rss_bytes = *status.rss_bytes;
  }
  if (process.uid) process.user = users_.of(*process.uid);
}

void ProcessReader::fill_command(model::DeviceProcess& process, int folder,
                                 std::string_view short_name) {
  // Reading the arguments takes a lock on the process's memory. A process stuck in the kernel may
  // hold this lock forever and block every reader (ps, top). The process's name can be read without
  // the lock.
  if (process.state != "D") {
    std::array<char, kFileLimit> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    if (const auto bytes = read_into(buffer, folder, "cmdline"))
      process.command = command_line(*bytes);
  }
  if (process.command.empty() && !short_name.empty()) process.command = bracketed(short_name);
}

bool ProcessReader::fill_rest(model::DeviceProcess& process, int folder) {
  std::array<char, kFileLimit> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const auto text = read_into(buffer, folder, "stat");
  if (!text) {
    if (errno == ESRCH) return false;
    process.cpu_percent = process.age_seconds = why_absent();
    if (!process.rss_bytes) process.rss_bytes = why_absent();
  }
  const auto stat = text ? parse_stat(*text) : std::nullopt;
  if (stat) {
    process.state = printable(std::string_view(&stat->state, 1));
    process.start_ticks = stat->start_ticks;
    fill_times(process, stat->cpu_ticks);
    if (procfs_)
      process.rss_bytes = stat->rss_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }
  fill_command(process, folder, stat ? stat->name : std::string_view());
  fill_home(process, folder);
  return true;
}

bool ProcessReader::fill(model::DeviceProcess& process, std::int64_t pid, Depth depth) {
  if (pid <= 0 || !proc_) return false;
  std::array<char, 24> name{};
  std::to_chars(name.data(), name.data() + name.size() - 1, pid);
  struct stat about {};
  if (procfs_ && depth == Depth::kUser) {
    if (::fstatat(proc_.get(), name.data(), &about, AT_SYMLINK_NOFOLLOW) != 0) return false;
    fill_owner(process, -1, about.st_uid);
    return true;
  }
  // Open all files of the process relative to a descriptor of its folder. The descriptor refers to
  // the same process even if its pid is reused.
  const Descriptor folder(
      ::openat(proc_.get(), name.data(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder || ::fstat(folder.get(), &about) != 0) return false;
  fill_owner(process, folder.get(), about.st_uid);
  return depth == Depth::kUser || fill_rest(process, folder.get());
}

}  // namespace berth::system
