// Scans the machine once. A child calls the driver, which takes longest; meanwhile this process
// reads everything else from /proc and /sys. Pure functions then combine the results (numbering,
// attribution).
#include "inventory/observe.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/text.hpp"
#include "inventory/attribution.hpp"
#include "inventory/drm_processes.hpp"
#include "inventory/local_processes.hpp"
#include "inventory/numbering.hpp"
#include "inventory/nvml_reader.hpp"
#include "inventory/unified_memory.hpp"
#include "system/drm_fdinfo.hpp"
#include "system/host.hpp"
#include "system/pci.hpp"
#include "vendor/amd/amd.hpp"
#include "vendor/intel/intel.hpp"
#include "vendor/opencl/opencl.hpp"
#include "vendor/other/other.hpp"
#include "vendor/sysfs/sysfs_device.hpp"

namespace berth::inventory {

namespace {

using model::Device;
using model::Snapshot;
using std::chrono::milliseconds;

/// Time limit of the search for processes that have device nodes open. It is enough for about ten
/// thousand processes. An incomplete search is better than a slow scan.
constexpr milliseconds kHolderSearch{100};
/// Time limit of the search for DRM clients. It is longer, because a device looks free if the
/// search misses a process.
constexpr milliseconds kClientSearch{500};

/// A platform that compiles its own kernels may take a second to start. A hung platform never
/// answers, and users should not have to wait longer than 2 s.
constexpr milliseconds kOpenClDeadline{2'000};

bool is_nvidia_gpu(const model::PciDevice& one) {
  constexpr std::uint16_t kNvidia = 0x10de;
  const std::uint32_t base_class = one.class_code >> 16U;
  return one.vendor == kNvidia && (base_class == 0x03 || base_class == 0x12);
}

/// Returns NVIDIA GPUs that are passed through to virtual machines, so the host's driver does not
/// list them.
std::vector<Device> given_away(const std::vector<model::PciDevice>& pci) {
  std::vector<Device> devices;
  for (const model::PciDevice& one : pci) {
    if (!is_nvidia_gpu(one) || one.driver != "vfio-pci") continue;
    Device device = sysfs::device_from(one);
    device.vendor = model::Vendor::kNvidia;
    device.vendor_name = "NVIDIA";
    device.name = one.name.empty() ? "NVIDIA GPU" : one.name;
    sysfs::mark_without_driver(device, {});
    devices.push_back(std::move(device));
  }
  return devices;
}

class Look {
 public:
  Look(const Sources& sources, const Options& options) : sources_(sources), options_(options) {}

  Snapshot take() {
    const std::vector<model::PciDevice> pci = system::scan_pci(sources_.roots);
    NvmlReader nvml(sources_, options_, pci);
    read_others(pci);
    NvmlReport report = nvml.finish();
    finish_opencl(report);
    join(std::move(report));
    if (options_.processes) attribute();
    explain_simulated_memory();
    return std::move(snapshot_);
  }

 private:
  void read_others(const std::vector<model::PciDevice>& pci) {
    const Roots& roots = sources_.roots;
    add(given_away(pci));
    add(amd::read_devices(roots, pci));
    add(intel::read_devices(roots, pci));
    start_opencl(pci);
    add(other::read_tpus(roots, pci));
    add(other::read_unmanaged(pci));
    snapshot_.host = system::read_host(roots);
    snapshot_.host.simulated = sources_.simulated;
    cpu_ = system::cpu_device(roots, snapshot_.host);
    if (options_.processes && std::any_of(others_.begin(), others_.end(), has_drm_clients))
      clients_ = system::read_drm_clients(roots, kClientSearch);
  }

  static bool is_usable(const Device& device) { return device.managed; }

  static bool has_drm_clients(const Device& device) {
    return device.managed && device.health != model::Health::kAsleep &&
           (device.vendor == model::Vendor::kAmd || device.vendor == model::Vendor::kIntel);
  }

  /// Whether this process can read all processes. Only root can read the descriptors of other
  /// users' processes.
  [[nodiscard]] bool sees_everybody() const {
    return sources_.roots.drm_proc != "/proc" || ::geteuid() == 0;
  }

  // Starts reading OpenCL devices. This is the slowest part of a scan, so by default it only runs
  // if a platform is installed and no other reader found a GPU.
  void start_opencl(const std::vector<model::PciDevice>& pci) {
    const bool gpus = std::any_of(pci.begin(), pci.end(), is_nvidia_gpu) ||
                      std::any_of(others_.begin(), others_.end(), is_usable);
    if (options_.opencl == OpenCl::kAlways || (may_ask_opencl() && !gpus))
      opencl_.emplace(sources_.opencl_library);
  }

  [[nodiscard]] bool may_ask_opencl() const {
    return options_.opencl == OpenCl::kAuto && !sources_.opencl_library.empty() &&
           !list_folder(sources_.roots.etc + "/OpenCL/vendors").empty();
  }

  /// Adds OpenCL devices that no other reader has reported.
  void finish_opencl(const NvmlReport& nvml) {
    if (opencl_ && options_.opencl == OpenCl::kAuto && !nvml.devices.empty()) opencl_.reset();
    if (!opencl_) {
      if (may_ask_opencl())
        snapshot_.notes.push_back(text("OpenCL was not queried: add {} to query it", "--opencl"));
      return;
    }
    opencl::Report report = opencl_->finish(kOpenClDeadline);
    if (report.error)
      snapshot_.notes.push_back(fmt::format("{} ({})", report.error->message, report.error->id));
    const auto known = [&](const Device& device) {
      const auto same = [&](const Device& other) {
        return other.pci_address == device.pci_address;
      };
      return !device.pci_address.empty() &&
             (std::any_of(others_.begin(), others_.end(), same) ||
              std::any_of(nvml.devices.begin(), nvml.devices.end(), same));
    };
    for (Device& device : report.devices)
      if (!known(device)) others_.push_back(std::move(device));
  }

  void add(std::vector<Device>&& devices) {
    std::move(devices.begin(), devices.end(), std::back_inserter(others_));
  }

  void join(NvmlReport&& report) {
    snapshot_.unix_milliseconds = std::chrono::duration_cast<milliseconds>(
                                      std::chrono::system_clock::now().time_since_epoch())
                                      .count();
    snapshot_.driver = std::move(report.driver);
    if (report.left_out > 0)
      snapshot_.notes.push_back(text("{} NVIDIA GPUs are ignored: Berth reads at most {}",
                                     report.left_out, report.devices.size()));
    // NVIDIA's devices come first, so that the device indices in the list of processes stay valid.
    snapshot_.devices = std::move(report.devices);
    for (Device& device : snapshot_.devices) share_host_memory(device, cpu_);
    for (Device& device : others_) share_host_memory(device, cpu_);
    std::move(others_.begin(), others_.end(), std::back_inserter(snapshot_.devices));
    snapshot_.devices.push_back(std::move(cpu_));
    if (options_.processes) {
      snapshot_.processes = std::move(report.processes);
      add_drm_processes(clients_, sees_everybody(), snapshot_.devices, snapshot_.processes);
      describe_processes();
    }
    if (options_.processes && !clients_.finished)
      for (Device& device : snapshot_.devices)
        if (has_drm_clients(device)) {
          device.processes_unknown = model::Absence::kNoAnswer;
          device.note = text("the GPU's processes could not be found in time");
        }
    note_gap();
    number_devices(snapshot_.devices, snapshot_.processes);
    sort_processes(snapshot_.processes);
  }

  /// Adds a note if the list lacks a GPU that the kernel driver has. NVML skips such a GPU, so the
  /// GPUs after it get lower numbers.
  void note_gap() {
    if (!snapshot_.host.container.empty())
      return;  // a container usually has only some of the machine's GPUs
    std::vector<std::uint32_t> minors;
    for (const Device& device : snapshot_.devices)
      if (device.vendor == model::Vendor::kNvidia && device.managed) {
        if (!device.minor_number) return;
        minors.push_back(*device.minor_number);
      }
    std::sort(minors.begin(), minors.end());
    for (std::size_t i = 0; i < minors.size(); ++i) {
      if (minors[i] == i) continue;
      snapshot_.notes.push_back(
          text("/dev/nvidia{} is a GPU that the driver does not list: it is lost or hidden from "
               "this process; later GPUs have lower numbers than usual",
               i));
      return;
    }
  }

  void describe_processes() {
    if (!clients_.finished)
      snapshot_.notes.push_back(
          text("the search for processes on AMD and Intel devices was stopped after {} ms: there "
               "may be more",
               kClientSearch.count()));
    const Roots& roots = sources_.roots;
    if (::access((roots.proc + "/self").c_str(), X_OK) != 0 && list_folder(roots.proc).empty()) {
      snapshot_.notes.push_back(
          text("{} cannot be read: only the ids of processes are shown (E0112)", roots.proc));
      if (roots.proc == "/proc")
        snapshot_.notes.push_back(
            text("run {} as root to see all details of the processes", "mount -t proc proc /proc"));
    }
    // Programs that use a simulated machine run in this PID namespace, so no pid needs translation.
    const system::PidTranslator translator =
        sources_.simulated ? system::PidTranslator(roots, system::PidView::kHost)
                           : system::PidTranslator(roots);
    foreign_ = translator.view() == system::PidView::kForeign;
    if (foreign_ && !snapshot_.processes.empty())
      snapshot_.notes.push_back(
          text("the driver reports the host's process ids, which cannot be matched to processes of "
               "this container"));
    if (options_.process_details || options_.process_users)
      fill_local(snapshot_.processes, roots, translator,
                 options_.process_details ? system::Depth::kAll : system::Depth::kUser);
  }

  /// Adds a note if a simulated device shares the host's memory, because the host is not simulated.
  void explain_simulated_memory() {
    const bool shared =
        std::any_of(snapshot_.devices.begin(), snapshot_.devices.end(), [](const Device& device) {
          return device.memory_unified && device.kind != model::DeviceKind::kCpu;
        });
    if (sources_.simulated && shared && !snapshot_.processes.empty())
      snapshot_.notes.push_back(
          text("the host is not simulated: the shared memory shown is the real machine's, and "
               "simulated processes may use more memory than it has"));
  }

  void attribute() {
    std::vector<std::pair<const Device*, std::uint64_t>> open;
    for (const Device& device : snapshot_.devices) {
      const std::uint64_t bytes = unaccounted_bytes(device, snapshot_.processes);
      if (bytes != 0) open.emplace_back(&device, bytes);
    }
    if (open.empty()) return;
    const std::vector<system::NodeHolder> holders = search_holders();
    for (const auto& [device, bytes] : open) {
      const bool from_proc = device->vendor != model::Vendor::kNvidia;
      const ListQuality quality{foreign_ && !from_proc, from_proc && !sees_everybody()};
      snapshot_.unattributed.push_back(
          explain(*device, bytes, snapshot_.processes, holders, quality));
    }
  }

  std::vector<system::NodeHolder> search_holders() {
    if (!options_.holders) return {};
    Roots roots = sources_.roots;
    if (sources_.simulated) {
      // The real /proc shows which nodes of the real machine are open, so it does not fit a
      // simulated machine. Search the simulated /proc if there is one.
      if (roots.drm_proc == roots.proc) return {};
      roots.proc = roots.drm_proc;
    }
    system::HolderSearch search =
        system::find_holders(roots, {"/dev/nvidia", "/dev/dri/renderD"}, kHolderSearch);
    if (!search.finished)
      snapshot_.notes.push_back(
          text("the search for processes that have the devices open was stopped after {} ms",
               kHolderSearch.count()));
    if (!search.all_readable)
      snapshot_.notes.push_back(
          text("this user may not see which devices other users' processes have open"));
    return std::move(search.holders);
  }

  const Sources& sources_;
  const Options& options_;
  Snapshot snapshot_;
  std::vector<Device> others_;  // devices other than NVIDIA's and the CPU
  Device cpu_;
  std::optional<opencl::Reader> opencl_;
  system::DrmSearch clients_;
  bool foreign_ = false;  // the driver's pids are those of another namespace
};

}  // namespace

Snapshot observe(const Sources& sources, const Options& options) {
  return Look(sources, options).take();
}

}  // namespace berth::inventory
