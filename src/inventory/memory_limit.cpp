#include "inventory/memory_limit.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "base/descriptor.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "vendor/nvml/library.hpp"

namespace berth::inventory {
namespace {

/// The driver may have to initialize GPUs first.
constexpr std::chrono::seconds kDeadline(5);
constexpr std::uint32_t kMostDevices = 64;

enum class Do : unsigned char { kSet, kCheck };

/// What the child says about all limits: the driver's first error, or a limit that differs.
struct Answer {
  nvmlReturn_t code = NVML_SUCCESS;
  std::uint64_t hard = 0;
  std::uint32_t limit = 0;  // its position
};

nvmlReturn_t find_device(const nvml::Api& api, const std::string& uuid, nvmlDevice_t& found) {
  std::uint32_t count = 0;
  nvmlReturn_t code = api.DeviceGetCount(&count);
  for (std::uint32_t i = 0; code == NVML_SUCCESS && i < std::min(count, kMostDevices); ++i) {
    std::array<char, 96> name{};
    if (api.DeviceGetHandleByIndex(i, &found) == NVML_SUCCESS &&
        api.DeviceGetUUID(found, name.data(), static_cast<std::uint32_t>(name.size())) ==
            NVML_SUCCESS &&
        uuid == name.data())
      return NVML_SUCCESS;
  }
  return code == NVML_SUCCESS ? NVML_ERROR_GPU_NOT_FOUND : code;
}

Answer call_driver(const std::string& library, Do what, const std::string& group,
                   const std::vector<MemoryLimit>& limits) {
  const auto api = nvml::open(library);
  if (!api) return {NVML_ERROR_LIBRARY_NOT_FOUND, 0, 0};
  if (api->DeviceSetMemoryLimits == nullptr || api->DeviceGetMemoryLimits == nullptr)
    return {NVML_ERROR_FUNCTION_NOT_FOUND, 0, 0};
  Answer answer{api->Init(), 0, 0};
  for (std::size_t i = 0; answer.code == NVML_SUCCESS && i < limits.size(); ++i) {
    answer.limit = static_cast<std::uint32_t>(i);
    answer.hard = limits[i].bytes;
    nvmlDevice_t device = nullptr;
    answer.code = find_device(*api, limits[i].uuid, device);
    if (answer.code != NVML_SUCCESS) break;
    if (what == Do::kSet) {
      nvmlSetMemoryLimits_v1_t set{group.c_str(), 0, limits[i].bytes};
      answer.code = api->DeviceSetMemoryLimits(device, &set);
      continue;
    }
    nvmlGetMemoryLimits_v1_t got{group.c_str(), 0, 0, 0};
    answer.code = api->DeviceGetMemoryLimits(device, &got);
    if (answer.code == NVML_SUCCESS) answer.hard = got.hardLimit;
    if (answer.hard != limits[i].bytes) break;
  }
  return answer;
}

/// Only this process's end of the pipe stays open in the child.
void close_others(int pipe) {
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, stream);
  constexpr int kPipe = 3;
  if (pipe != kPipe && ::dup2(pipe, kPipe) < 0) ::_exit(1);
  ::syscall(SYS_close_range, kPipe + 1, ~0U, 0);
}

/// False: the child gave no answer in time.
bool ask(const std::string& library, Do what, const std::string& group,
         const std::vector<MemoryLimit>& limits, Answer& answer) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    close_others(writing.get());
    const Answer given = call_driver(library, what, group, limits);
    static_cast<void>(!::write(3, &given, sizeof given));
    ::_exit(0);
  }
  writing.reset();
  const auto until = std::chrono::steady_clock::now() + kDeadline;
  bool is_answered = false;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd ready{reading.get(), POLLIN, 0};
    const int polled = ::poll(&ready, 1, std::max(0, static_cast<int>(left.count())));
    if (polled < 0 && errno == EINTR) continue;
    is_answered = polled == 1 && ::read(reading.get(), &answer, sizeof answer) ==
                                     static_cast<ssize_t>(sizeof answer);
    break;
  }
  // A child that is blocked in the driver cannot be killed. Abandon it after a short time.
  ::kill(child, SIGKILL);
  for (int tries = 0; tries < 20 && ::waitpid(child, nullptr, WNOHANG) == 0; ++tries)
    ::poll(nullptr, 0, 5);
  return is_answered;
}

std::string words_of(nvmlReturn_t code, std::uint64_t bytes) {
  switch (code) {
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return text("it is older than {}", kMemoryLimitDriver);
    case NVML_ERROR_NO_PERMISSION:
      return text("only root may set it");
    case NVML_ERROR_NOT_SUPPORTED:
      return text("it does not support that for this GPU");
    case NVML_ERROR_NOT_FOUND:
      return text("no limit is set");
    case NVML_ERROR_OPERATING_SYSTEM:
      return text("it cannot open the control group");
    case NVML_ERROR_INVALID_ARGUMENT:
      return text("it refuses a limit of {}", show_bytes(bytes));
    default:
      return text("its error {}", static_cast<int>(code));
  }
}

Status perform(const std::string& library, Do what, const std::string& group,
               const std::vector<MemoryLimit>& limits) {
  const auto failed = [](const std::string& why) {
    return Error{ErrorCode::kUnavailable, "E1067",
                 text("the driver does not limit the memory of the job's control group: {}", why),
                 "berth run --isolation guard …"};
  };
  Answer answer;
  if (!ask(library, what, group, limits, answer)) return failed(text("it gave no answer"));
  if (answer.code != NVML_SUCCESS) return failed(words_of(answer.code, answer.hard));
  if (answer.limit < limits.size() && answer.hard != limits[answer.limit].bytes)
    return failed(text("its limit is {}", show_bytes(answer.hard)));
  return Done{};
}

}  // namespace

bool can_limit_memory(const model::Driver& driver) {
  const auto branch =
      to_number(std::string_view(driver.version).substr(0, driver.version.find('.')));
  return branch && *branch >= kMemoryLimitDriver;
}

Status set_memory_limits(const std::string& library, const std::string& group,
                         const std::vector<MemoryLimit>& limits) {
  return perform(library, Do::kSet, group, limits);
}

Status check_memory_limits(const std::string& library, const std::string& group,
                           const std::vector<MemoryLimit>& limits) {
  return perform(library, Do::kCheck, group, limits);
}

}  // namespace berth::inventory
