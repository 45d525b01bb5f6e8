#include "doctor/read/live.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "doctor/bundle_json.hpp"
#include "inventory/observe.hpp"

namespace berth::doctor {
namespace {

using model::Absence;
using model::Device;

template <typename T, typename From>
Fact<T> fact_of(const model::Reading<From>& reading, const char* what) {
  if (reading) return static_cast<T>(*reading);
  if (reading.why == Absence::kNotSupported) return {};
  return Unreadable{what, 0};
}

Fact<std::string> named(const std::string& text, const char* what) {
  return text.empty() ? Fact<std::string>(Unreadable{what, 0}) : Fact<std::string>(text);
}

template <typename T>
Fact<T> known(const std::optional<T>& value, const char* what) {
  return value ? Fact<T>(*value) : Fact<T>(Unreadable{what, 0});
}

/// "nvml:15" among the reasons of a GPU that answers with an error of its own.
Fact<int> error_of(const Device& device) {
  for (const std::string& reason : device.health_reasons)
    if (reason.starts_with("nvml:"))
      if (const auto code = to_number(std::string_view(reason).substr(5)))
        return static_cast<int>(*code);
  return {};
}

GpuAnswer answer_of(const Device& device) {
  GpuAnswer gpu = gpu_not_asked();
  gpu.pci_address = device.pci_address;
  gpu.error = error_of(device);
  gpu.name = named(device.name, "name");
  gpu.uuid = named(device.uuid, "uuid");
  gpu.compute_capability = named(device.compute_capability, "compute capability");
  gpu.memory_total_bytes = fact_of<std::uint64_t>(device.readings.memory_total_bytes, "memory");
  gpu.memory_used_bytes = fact_of<std::uint64_t>(device.readings.memory_used_bytes, "memory");
  gpu.utilization_percent = fact_of<double>(device.readings.utilization_percent, "utilization");
  gpu.compute_mode = named(device.compute_mode, "compute mode");
  gpu.persistence = known(device.persistence_mode, "persistence mode");
  gpu.mig_enabled = known(device.mig_enabled, "MIG mode");
  std::vector<std::string> instances;
  for (const model::Partition& part : device.partitions) instances.push_back(part.uuid);
  gpu.mig_instances = std::move(instances);
  gpu.throttle = device.throttle_reasons;
  gpu.ecc_uncorrected = fact_of<std::uint64_t>(device.readings.ecc_uncorrected, "ECC");
  gpu.remap_pending = fact_of<bool>(device.readings.remap_pending, "row remapping");
  gpu.remap_failed = fact_of<bool>(device.readings.remap_failed, "row remapping");
  gpu.power_limit_milliwatts =
      fact_of<std::uint64_t>(device.readings.power_limit_milliwatts, "power limit");
  gpu.clock_graphics_max_mhz =
      fact_of<std::uint64_t>(device.readings.clock_graphics_max_mhz, "clocks");
  return gpu;
}

/// NVML's code, where the inventory's error says which it was.
Fact<int> init_code(const model::Driver& driver) {
  if (driver.state == "ok") return 0;
  if (driver.state == "none") return {};
  if (driver.error_id == "E0304") return 9;
  if (driver.error_id == "E0305") return 18;
  if (driver.error_id == "E0308") return 4;
  return Unreadable{driver.message, 0};
}

}  // namespace

DriverAnswers answers_from(const model::Snapshot& snapshot) {
  DriverAnswers answers = driver_not_asked();
  answers.nvml_init = init_code(snapshot.driver);
  answers.nvml_message = named(snapshot.driver.message, "message");
  answers.driver_version = named(snapshot.driver.version, "driver version");
  answers.cuda_version = named(snapshot.driver.cuda_version, "CUDA version");
  std::vector<GpuAnswer> gpus;
  for (const Device& device : snapshot.devices) {
    if (device.vendor != model::Vendor::kNvidia || !device.managed) continue;
    GpuAnswer gpu = answer_of(device);
    // One whose share is not known (another user's, a driver that does not say) leaves no sum.
    std::uint64_t sum = 0;
    bool known = true;
    for (const model::DeviceProcess& one : snapshot.processes) {
      if (one.device != device.index) continue;
      known = known && static_cast<bool>(one.memory_bytes);
      sum += one.memory_bytes.value_or(std::uint64_t{0});
    }
    if (known) gpu.processes_memory_bytes = sum;
    gpus.push_back(std::move(gpu));
  }
  answers.gpus = std::move(gpus);
  return answers;
}

DriverAnswers ask_driver() {
  inventory::Options options;
  options.process_details = false;
  options.opencl = inventory::OpenCl::kNever;
  // A driver that hangs is what people come with: an answer that takes longer is not waited for.
  options.initialisation_deadline = std::chrono::milliseconds(2'500);
  return answers_from(inventory::observe(inventory::Sources::from_environment(), options));
}

}  // namespace berth::doctor
