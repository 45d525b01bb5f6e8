#include "doctor/read/live.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text_parts.hpp"
#include "doctor/read/bundle_json.hpp"
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

/// The NVML error code among the device's health reasons: 15 for "nvml:15".
Fact<int> error_of(const Device& device) {
  for (const std::string& reason : device.health_reasons)
    if (reason.starts_with("nvml:"))
      if (const auto code = to_number(std::string_view(reason).substr(5)))
        return static_cast<int>(*code);
  return {};
}

/// Whether the GPU was queried and did not answer. GPUs are not queried while the driver is
/// starting.
Fact<bool> silence_of(const Device& device, const model::Driver& driver) {
  using model::Health;
  if (device.health == Health::kAsleep || device.health == Health::kNotChecked)
    return Unreadable{"silent", 0};
  if (device.health != Health::kNoAnswer) return false;
  if (driver.state != "ok" && driver.error_id != "E0313") return Unreadable{driver.message, 0};
  return true;
}

/// Berth's error id if the library gives no answers at all. Leaves out errors that other rules
/// report. Also leaves out errors of a driver that is starting, because it may answer later.
Fact<std::string> failure_of(const model::Driver& driver) {
  if (driver.error_id == "E0307") return Unreadable{driver.message, 0};
  constexpr auto kOthers = std::to_array<std::string_view>({"E0301", "E0304", "E0305", "E0313"});
  if (driver.error_id.empty() ||
      std::find(kOthers.begin(), kOthers.end(), driver.error_id) != kOthers.end())
    return {};
  return driver.error_id;
}

bool answered(const Device& device) {
  using model::Health;
  return device.health != Health::kNoAnswer && device.health != Health::kNotChecked &&
         device.health != Health::kAsleep;
}

GpuAnswer answer_of(const Device& device) {
  GpuAnswer gpu = gpu_not_asked();
  gpu.pci_address = device.pci_address;
  gpu.error = error_of(device);
  gpu.name = named(device.name, "name");
  gpu.uuid = named(device.uuid, "uuid");
  gpu.compute_capability = named(device.compute_capability, "compute_capability");
  gpu.memory_total_bytes =
      fact_of<std::uint64_t>(device.readings.memory_total_bytes, "memory_total_bytes");
  gpu.memory_used_bytes =
      fact_of<std::uint64_t>(device.readings.memory_used_bytes, "memory_used_bytes");
  gpu.utilization_percent =
      fact_of<double>(device.readings.utilization_percent, "utilization_percent");
  gpu.compute_mode = named(device.compute_mode, "compute_mode");
  gpu.persistence = known(device.persistence_mode, "persistence");
  gpu.mig_enabled = known(device.mig_enabled, "mig_enabled");
  // Use the lists of instances and throttle reasons only if the GPU answered. Otherwise an empty
  // list proves nothing.
  if (answered(device)) {
    std::vector<std::string> instances;
    for (const model::Partition& part : device.partitions) instances.push_back(part.uuid);
    gpu.mig_instances = std::move(instances);
    gpu.throttle = device.throttle_reasons;
  }
  gpu.ecc_uncorrected = fact_of<std::uint64_t>(device.readings.ecc_uncorrected, "ecc_uncorrected");
  gpu.remap_pending = fact_of<bool>(device.readings.remap_pending, "remap_pending");
  gpu.remap_failed = fact_of<bool>(device.readings.remap_failed, "remap_failed");
  gpu.power_limit_milliwatts =
      fact_of<std::uint64_t>(device.readings.power_limit_milliwatts, "power_limit_milliwatts");
  gpu.clock_graphics_max_mhz =
      fact_of<std::uint64_t>(device.readings.clock_graphics_max_mhz, "clock_graphics_max_mhz");
  return gpu;
}

/// The NVML error code that corresponds to the error in the snapshot, if there is one.
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
  answers.failure = failure_of(snapshot.driver);
  answers.nvml_init = init_code(snapshot.driver);
  answers.nvml_message = named(snapshot.driver.message, "nvml_message");
  if (snapshot.driver.state == "none") {
    answers.driver_version = answers.cuda_version = {};
  } else {
    answers.driver_version = named(snapshot.driver.version, "driver_version");
    answers.cuda_version = named(snapshot.driver.cuda_version, "cuda_version");
  }
  std::vector<GpuAnswer> gpus;
  for (const Device& device : snapshot.devices) {
    if (device.vendor != model::Vendor::kNvidia || !device.managed) continue;
    GpuAnswer gpu = answer_of(device);
    gpu.silent = silence_of(device, snapshot.driver);
    // The sum is known only if the memory of every process is known. The memory of other users'
    // processes is unknown, and so is memory that the driver does not report.
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
  // While the driver is starting, it has not listed its GPUs yet, so an empty list does not mean
  // that there are no GPUs.
  if (!gpus.empty() || !answers.nvml_init.is_unreadable()) answers.gpus = std::move(gpus);
  return answers;
}

namespace {

template <typename T>
Fact<T> fact_of(const nvml::Answer& answer, const char* call) {
  if (answer.ok()) return static_cast<T>(answer.value);
  if (answer.has_none()) return {};
  return Unreadable{call, 0};
}

Fact<std::string> fabric_of(const nvml::Details& details) {
  const auto state = fact_of<std::uint64_t>(details.fabric, "fabric_state");
  if (state && *state == NVML_GPU_FABRIC_STATE_NOT_SUPPORTED) return {};
  return state.map([&](std::uint64_t value) -> std::string {
    if (value == NVML_GPU_FABRIC_STATE_NOT_STARTED) return "not started";
    if (value == NVML_GPU_FABRIC_STATE_IN_PROGRESS) return "in progress";
    return details.fabric_status.value == NVML_SUCCESS ? "completed" : "failed";
  });
}

/// The licence state of a vGPU, as the virtual machine sees it.
Fact<std::string> licence_of(const nvml::Details& details) {
  const auto mode = fact_of<std::uint64_t>(details.virtualization, "vgpu_licence");
  if (mode && *mode != NVML_GPU_VIRTUALIZATION_MODE_VGPU) return {};
  if (!mode) return mode.map([](std::uint64_t) { return std::string(); });
  return fact_of<std::uint64_t>(details.unlicensed, "vgpu_licence")
      .map([](std::uint64_t without) -> std::string {
        return without == 0 ? "licensed" : "unlicensed";
      });
}

/// The locked clock. NVML does not report it, so it is inferred from application clocks that differ
/// from the default.
Fact<std::uint64_t> lock_of(const nvml::Details& details) {
  const auto now = fact_of<std::uint64_t>(details.clock_application, "clock_graphics_locked_mhz");
  const auto usual =
      fact_of<std::uint64_t>(details.clock_application_default, "clock_graphics_locked_mhz");
  if (now && usual && *now == *usual) return {};
  return usual ? now : usual;
}

Fact<bool> confidential_of(const inventory::NvmlDetails& details) {
  if (!details.confidential) return Unreadable{"cc_ready", 0};
  const auto on = fact_of<bool>(details.confidential->on, "cc_ready");
  if (!on || !*on) return on ? Fact<bool>() : on;
  return fact_of<bool>(details.confidential->ready, "cc_ready");
}

/// Pairs of GPUs without peer access. If no such pair was found and some pairs did not answer, the
/// fact is unreadable.
Fact<std::vector<std::string>> pairs_of(const inventory::NvmlDetails& details) {
  std::vector<std::string> without;
  bool all = details.complete;
  for (std::size_t one = 0; one < details.devices.size(); ++one) {
    if (!details.devices[one]) continue;
    const auto& peers = details.devices[one]->peers;
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const bool told = peers[i] && *peers[i] < NVML_P2P_STATUS_UNKNOWN;
      all = all && told;
      if (told && *peers[i] != NVML_P2P_STATUS_OK)
        without.push_back(std::to_string(one) + "-" + std::to_string(one + 1 + i));
    }
  }
  if (without.empty() && !all) return Unreadable{"peer_pairs_unsupported", 0};
  return without;
}

void add_to(const nvml::Details& details, GpuAnswer& gpu) {
  gpu.fabric_state = fabric_of(details);
  gpu.vgpu_licence = licence_of(details);
  gpu.bar1_bytes = fact_of<std::uint64_t>(details.bar1_bytes, "bar1_bytes");
  gpu.display_active = fact_of<bool>(details.display_active, "display_active");
  gpu.retired_pages_pending = fact_of<bool>(details.retired_pages_pending, "retired_pages_pending");
  gpu.power_limit_default_milliwatts =
      fact_of<std::uint64_t>(details.power_limit_default, "power_limit_default_milliwatts");
  gpu.clock_graphics_locked_mhz = lock_of(details);
}

}  // namespace

void add_details(const inventory::NvmlDetails& details, DriverAnswers& answers) {
  if (!answers.gpus) return;
  std::vector<GpuAnswer> gpus = *answers.gpus;
  const Fact<bool> confidential = confidential_of(details);
  for (GpuAnswer& gpu : gpus) {
    gpu.cc_ready = confidential;
    for (const auto& device : details.devices)
      if (device && !device->pci_address.empty() && device->pci_address == gpu.pci_address)
        add_to(device->answers, gpu);
  }
  answers.gpus = std::move(gpus);
  answers.peer_pairs_unsupported = pairs_of(details);
}

DriverAnswers ask_driver(bool gpu_sleeps) {
  const inventory::Sources sources = inventory::Sources::from_environment();
  // Initializing NVML wakes a sleeping GPU. If a GPU sleeps, only make calls that are known not to
  // wake it.
  inventory::NvmlDetailsAsked details(gpu_sleeps ? "" : sources.nvml_library);
  inventory::Options options;
  options.process_details = false;
  options.opencl = inventory::OpenCl::kNever;
  // Many users start the doctor because the driver hangs, so a longer deadline would only delay the
  // report.
  options.initialisation_deadline = std::chrono::milliseconds(2000);
  // This deadline is longer than the one for listing devices, because the doctor reports a GPU
  // without an answer as faulty.
  options.device_deadline = std::chrono::milliseconds(1500);
  DriverAnswers answers = answers_from(inventory::observe(sources, options));
  if (!gpu_sleeps) add_details(details.finish(std::chrono::milliseconds(2500)), answers);
  return answers;
}

}  // namespace berth::doctor
