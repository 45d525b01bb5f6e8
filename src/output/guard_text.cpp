#include "output/guard_text.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/text.hpp"
#include "base/units.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

std::string limits_of(const model::GuardedDevice& device) {
  std::string out;
  if (device.memory_limit_bytes) out = show_bytes(*device.memory_limit_bytes);
  if (device.share_permille) {
    if (!out.empty()) out += ", ";
    out += text("{} % of the time when other jobs use the device", *device.share_permille / 10.0);
  }
  const std::string turns = turns_of(device.turns);
  return turns.empty() ? out : out + (out.empty() ? "" : ", ") + turns;
}

}  // namespace

std::string turns_of(const model::TurnRules& turns) {
  std::vector<std::string> parts;
  if (turns.cap_permille)
    parts.push_back(text("at most {} % of the time", *turns.cap_permille / 10.0));
  if (turns.latency) parts.push_back(text("priority over other jobs"));
  if (turns.best_effort) parts.push_back(text("only time that other jobs leave"));
  if (turns.slice_milliseconds)
    parts.push_back(
        text("turns of {}", show_duration(std::chrono::milliseconds(*turns.slice_milliseconds))));
  return join(parts, ", ");
}

std::string enforced_by(const model::Guarded& guarded) {
  if (!guarded.not_enforced.empty()) return "";
  if (!guarded.method.empty()) return guarded.method;
  return guarded.programs > 0 ? "guard" : "";
}

std::string not_protected(const std::string& by) {
  if (by == "driver")
    return text(
        "the driver limits memory, but does not separate jobs: a fault of one can end others");
  if (by == "mig") return text("the PCIe link and the driver are shared with the other partitions");
  if (by == "mps")
    return text(
        "the limit is for each process, and a fault of one program ends all programs of this MPS "
        "server");
  if (by == "guard")
    return text("a program can bypass the guard, and a fault of one job can affect others");
  return "";
}

namespace {

std::string name_of(const std::string& method) {
  return method == "driver" ? text("the driver")
         : method == "mig"  ? text("its MIG partition")
                            : text("MPS");
}

/// Which method limited the job, and the limits: "limited by …: …". Leaves out what the guard
/// counted.
std::string who_limited(const model::Guarded& guarded, const std::string& limits) {
  if (guarded.method.empty()) return text("limited by the guard: {}", limits);
  const std::string name = name_of(guarded.method);
  const std::string who =
      guarded.programs > 0 && !limits.empty() ? text("{} and the guard", name) : name;
  std::string all = limits;
  if (guarded.threads_percent)
    all +=
        (all.empty() ? "" : ", ") + text("{} % of the multiprocessors", *guarded.threads_percent);
  return all.empty() ? text("limited by {}", who) : text("limited by {}: {}", who, all);
}

}  // namespace

std::string guard_sentence(const model::Report& report) {
  if (!report.guarded) return "";
  const model::Guarded& guarded = *report.guarded;
  if (!guarded.not_enforced.empty()) return text("limits not enforced: {}", guarded.not_enforced);
  if (guarded.devices.empty()) return "";
  const model::GuardedDevice& first = guarded.devices.front();
  const bool has_method = !guarded.method.empty();
  if (!has_method && guarded.programs == 0 && report.gpu_use == model::GpuUse::kSeen &&
      guarded.opencl_only)
    return text("limits not enforced: on this device, the guard limits OpenCL programs only");
  if (!has_method && guarded.programs == 0 && report.gpu_use == model::GpuUse::kSeen)
    return text(
        "limits not enforced: the program that used the GPU does not load the guard (it is static, "
        "set-uid, or made for another libc)");
  std::uint64_t peak = 0, refusals = 0, prefetches = 0, prefetched = 0;
  std::optional<std::uint64_t> spilled;
  for (const model::GuardedDevice& device : guarded.devices) {
    peak = std::max(peak, device.memory_peak_bytes);
    refusals += device.refusals;
    prefetches += device.prefetches;
    prefetched += device.prefetched_bytes;
    if (device.spilled_peak_bytes)
      spilled = std::max(spilled.value_or(0), *device.spilled_peak_bytes);
  }
  if (!has_method && guarded.programs == 0)
    return guarded.opencl_only
               ? text("limit {}; no guarded program has used OpenCL", limits_of(first))
               : text("limit {}; no program used CUDA or OpenCL", limits_of(first));
  std::string out = who_limited(guarded, limits_of(first));
  if (guarded.programs > 0) out += text("; peak {}", show_bytes(peak));
  if (first.memory_limit_bytes && peak > *first.memory_limit_bytes)
    out += text(", before the limit was lowered");
  if (spilled && guarded.programs > 0) out += text("; spilled at most {}", show_bytes(*spilled));
  if (prefetches > 0)
    out += text_n("; {1} moved to the device by {0} prefetch",
                  "; {1} moved to the device by {0} prefetches", static_cast<long long>(prefetches),
                  prefetches, show_bytes(prefetched));
  if (refusals > 0)
    out += text_n("; {} request refused", "; {} requests refused", static_cast<long long>(refusals),
                  refusals);
  if (!guarded.not_counted.empty()) out += text("; not counted: {}", guarded.not_counted);
  if (has_method) out += "; " + not_protected(guarded.method);
  return out;
}

}  // namespace berth::output
