#include "vendor/opencl/opencl.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/environment_variables.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/write_file.hpp"
#include "vendor/opencl/abi.hpp"
#include "vendor/opencl/facts.hpp"
#include "vendor/opencl/patience.hpp"

namespace berth::opencl {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

/// Isolates the child that scans the devices. Its pipe becomes descriptor 3, and all others are
/// closed. The output of platforms is discarded. The child ends if its parent dies.
void isolate(int pipe, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (pipe != 3) ::dup2(pipe, 3);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {0, 1, 2}) {
    if (null >= 0)
      ::dup2(null, standard);
    else
      ::close(standard);
  }
  ::syscall(SYS_close_range, 4U, ~0U, 0U);
}

/// Creates a temporary folder, so that a scan leaves no files behind: platforms write files when
/// they start (PoCL writes to ~/.cache). "" if no folder can be created.
std::string new_cache_folder() {
  for (const std::string& place :
       {env_nonempty("TMPDIR").value_or("/tmp"), std::string("/tmp"), std::string("/dev/shm")}) {
    std::string folder = place + "/berth-opencl-XXXXXX";
    if (::mkdtemp(folder.data()) != nullptr) return folder;
  }
  return {};
}

[[noreturn]] void be_the_child(int pipe, pid_t parent, const std::string& library,
                               const std::string& cache_folder) {
  isolate(pipe, parent);
  if (!cache_folder.empty())
    for (const char* variable : {"XDG_CACHE_HOME", "POCL_CACHE_DIR"})
      ::setenv(variable, cache_folder.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  const bool told = write_all(3, encode(ask_library(library)));
  // Use _exit() to skip exit handlers: those of Berth belong to the parent process, and those of
  // the platforms would wait for their threads.
  ::_exit(told ? 0 : 1);
}

/// The signals that the guardian process, which starts the scan for Berth, waits for or ignores.
sigset_t awaited_signals() {
  sigset_t all;
  ::sigemptyset(&all);
  for (const int one : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD}) ::sigaddset(&all, one);
  return all;
}

/// The guardian process between Berth and the scan. It removes the temporary folder when the scan
/// ends, when Berth sends SIGTERM, or when Berth itself ends, even by SIGKILL or Ctrl-C. `before`:
/// Berth's signal mask.
[[noreturn]] void be_the_guardian(int pipe, pid_t parent, const std::string& library,
                                  const std::string& cache_folder, const sigset_t& before) {
  ::signal(SIGCHLD, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const pid_t own = ::getpid();
  const pid_t scan = ::getppid() == parent ? ::fork() : -1;
  if (scan == 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    be_the_child(pipe, own, library, cache_folder);
  }
  ::close(pipe);
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGTERM);
  ::sigaddset(&wanted, SIGCHLD);
  while (scan > 0) {
    const int signal = ::sigwaitinfo(&wanted, nullptr);
    if (signal == SIGCHLD && ::waitpid(scan, nullptr, WNOHANG) != scan) continue;
    if (signal < 0 && errno == EINTR) continue;
    if (signal == SIGCHLD) break;
    ::kill(scan, SIGKILL);
    while (::waitpid(scan, nullptr, 0) < 0 && errno == EINTR) {
    }
    break;
  }
  std::error_code ignored;
  if (!cache_folder.empty()) std::filesystem::remove_all(cache_folder, ignored);
  ::_exit(0);
}

/// Reads everything that the child writes before it closes the pipe. nullopt if Patience gives up
/// first.
std::optional<std::string> read_all(int fd, Patience& patience) {
  std::string bytes;
  std::array<char, 16384> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  while (bytes.size() <= kMostBytes) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        patience.until() - std::chrono::steady_clock::now());
    pollfd waiting{fd, POLLIN, 0};
    const int ready =
        ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && patience.renew(std::chrono::steady_clock::now())) continue;
    if (ready <= 0) return std::nullopt;
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return bytes;
}

model::Device device_of(const DeviceFacts& facts) {
  model::Device device;
  model::set_all_absent(device.readings, model::Absence::kNotSupported);
  device.kind = model::DeviceKind::kOpenCl;
  device.name = printable(trim(facts.name));
  device.vendor_name = printable(trim(facts.vendor));
  device.pci_address = facts.pci_address;
  device.memory_unified = facts.unified || (facts.type & kDeviceTypeCpu) != 0;
  if (facts.memory_bytes != 0) device.readings.memory_total_bytes = facts.memory_bytes;
  if (facts.clock_mhz != 0) device.readings.clock_graphics_max_mhz = std::uint64_t{facts.clock_mhz};
  // OpenCL reports only whether the device is available, and nothing else about its health.
  device.health = facts.available ? model::Health::kOk : model::Health::kDegraded;
  if (!facts.available) device.health_reasons.emplace_back("opencl:unavailable");
  device.note = text_n("OpenCL platform {0}, driver {1}, {2} compute unit",
                       "OpenCL platform {0}, driver {1}, {2} compute units", facts.compute_units,
                       printable(trim(facts.platform)), printable(trim(facts.driver_version)),
                       facts.compute_units);
  return device;
}

Error failure(const char* id, std::string message) {
  return {ErrorCode::kUnavailable, id, std::move(message), "clinfo -l"};
}

Report report_of(const Facts& facts, const std::string& library) {
  Report report;
  // A missing library is normal. A library that cannot be loaded is an error.
  const bool missing = facts.problem.find("No such file") != std::string::npos;
  if (!facts.loaded && !missing)
    report.error = failure("E0701", text("the OpenCL library {0} cannot be loaded: {1}", library,
                                         printable(facts.problem)));
  for (const DeviceFacts& device : facts.devices) report.devices.push_back(device_of(device));
  return report;
}

}  // namespace

Reader::Reader(std::string library)
    : library_(std::move(library)), start_(std::chrono::steady_clock::now()) {
  if (library_.empty()) return;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  pipe_.reset(ends[0]);
  const Descriptor writing(ends[1]);
  cache_folder_ = new_cache_folder();
  const pid_t parent = ::getpid();
  const sigset_t awaited = awaited_signals();
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &awaited, &before);
  child_ = ::fork();
  if (child_ == 0) be_the_guardian(writing.get(), parent, library_, cache_folder_, before);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Reader::~Reader() {
  if (child_ > 0) {
    ::kill(child_, SIGTERM);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  std::error_code ignored;
  if (!cache_folder_.empty()) std::filesystem::remove_all(cache_folder_, ignored);
}

Report Reader::finish(std::chrono::milliseconds deadline) {
  Report report;
  if (child_ <= 0) return report;
  Patience patience(child_, start_, deadline);
  const auto bytes = read_all(pipe_.get(), patience);
  const auto facts = bytes ? decode(*bytes) : std::nullopt;
  if (facts) {
    report = report_of(*facts, library_);
    // PoCL reports no device if it has no folder to write to. Report an error, so that this does
    // not look like a machine without devices.
    if (facts->loaded && report.devices.empty() && cache_folder_.empty())
      report.error = {ErrorCode::kUnavailable, "E0704",
                      text("OpenCL found no device, and it could not write its files to TMPDIR, "
                           "/tmp or /dev/shm"),
                      "TMPDIR=DIR berth ls --opencl"};
    return report;
  }
  report.error =
      bytes ? failure("E0703",
                      text("the OpenCL library {} crashed while it listed its devices", library_))
            : failure("E0702", text("the OpenCL library {0} did not answer within {1} ms", library_,
                                    std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::steady_clock::now() - start_)
                                        .count()));
  return report;
}

}  // namespace berth::opencl
