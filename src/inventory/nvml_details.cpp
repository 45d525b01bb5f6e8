#include "inventory/nvml_details.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <type_traits>

#include "vendor/nvml/library.hpp"

namespace berth::inventory {
namespace {

constexpr std::uint32_t kMostDevices = 64;
constexpr std::uint32_t kMagic = 0x64746c73;

/// One message from the child. Smaller than PIPE_BUF, so that concurrent writes are atomic.
struct Record {
  std::uint32_t magic = kMagic;
  std::uint32_t devices = 0;
  std::uint32_t position = kMostDevices;  // index of the device; kMostDevices: no single device
  std::uint32_t unused = 0;
  nvml::Confidential confidential;
  nvml::Details details;
  // 0xff: the status between the two devices is unknown.
  std::array<std::uint8_t, kMostDevices> peers{};
};
static_assert(sizeof(Record) <= PIPE_BUF && std::is_trivially_copyable_v<Record>);
constexpr std::uint8_t kNotTold = 0xff;

struct Job {
  const nvml::Api& api;
  int pipe;
  std::uint32_t position, devices;
};

void send(int pipe, const Record& record) {
  if (::write(pipe, &record, sizeof record) != static_cast<ssize_t>(sizeof record)) ::_exit(0);
}

void* ask_device(void* given) {
  const std::unique_ptr<Job> job(static_cast<Job*>(given));
  nvml::Look look{job->api};
  Record record;
  record.devices = job->devices;
  record.position = job->position;
  record.peers.fill(kNotTold);
  nvmlDevice_t handle = nullptr;
  if (look(job->api.DeviceGetHandleByIndex, job->position, &handle) == NVML_SUCCESS) {
    look.device = handle;
    record.details = nvml::read_details(look);
    for (std::uint32_t other = job->position + 1; other < job->devices; ++other) {
      nvmlDevice_t peer = nullptr;
      nvml::Look aside{job->api};
      if (aside(job->api.DeviceGetHandleByIndex, other, &peer) != NVML_SUCCESS) continue;
      const nvml::Answer answer = nvml::read_peer(look, peer);
      if (answer.ok() && answer.value < kNotTold)
        record.peers[other] = static_cast<std::uint8_t>(answer.value);
    }
  }
  send(job->pipe, record);
  return nullptr;
}

[[noreturn]] void be_the_child(int pipe, pid_t parent, const std::string& library) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  ::prctl(PR_SET_NAME, "berth-nvml");
  constexpr int kPipe = 3;
  if (::dup2(pipe, kPipe) < 0) ::_exit(1);
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, stream);
  ::syscall(SYS_close_range, kPipe + 1, ~0U, 0);
  const auto opened = nvml::open(library);
  if (!opened || opened->Init() != NVML_SUCCESS) ::_exit(0);
  Record whole;
  if (opened->DeviceGetCount(&whole.devices) != NVML_SUCCESS) ::_exit(0);
  whole.devices = std::min(whole.devices, kMostDevices);
  whole.confidential = nvml::read_confidential(*opened);
  send(kPipe, whole);
  std::vector<pthread_t> threads;
  for (std::uint32_t i = 0; i < whole.devices; ++i) {
    auto job = std::make_unique<Job>(Job{*opened, kPipe, i, whole.devices});
    pthread_t thread{};
    if (::pthread_create(&thread, nullptr, ask_device, job.get()) != 0) continue;
    static_cast<void>(job.release());
    threads.push_back(thread);
  }
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
  ::_exit(0);
}

DeviceDetails device_of(const Record& record) {
  DeviceDetails device;
  device.answers = record.details;
  const nvml::Details& d = record.details;
  if (d.bus.ok() && d.bus.value <= 0xff && d.slot.value <= 0x1f && d.domain.value <= 0xffffffff)
    device.pci_address =
        fmt::format("{:04x}:{:02x}:{:02x}.0", d.domain.value, d.bus.value, d.slot.value);
  for (std::uint32_t other = record.position + 1; other < record.devices; ++other)
    device.peers.push_back(record.peers[other] == kNotTold
                               ? std::nullopt
                               : std::optional<std::uint64_t>(record.peers[other]));
  return device;
}

/// Stores a record from the child. Ignores values that are out of range.
void take(const Record& record, NvmlDetails& found) {
  if (record.magic != kMagic || record.devices > kMostDevices) return;
  if (record.position == kMostDevices) {
    found.confidential = record.confidential;
    found.devices.resize(record.devices);
  } else if (record.position < found.devices.size() && record.devices == found.devices.size()) {
    found.devices[record.position] = device_of(record);
  }
}

}  // namespace

NvmlDetailsAsked::NvmlDetailsAsked(const std::string& library)
    : start_(std::chrono::steady_clock::now()) {
  std::array<int, 2> ends{};
  if (library.empty() || ::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  pipe_.reset(ends[0]);
  const Descriptor writing(ends[1]);
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ == 0) be_the_child(writing.get(), parent, library);
}

NvmlDetailsAsked::~NvmlDetailsAsked() {
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  // A child that is blocked in the driver does not end on SIGKILL. Stop waiting for it after a
  // short time.
  for (int tries = 0; tries < 20 && ::waitpid(child_, nullptr, WNOHANG) == 0; ++tries)
    ::poll(nullptr, 0, 5);
}

NvmlDetails NvmlDetailsAsked::finish(std::chrono::milliseconds deadline) {
  NvmlDetails found;
  while (child_ > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        start_ + deadline - std::chrono::steady_clock::now());
    pollfd ready{pipe_.get(), POLLIN, 0};
    const int polled = ::poll(&ready, 1, std::max(0, static_cast<int>(left.count())));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) break;
    Record record;
    const ssize_t size = ::read(pipe_.get(), &record, sizeof record);
    if (size < 0 && errno == EINTR) continue;
    if (size != static_cast<ssize_t>(sizeof record)) break;
    take(record, found);
  }
  found.complete = found.confidential.has_value() &&
                   std::all_of(found.devices.begin(), found.devices.end(),
                               [](const auto& one) { return one.has_value(); });
  return found;
}

}  // namespace berth::inventory
