#include "inventory/memory_limit.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "inventory/driver_call.hpp"
#include "vendor/nvml/library.hpp"

namespace berth::inventory {
namespace {

/// The driver may have to initialize the GPUs first, so the child gets several seconds.
constexpr std::chrono::seconds kDeadline(5);
constexpr std::uint32_t kMostDevices = 64;

enum class Do : unsigned char { kSet, kCheck };

/// The child's answer: the driver's first error, or the first limit that differs from the requested
/// one.
struct Answer {
  nvmlReturn_t code = NVML_SUCCESS;
  std::uint64_t hard = 0;
  std::uint32_t limit = 0;  // index of the limit that failed or differs
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

/// Runs the request in a child. Returns false if the child sent no answer in time.
bool ask(const std::string& library, Do what, const std::string& group,
         const std::vector<MemoryLimit>& limits, Answer& answer) {
  const auto bytes = call_in_child(kDeadline, [&] {
    const Answer given = call_driver(library, what, group, limits);
    return std::string(reinterpret_cast<const char*>(&given), sizeof given);
  });
  if (!bytes || bytes->size() != sizeof answer) return false;
  std::memcpy(&answer, bytes->data(), sizeof answer);
  return true;
}

std::string words_of(nvmlReturn_t code, std::uint64_t bytes) {
  switch (code) {
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return text("its version is older than {}", kMemoryLimitDriver);
    case NVML_ERROR_NO_PERMISSION:
      return text("only root may set the limit");
    case NVML_ERROR_NOT_SUPPORTED:
      return text("the driver does not support a memory limit for this GPU");
    case NVML_ERROR_NOT_FOUND:
      return text("no limit is set");
    case NVML_ERROR_OPERATING_SYSTEM:
      return text("it cannot open the control group");
    case NVML_ERROR_INVALID_ARGUMENT:
      return text("it refuses a limit of {}", show_bytes(bytes));
    default:
      return text("NVML error {}", static_cast<int>(code));
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
    return failed(text("it set a limit of {} instead", show_bytes(answer.hard)));
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
