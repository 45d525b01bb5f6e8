#include "inventory/nvml_collector.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "inventory/nvml_words.hpp"
#include "model/device_use.hpp"
#include "vendor/nvml/abi_constants.hpp"

namespace berth::inventory {

using model::Absence;
using model::Device;
using model::Health;
using system::PciDevice;

namespace {

constexpr std::uint16_t kNvidia = 0x10de;

bool is_gpu(const PciDevice& device) {
  const std::uint32_t base = device.class_code >> 16U;
  return device.vendor == kNvidia && (base == 0x03 || base == 0x12) && device.driver != "vfio-pci";
}

void add_bus_facts(const PciDevice& pci, Device& device) {
  device.pci_address = pci.address;
  device.pci_path = pci.path;
  device.pci_id = pci.id();
  device.kernel_driver = pci.driver;
  device.numa_node = pci.numa_node;
  device.local_cpus = pci.local_cpus;
  if (device.name.empty()) device.name = pci.name;
}

Device from_bus(const PciDevice& pci, Health health, Absence why) {
  Device device;
  device.kind = model::DeviceKind::kGpu;
  device.vendor = model::Vendor::kNvidia;
  device.vendor_name = "NVIDIA";
  device.health = health;
  add_bus_facts(pci, device);
  set_all_absent(device.readings, why);
  return device;
}

// Whether the driver answered "not found" or "no permission" for an address. It does so in a
// container for GPUs that the container does not have. Such GPUs are ignored.
bool is_not_ours(const frames::Device& frame, bool asked_by_address) {
  return asked_by_address &&
         (frame.refused == NVML_ERROR_NOT_FOUND || frame.refused == NVML_ERROR_NO_PERMISSION);
}

void mark_silent(Device& device) {
  device.health = Health::kNoAnswer;
  device.health_reasons.clear();
  device.throttle_reasons.clear();
  device.partitions.clear();
  set_all_absent(device.readings, Absence::kNoAnswer);
}

/// Returns the text after a key in a text of several lines: "1" for "Device Minor:          1".
std::string word_after(std::string_view lines, std::string_view key) {
  for (const std::string_view line : split(lines, '\n'))
    if (line.starts_with(key)) return printable(trim(line.substr(key.size())));
  return {};
}

std::optional<std::string> kernel_words(const Sources& sources, const std::string& address) {
  return slurp(sources.roots.proc + "/driver/nvidia/gpus/" + address + "/information", 4096);
}

/// Takes the name and the uuid of a GPU from the kernel driver's text, because NVML does not report
/// the GPU any more.
void take_identity(std::string_view words, Device& device) {
  if (const std::string name = word_after(words, "Model:"); !name.empty() && name != "Unknown")
    device.name = name;
  const std::string uuid = word_after(words, "GPU UUID:");
  if (uuid.starts_with("GPU-") && uuid.find('?') == std::string::npos) device.uuid = uuid;
}

/// Returns a GPU that the kernel driver has but NVML does not list any more, for example because
/// the GPU fell off the bus. It stays in the list, so that other GPUs keep their numbers. nullopt
/// if this process may not open the GPU's node: a container or a scheduler then hides the GPU on
/// purpose.
std::optional<Device> lost_by_driver(const Sources& sources, const PciDevice& gpu) {
  const auto told = kernel_words(sources, gpu.address);
  if (!told) return std::nullopt;
  const auto minor = to_number(word_after(*told, "Device Minor:"));
  if (!minor || *minor < 0 || *minor > 65535) return std::nullopt;
  const std::string node = sources.roots.dev + "/nvidia" + std::to_string(*minor);
  const Descriptor file(::open(node.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file && (errno == EPERM || errno == EACCES || errno == ENOENT)) return std::nullopt;
  Device device = from_bus(gpu, Health::kLost, Absence::kLost);
  device.health_reasons = {"not_listed"};
  device.minor_number = static_cast<std::uint32_t>(*minor);
  take_identity(*told, device);
  return device;
}

// Reads the load of a Jetson's GPU from the kernel, which reports tenths of a percent. NVML lists
// this GPU without readings.
void add_jetson_load(const Sources& sources, Device& device) {
  if (!device.pci_address.empty() || device.readings.utilization_percent) return;
  const auto load = read_number(sources.roots.sys + "/devices/gpu.0/load");
  if (load && *load >= 0 && *load <= 1000) {
    device.readings.utilization_percent = static_cast<double>(*load) / 10;
  }
}

std::string note_on_processes(Absence why) {
  switch (why) {
    case Absence::kNoPermission:
      return text("the driver does not show this user which processes use the GPU");
    case Absence::kNotSupported:
      return text("the driver does not report which processes use the GPU");
    case Absence::kNoAnswer:
      return text("the driver did not report in time which processes use the GPU");
    default:
      return text("the driver failed to report which processes use the GPU");
  }
}

bool is_driven(const PciDevice& gpu) {
  return gpu.driver.empty() || gpu.driver == "nvidia";
}

// Whether the driver numbers the devices in PCI order, as drivers usually do.
bool in_order_of_bus(const std::vector<Device>& devices) {
  std::vector<const Device*> counted;
  counted.reserve(devices.size());
  for (const Device& device : devices) counted.push_back(&device);
  std::stable_sort(counted.begin(), counted.end(), [](const Device* a, const Device* b) {
    return a->vendor_index < b->vendor_index;
  });
  return std::is_sorted(
      counted.begin(), counted.end(),
      [](const Device* a, const Device* b) {  // a longer address has a larger domain
        return std::tuple(a->pci_address.size(), std::string_view(a->pci_address)) <
               std::tuple(b->pci_address.size(), std::string_view(b->pci_address));
      });
}

// Gives PCI addresses to the devices that did not report one. The number of these devices must
// equal the number of addresses on the bus that no device has. If it is above 1, the driver must
// also number devices in PCI order.
void find_addresses_of_the_silent(const std::vector<PciDevice>& gpus,
                                  std::vector<Device>& devices) {
  std::vector<std::string> unclaimed;
  for (const PciDevice& pci : gpus) {
    const bool claimed = std::any_of(devices.begin(), devices.end(), [&pci](const Device& device) {
      return device.pci_address == pci.address;
    });
    if (!claimed && !pci.suspended && is_driven(pci)) unclaimed.push_back(pci.address);
  }
  std::vector<Device> told = devices;
  std::size_t silent = 0;
  for (Device& device : told) {
    if (!device.pci_address.empty()) continue;
    if (!device.uuid.empty() || silent == unclaimed.size())
      return;  // a device that has a uuid but no address is not on PCI
    device.pci_address = unclaimed[silent++];
  }
  if (silent != unclaimed.size() || (silent > 1 && !in_order_of_bus(told))) return;
  devices = std::move(told);
}

void add_bus_facts(const std::vector<PciDevice>& gpus, std::vector<Device>& devices) {
  for (Device& device : devices) {
    for (const PciDevice& pci : gpus) {
      if (pci.address == device.pci_address) add_bus_facts(pci, device);
    }
  }
}

// Sorts by address. Devices without an address come last, in the driver's order.
void sort_by_address(NvmlReport& report) {
  std::vector<std::size_t> order(report.devices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&report](std::size_t i) {
    const Device& device = report.devices[i];
    return std::tuple(device.pci_address.empty(), std::string_view(device.pci_address),
                      device.vendor_index.value_or(~0U));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&key](std::size_t a, std::size_t b) { return key(a) < key(b); });
  std::vector<int> new_place(order.size());
  std::vector<Device> sorted;
  sorted.reserve(order.size());
  for (const std::size_t old : order) {
    new_place[old] = static_cast<int>(sorted.size());
    sorted.push_back(std::move(report.devices[old]));
  }
  report.devices = std::move(sorted);
  for (model::DeviceProcess& process : report.processes) {
    process.device = new_place[static_cast<std::size_t>(process.device)];
  }
}

bool says_there_is_nothing(const frames::Failed& failed) {
  return failed.id == "E0301" || failed.id == "E0304" || failed.code == NVML_ERROR_GPU_NOT_FOUND ||
         failed.code == NVML_ERROR_NOT_FOUND;
}

}  // namespace

std::vector<PciDevice> nvidia_gpus(const std::vector<PciDevice>& pci) {
  std::vector<PciDevice> gpus;
  std::copy_if(pci.begin(), pci.end(), std::back_inserter(gpus), is_gpu);
  return gpus;
}

bool all_asleep(const std::vector<PciDevice>& gpus) {
  return !gpus.empty() &&
         std::all_of(gpus.begin(), gpus.end(), [](const PciDevice& gpu) { return gpu.suspended; });
}

std::vector<std::string> awake_beside_asleep(const std::vector<PciDevice>& gpus) {
  std::vector<std::string> awake;
  bool asleep = false;
  for (const PciDevice& gpu : gpus) {
    asleep |= gpu.suspended;
    if (!gpu.suspended && is_driven(gpu)) awake.push_back(gpu.address);
  }
  if (!asleep) awake.clear();
  return awake;
}

void Collector::take(frames::Frame&& frame) {
  if (std::holds_alternative<frames::Loaded>(frame)) loaded_ = true;
  if (std::holds_alternative<frames::Done>(frame)) done_ = true;
  if (auto* failed = std::get_if<frames::Failed>(&frame)) failed_ = std::move(*failed);
  if (const auto* initialised = std::get_if<frames::Initialised>(&frame)) {
    if (!ready_) owes_since_ = initialised->monotonic_nanoseconds;
  }
  if (auto* ready = std::get_if<frames::Ready>(&frame)) {
    if (ready_) return;  // only the first Ready frame counts
    ready_ = std::move(*ready);
    owes_since_ = ready_->monotonic_nanoseconds;
    devices_.resize(ready_->devices);
  }
  if (auto* device = std::get_if<frames::Device>(&frame)) {
    if (device->position < devices_.size()) devices_[device->position] = std::move(*device);
  }
}

std::vector<std::uint32_t> Collector::unfinished() const {
  std::vector<std::uint32_t> positions;
  for (std::uint32_t position = 0; position < devices_.size(); ++position) {
    if (!devices_[position] || !devices_[position]->complete) positions.push_back(position);
  }
  return positions;
}

NvmlReport Collector::report(const Sources& sources, const Options& options, Ending ending) {
  NvmlReport report;
  describe_driver(sources, options, ending, report.driver);
  if (ready_) report.left_out = ready_->left_out;
  add_answers(report);
  find_addresses_of_the_silent(gpus_, report.devices);
  for (Device& device : report.devices)
    if (device.health == Health::kLost && device.uuid.empty() && !device.pci_address.empty())
      if (const auto words = kernel_words(sources, device.pci_address))
        take_identity(*words, device);
  add_bus_facts(gpus_, report.devices);
  add_from_bus(sources, report);
  for (Device& device : report.devices) add_jetson_load(sources, device);
  sort_by_address(report);
  return report;
}

NvmlReport Collector::report_unasked(const Sources& sources) const {
  NvmlReport report;
  if (all_asleep(gpus_)) {
    report.driver.state = "ok";
    report.driver.version =  // read from the kernel module, which does not wake a GPU
        printable(read_line(sources.roots.sys + "/module/nvidia/version").value_or(""));
  }
  for (const PciDevice& gpu : gpus_) {
    report.devices.push_back(gpu.suspended
                                 ? from_bus(gpu, Health::kAsleep, Absence::kAsleep)
                                 : from_bus(gpu, Health::kNotChecked, Absence::kNotAsked));
  }
  return report;
}

void Collector::describe_driver(const Sources& sources, const Options& options, Ending ending,
                                model::Driver& driver) const {
  if (ready_) {
    driver.version = ready_->driver_version;
    driver.cuda_version = ready_->cuda_version;
  }
  driver.state = "ok";
  const bool some_answered = std::any_of(devices_.begin(), devices_.end(), [](const auto& device) {
    return device && device->complete;
  });
  if (ending.no_child) {
    describe_no_child(driver);
  } else if (failed_ && gpus_.empty() && says_there_is_nothing(*failed_)) {
    driver.state = "none";
  } else if (failed_) {
    describe_failure(*failed_, sources.nvml_library, driver);
  } else if (ending.closed) {
    describe_death(ending.signal, driver);
  } else if (done_) {
    return;
  } else if (!owes_since_) {
    describe_silence(loaded_, options.initialisation_deadline, driver);
  } else if (!some_answered) {
    describe_silent_devices(options.device_deadline, driver);
  }
}

void Collector::add_answers(NvmlReport& report) {
  for (std::size_t position = 0; position < devices_.size(); ++position) {
    frames::Device frame;
    if (devices_[position]) {
      frame = std::move(*devices_[position]);
    } else if (only_addresses_.empty()) {
      frame.device.vendor_index = static_cast<std::uint32_t>(position);
    }
    if (is_not_ours(frame, !only_addresses_.empty())) continue;
    if (frame.device.pci_address.empty() && position < only_addresses_.size()) {
      frame.device.pci_address = only_addresses_[position];
    }
    add_row(std::move(frame), report);
  }
}

void Collector::add_row(frames::Device&& frame, NvmlReport& report) {
  Device& device = frame.device;
  device.kind = model::DeviceKind::kGpu;
  device.vendor = model::Vendor::kNvidia;
  device.vendor_name = "NVIDIA";
  if (!frame.complete) mark_silent(device);
  device.processes_unknown = frame.no_process_list;
  if (frame.no_process_list) device.note = note_on_processes(*frame.no_process_list);
  if (frame.late) device.note = text("the driver answers too slowly to read all values");
  const int place = static_cast<int>(report.devices.size());
  for (model::DeviceProcess& process : frame.processes) {
    process.device = place;
    report.processes.push_back(std::move(process));
  }
  report.unix_milliseconds = std::max(report.unix_milliseconds, frame.unix_milliseconds);
  report.devices.push_back(std::move(device));
}

// Adds GPUs that are known only from the PCI bus: GPUs that are asleep. If the driver failed before
// it listed devices, adds all GPUs.
void Collector::add_from_bus(const Sources& sources, NvmlReport& report) const {
  const std::size_t told = report.devices.size();
  for (const PciDevice& gpu : gpus_) {
    const bool known = std::any_of(
        report.devices.begin(), report.devices.begin() + static_cast<std::ptrdiff_t>(told),
        [&gpu](const Device& device) { return device.pci_address == gpu.address; });
    if (known) continue;
    if (gpu.suspended) {
      report.devices.push_back(from_bus(gpu, Health::kAsleep, Absence::kAsleep));
    } else if (!ready_ && report.driver.state == "no answer") {
      report.devices.push_back(from_bus(gpu, Health::kNoAnswer, Absence::kNoAnswer));
    } else if (!ready_) {
      report.devices.push_back(from_bus(gpu, Health::kNotChecked, Absence::kFailed));
      report.devices.back().managed = false;
      report.devices.back().health_reasons = {std::string(model::kOutOfReach)};
    } else if (auto lost = lost_by_driver(sources, gpu)) {
      report.devices.push_back(*std::move(lost));
    }
  }
}

}  // namespace berth::inventory
