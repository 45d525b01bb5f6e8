// The stable names of the model's enumerations.
#include <algorithm>
#include <cerrno>

#include "base/text.hpp"
#include "model/access.hpp"
#include "model/busy.hpp"
#include "model/device.hpp"
#include "model/device_use.hpp"
#include "model/diagnosis.hpp"
#include "model/run.hpp"

namespace berth::model {

std::string_view name(Absence why) {
  switch (why) {
    case Absence::kNotAsked:
      return "not asked";
    case Absence::kNotSupported:
      return "not supported";
    case Absence::kNoPermission:
      return "no permission";
    case Absence::kNeedsTwoReadings:
      return "needs two readings";
    case Absence::kAsleep:
      return "asleep";
    case Absence::kNoAnswer:
      return "no answer";
    case Absence::kLost:
      return "lost";
    case Absence::kFailed:
      return "failed";
    case Absence::kTooShort:
      return "too short";
    case Absence::kNotSeen:
      return "not seen";
  }
  return "failed";
}

Absence absence_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case EINVAL:
    case EOPNOTSUPP:
    case ENODATA:
      return Absence::kNotSupported;
    case EACCES:
      return Absence::kNoPermission;
    // Drivers return these errors for a device that is asleep or is being reset (Linux
    // drivers/gpu/drm/amd/pm/amdgpu_pm.c).
    case EPERM:
    case EBUSY:
      return Absence::kAsleep;
    case ENODEV:
    case ENXIO:
      return Absence::kLost;
    case ETIMEDOUT:
    case EAGAIN:
      return Absence::kNoAnswer;
    default:
      return Absence::kFailed;
  }
}

std::string_view name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kGpu:
      return "gpu";
    case DeviceKind::kTpu:
      return "tpu";
    case DeviceKind::kAccelerator:
      return "accelerator";
    case DeviceKind::kOpenCl:
      return "opencl";
    case DeviceKind::kCpu:
      return "cpu";
  }
  return "gpu";
}

std::string_view name(Vendor vendor) {
  switch (vendor) {
    case Vendor::kNvidia:
      return "nvidia";
    case Vendor::kAmd:
      return "amd";
    case Vendor::kIntel:
      return "intel";
    case Vendor::kGoogle:
      return "google";
    case Vendor::kOther:
      return "other";
  }
  return "other";
}

std::string_view name(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kDegraded:
      return "degraded";
    case Health::kLost:
      return "lost";
    case Health::kAsleep:
      return "asleep";
    case Health::kNoAnswer:
      return "no answer";
    case Health::kNotChecked:
      return "not checked";
  }
  return "not checked";
}

std::string_view name(OutcomeClass outcome) {
  switch (outcome) {
    case OutcomeClass::kOk:
      return "ok";
    case OutcomeClass::kFailed:
      return "failed";
    case OutcomeClass::kSignal:
      return "signal";
    case OutcomeClass::kNotFound:
      return "not_found";
    case OutcomeClass::kNotExecutable:
      return "not_executable";
    case OutcomeClass::kLost:
      return "lost";
    case OutcomeClass::kCancelled:
      return "cancelled";
    case OutcomeClass::kTimeLimit:
      return "time limit";
    case OutcomeClass::kPreempted:
      return "preempted";
  }
  return "lost";
}

std::string_view name(Access access) {
  return access == Access::kKernel ? "kernel" : "variable";
}

std::string_view name(GpuUse use) {
  switch (use) {
    case GpuUse::kSeen:
      return "seen";
    case GpuUse::kNotSeen:
      return "not_seen";
    case GpuUse::kDeniedByKernel:
      return "denied_by_kernel";
    case GpuUse::kNotChecked:
      return "not_checked";
  }
  return "not_checked";
}

void set_all_absent(DeviceReadings& readings, Absence why) {
  for_each_reading(readings, [why](std::string_view, auto& reading) { reading = why; });
}

bool out_of_reach(const Device& device) {
  const auto& reasons = device.health_reasons;
  return !device.managed && std::find(reasons.begin(), reasons.end(), kOutOfReach) != reasons.end();
}

bool use_unknown(const Device& device) {
  const auto refused = [](const auto& reading) {
    return !reading && (reading.why == Absence::kNoPermission || reading.why == Absence::kFailed);
  };
  return device.managed && device.health == Health::kNotChecked &&
         refused(device.readings.memory_used_bytes) && refused(device.readings.utilization_percent);
}

std::string_view name(Layer layer) {
  switch (layer) {
    case Layer::kHardware:
      return "hardware";
    case Layer::kDriver:
      return "driver";
    case Layer::kContainer:
      return "container";
    case Layer::kEnvironment:
      return "environment";
    case Layer::kLibraries:
      return "libraries";
    case Layer::kFramework:
      return "framework";
    case Layer::kRuntime:
      return "runtime";
    case Layer::kSource:
      return "source";
  }
  return "runtime";
}

std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
    case Severity::kFatal:
      return "fatal";
  }
  return "info";
}

std::string_view name(Confidence confidence) {
  switch (confidence) {
    case Confidence::kLow:
      return "low";
    case Confidence::kMedium:
      return "medium";
    case Confidence::kHigh:
      return "high";
  }
  return "low";
}

bool mute(const Device& device) {
  return device.health == Health::kLost || device.health == Health::kNoAnswer ||
         use_unknown(device);
}

bool users_unknown(const Device& device) {
  return mute(device) || device.processes_unknown.has_value();
}

namespace {

/// A process that uses at least this much memory counts as computing. A desktop's graphics and a
/// driver's reserve use less.
std::uint64_t work_bytes(const Device& device) {
  constexpr std::uint64_t kGiB = 1ULL << 30U;
  return std::max(kGiB, device.readings.memory_total_bytes.value_or(0) / 10);
}

}  // namespace

bool makes_busy(const DeviceProcess& process, const Device& device) {
  return process.kind.compute || process.kind.mps || !process.kind.graphics ||
         process.memory_bytes.value_or(0) >= work_bytes(device);
}

bool holds_unaccounted(const Device& device, const Snapshot& snapshot) {
  if (device.memory_unified) return false;
  return std::any_of(snapshot.unattributed.begin(), snapshot.unattributed.end(),
                     [&](const Unattributed& memory) {
                       return memory.device == device.index && memory.cause != "driver_reserve" &&
                              memory.memory_bytes >= work_bytes(device);
                     });
}

bool has_unseen_users(const Device& device, const Snapshot& snapshot) {
  return !snapshot.host.wsl && holds_unaccounted(device, snapshot);
}

bool is_gpu(const Device& device) {
  return device.managed && device.kind != DeviceKind::kCpu && device.kind != DeviceKind::kOpenCl;
}

bool processor_graphics(const Device& device) {
  return device.memory_unified &&
         (device.vendor == Vendor::kAmd || device.vendor == Vendor::kIntel);
}

std::string_view word_for(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kGpu:
      return "GPU";
    case DeviceKind::kTpu:
      return "TPU";
    case DeviceKind::kAccelerator:
      return tr("accelerator");
    case DeviceKind::kOpenCl:
      return "OpenCL";
    case DeviceKind::kCpu:
      return "CPU";
  }
  return "";
}

}  // namespace berth::model
