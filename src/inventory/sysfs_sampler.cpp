#include "inventory/sysfs_sampler.hpp"

#include <chrono>

#include "inventory/drm_processes.hpp"
#include "system/drm_fdinfo.hpp"
#include "system/pci.hpp"
#include "vendor/amd/amd.hpp"
#include "vendor/intel/intel.hpp"

namespace berth::inventory {

using model::Absence;
using model::Vendor;

namespace {

/// Time limit for reading the open descriptors of a job's processes. A longer search would delay
/// the process that waits for the job.
constexpr std::chrono::milliseconds kMostForClients{50};

}  // namespace

SysfsSampler::SysfsSampler(const Sources& sources, const std::vector<model::Device>& devices)
    : roots_(sources.roots) {
  for (const model::Device& device : devices)
    if ((device.vendor == Vendor::kAmd || device.vendor == Vendor::kIntel) &&
        !device.pci_address.empty())
      devices_.push_back(device);
}

std::vector<DeviceSample> SysfsSampler::take(const std::vector<std::int64_t>& pids) const {
  if (devices_.empty()) return {};
  std::vector<model::Device> devices = devices_;
  for (model::Device& device : devices) {
    const bool asleep = system::is_suspended(roots_, device.pci_address);
    model::set_all_absent(device.readings, asleep ? Absence::kAsleep : Absence::kNotSupported);
    if (asleep) continue;
    if (device.vendor == Vendor::kAmd)
      amd::read_load(roots_, device);
    else
      intel::read_load(roots_, device);
  }
  std::vector<model::DeviceProcess> processes;
  if (!pids.empty())
    add_drm_processes(system::read_drm_clients(roots_, pids, kMostForClients), false, devices,
                      processes);
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  std::vector<DeviceSample> samples;
  samples.reserve(devices.size());
  for (model::Device& device : devices) samples.push_back({std::move(device), {}, now});
  for (model::DeviceProcess& process : processes)
    samples[static_cast<std::size_t>(process.device)].processes.push_back(std::move(process));
  return samples;
}

}  // namespace berth::inventory
