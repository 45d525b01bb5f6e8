// The file formats are described in these sources: kernel Documentation/ABI/testing/sysfs-bus-pci,
// Documentation/gpu/amdgpu (driver-misc.rst, thermal.rst),
// Documentation/ABI/testing/sysfs-driver-intel-{i915,xe}-hwmon,
// Documentation/gpu/drm-usage-stats.rst.
#include "sim/sysfs_tree.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/text_parts.hpp"

namespace berth::sim {
namespace {

namespace wire = berth::wire::sim;

/// Writes files and remembers the first failure, so that callers need no checks in between.
class Tree {
 public:
  Tree(const Folder& folder, std::string base) : folder_(folder), base_(std::move(base)) {}

  void put(std::string_view name, std::string_view text) {
    if (problem_) keep(folder_.write(base_ + "/" + std::string(name), text));
  }
  template <typename Number>
  void number(std::string_view name, Number value) {
    put(name, fmt::format("{}\n", value));
  }
  void folder(std::string_view name) {
    if (problem_) keep(folder_.make_folder(base_ + (name.empty() ? "" : "/") + std::string(name)));
  }
  void link(std::string_view name, std::string_view target) {
    if (problem_) keep(folder_.link(base_ + "/" + std::string(name), std::string(target)));
  }
  [[nodiscard]] const Status& status() const { return problem_; }

 private:
  void keep(Status status) { problem_ = std::move(status); }
  const Folder& folder_;
  std::string base_;
  Status problem_ = Done{};
};

std::string address_of(const wire::Device& d) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", d.pci_domain, d.pci_bus, d.pci_slot);
}

/// The folder of a device. If the bridges above the device are known, the folder is below the
/// bridges' folders, and /sys/bus/pci/devices contains a link to it. Real machines have the same
/// layout.
std::string device_folder(const wire::Device& d) {
  const std::string path = d.pci_path;
  return path.empty() ? "sys/bus/pci/devices/" + address_of(d)
                      : "sys/devices/" + path + "/" + address_of(d);
}

std::string link_speed(std::uint32_t generation) {
  constexpr std::array<std::string_view, 8> kSpeeds{
      {"2.5", "2.5", "5.0", "8.0", "16.0", "32.0", "64.0", "128.0"}};
  return fmt::format("{} GT/s PCIe\n", kSpeeds[generation < kSpeeds.size() ? generation : 0]);
}

void put_link(Tree& tree, const wire::Device& d) {
  // The link's files never change. So the link of a GPU that has load is shown at full speed, even
  // while the GPU is idle.
  const bool is_idle = d.base_load == 0 && d.process_count == 0;
  tree.put("current_link_speed",
           link_speed(is_idle ? d.pcie_generation_idle : d.pcie_generation_max));
  tree.put("max_link_speed", link_speed(d.pcie_generation_max));
  tree.number("current_link_width", d.pcie_width);
  tree.number("max_link_width", d.pcie_width_max);
}

void put_pci(Tree& tree, const wire::Device& d, bool bound) {
  tree.folder("power");
  tree.put("vendor", fmt::format("0x{:04x}\n", d.pci_id & 0xffff));
  tree.put("device", fmt::format("0x{:04x}\n", d.pci_id >> 16U));
  tree.put("subsystem_vendor", fmt::format("0x{:04x}\n", d.pci_subsystem & 0xffff));
  tree.put("subsystem_device", fmt::format("0x{:04x}\n", d.pci_subsystem >> 16U));
  tree.put("class", fmt::format("0x{:06x}\n", d.pci_class));
  tree.number("numa_node", d.numa_node);
  tree.put("local_cpulist", std::string(d.local_cpus) + "\n");
  if (d.unified == 0 || d.vendor == wire::kNvidia)
    put_link(tree, d);  // integrated GPUs have no PCIe link
  tree.put("power/runtime_status", d.asleep != 0 ? "suspended\n" : "active\n");
  tree.put("power/control", d.asleep != 0 ? "auto\n" : "on\n");
  tree.put("power_state", d.asleep != 0 ? "D3cold\n" : "D0\n");
  if (!bound) return;
  std::string up = "../../";
  if (const std::string path = d.pci_path; !path.empty()) {
    for (std::size_t i = 0; i < split(path, '/').size(); ++i) up += "../";
    up += "bus/pci/";
  }
  tree.link("driver", fmt::format("{}drivers/{}", up, d.kernel_driver));
}

void put_drm(Tree& tree, std::uint32_t number) {
  for (const std::string& name :
       {fmt::format("card{}", number), fmt::format("renderD{}", 128 + number)}) {
    tree.folder("drm/" + name);
    tree.link("drm/" + name + "/device", "../..");
  }
}

void put_amd_readings(Tree& tree, const wire::Moment& at, bool first) {
  const wire::Device& d = at.device();
  const std::uint64_t used = at.memory_used() + d.memory_reserved;
  if (first) {
    tree.folder("hwmon/hwmon0");
    tree.put("hwmon/hwmon0/name", "amdgpu\n");
    tree.put("hwmon/hwmon0/temp1_label", "edge\n");
    tree.put("hwmon/hwmon0/temp2_label", "junction\n");
    tree.put("hwmon/hwmon0/freq1_label", "sclk\n");
    tree.put("hwmon/hwmon0/freq2_label", "mclk\n");
    tree.number("hwmon/hwmon0/power1_cap", std::uint64_t{d.power_limit} * 1000);
    tree.number("hwmon/hwmon0/temp1_crit", d.temperature_slowdown * 1000);
    tree.put("unique_id", fmt::format("{:016x}\n", wire::mix(d.energy_base, 7)));
    tree.put("product_name", std::string(d.name) + "\n");
    tree.number("mem_info_vram_total", d.memory_total);
    tree.number("mem_info_gtt_total", std::uint64_t{16} << 30U);
    tree.number("mem_info_gtt_used", std::uint64_t{24} << 20U);
  }
  tree.number("gpu_busy_percent", at.utilization());
  tree.number("mem_busy_percent", at.memory_utilization());
  tree.number("mem_info_vram_used", used);
  tree.number("hwmon/hwmon0/temp1_input", at.temperature() * 1000);
  tree.number("hwmon/hwmon0/temp2_input", (at.temperature() + 8) * 1000);
  tree.number("hwmon/hwmon0/power1_average", std::uint64_t{at.power()} * 1000);
  tree.number("hwmon/hwmon0/freq1_input", std::uint64_t{at.clock_graphics()} * 1'000'000);
  tree.number("hwmon/hwmon0/freq2_input", std::uint64_t{at.clock_memory()} * 1'000'000);
  if (d.fans > 0) tree.number("hwmon/hwmon0/pwm1", at.fan_percent() * 255 / 100);
  tree.put("pp_dpm_sclk", fmt::format("0: {}Mhz\n1: {}Mhz *\n2: {}Mhz\n", d.clock_graphics_idle,
                                      at.clock_graphics(), d.clock_graphics_max));
  tree.put("pp_dpm_mclk", fmt::format("0: {}Mhz\n1: {}Mhz *\n2: {}Mhz\n", d.clock_memory_idle,
                                      at.clock_memory(), d.clock_memory_max));
}

void put_intel_readings(Tree& tree, const wire::Moment& at, std::uint32_t card, bool first) {
  const wire::Device& d = at.device();
  const bool xe = std::string_view(d.kernel_driver) == "xe";
  const std::string clocks = xe ? "tile0/gt0/freq0/" : fmt::format("drm/card{}/gt_", card);
  const std::string_view unit = xe ? "" : "_mhz";
  if (first && xe) tree.folder("tile0/gt0/freq0");
  if (first) {
    tree.number(fmt::format("{}min_freq{}", clocks, unit), d.clock_graphics_idle);
    tree.number(fmt::format("{}max_freq{}", clocks, unit), d.clock_graphics_max);
  }
  tree.number(fmt::format("{}act_freq{}", clocks, unit), at.clock_graphics());
  tree.number(fmt::format("{}cur_freq{}", clocks, unit), at.clock_graphics());
  if (d.unified != 0) return;  // an integrated GPU has no sensors
  if (first) {
    tree.folder("hwmon/hwmon0");
    tree.put("hwmon/hwmon0/name", std::string(d.kernel_driver) + "\n");
    tree.number("hwmon/hwmon0/power1_max", std::uint64_t{d.power_limit} * 1000);
  }
  tree.number("hwmon/hwmon0/energy1_input", at.energy() * 1000);
  tree.number("hwmon/hwmon0/temp2_input", at.temperature() * 1000);
  tree.number("hwmon/hwmon0/fan1_input", 600 + at.fan_percent() * 20);
}

std::string fdinfo(const wire::Moment& at, std::uint32_t index, const wire::Process& process) {
  const wire::Device& d = at.device();
  const std::uint64_t kib = at.process_memory(index) >> 10U;
  const std::uint64_t busy =
      at.time() / 100 * process.activity / 100 * 85;  // nanoseconds that never decrease
  const std::string_view driver = d.kernel_driver;
  std::string text = fmt::format(
      "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t{}\ndrm-driver:\t{}\ndrm-client-id:\t{}\ndrm-"
      "pdev:\t{}\n",
      1000 + index, driver, index + 1, address_of(d));
  if (driver == "amdgpu")
    return text +
           fmt::format(
               "drm-total-vram:\t{0} KiB\ndrm-resident-vram:\t{0} KiB\ndrm-memory-vram:\t{0} KiB\n"
               "drm-memory-gtt:\t2048 KiB\ndrm-engine-gfx:\t{1} ns\ndrm-engine-compute:\t{2} ns\n",
               kib, (process.use & wire::kGraphics) != 0 ? busy : 0,
               (process.use & wire::kGraphics) != 0 ? 0 : busy);
  if (driver == "xe")
    return text +
           fmt::format(
               "drm-total-vram0:\t{0} KiB\ndrm-resident-vram0:\t{0} KiB\ndrm-cycles-ccs:\t{1}\n"
               "drm-total-cycles-ccs:\t{2}\n",
               kib, busy * 19 / 1000, at.time() * 19 / 1000);
  return text + fmt::format(
                    "drm-total-system0:\t{0} KiB\ndrm-resident-system0:\t{0} "
                    "KiB\ndrm-engine-render:\t{1} ns\n",
                    kib, busy);
}

void put_processes(Tree& tree, const wire::Moment& at, bool first) {
  at.for_processes([&](std::uint32_t i, const wire::Process& process) {
    const std::string folder = fmt::format("{}/fdinfo", process.pid);
    if (first) tree.folder(folder);
    tree.put(fmt::format("{}/{}", folder, 20 + i), fdinfo(at, i, process));
  });
}

/// Writes the values that change. Devices of AMD and Intel are DRM cards, in the order of the
/// machine file.
Status put_moving(const Folder& folder, const wire::View& view, std::uint64_t now, bool first) {
  std::uint32_t card = 0;
  for (std::uint32_t i = 0; i < view.state().devices; ++i) {
    const wire::Moment at(view, i, now);
    if (at.device().vendor == wire::kNvidia) continue;
    Tree tree(folder, device_folder(at.device()));
    if (first) put_drm(tree, card);
    if (at.device().vendor == wire::kAmd) put_amd_readings(tree, at, first);
    if (at.device().vendor == wire::kIntel) put_intel_readings(tree, at, card, first);
    if (!tree.status()) return tree.status();
    Tree processes(folder, "proc");
    put_processes(processes, at, first);
    if (!processes.status()) return processes.status();
    ++card;
  }
  return Done{};
}

Status put_card_links(const Folder& folder, const wire::View& view) {
  Tree tree(folder, "sys/class/drm");
  tree.folder("");
  std::uint32_t card = 0;
  for (std::uint32_t i = 0; i < view.state().devices; ++i) {
    const wire::Device& d = view.device(i);
    if (d.vendor == wire::kNvidia) continue;
    for (const std::string& name :
         {fmt::format("card{}", card), fmt::format("renderD{}", 128 + card)})
      tree.link(name, fmt::format("../../bus/pci/devices/{}/drm/{}", address_of(d), name));
    ++card;
  }
  return tree.status();
}

/// Writes the dead process for the fault `zombie` into /proc. One of its threads still has the
/// device open. Before the fault begins, the process has no device open.
void put_dead(Tree& proc, const std::string& node, std::uint32_t device) {
  constexpr std::uint32_t kFirstDead = 6'000'000;  // above the greatest pid that the kernel allows
  const std::uint32_t pid = kFirstDead + 2 * device, thread = pid + 1;
  proc.folder(fmt::format("{}/fd", pid));
  proc.folder(fmt::format("{}/task/{}/fd", pid, thread));
  proc.link(fmt::format("{}/task/{}/fd/9", pid, thread), node);
  proc.put(fmt::format("{}/stat", pid),
           fmt::format("{} (python) Z 1 {} {} 0 -1 4194308 0 0 0 0 0 0 0 0 20 0 2 0 0 0 0\n", pid,
                       pid, pid));
  proc.put(fmt::format("{}/status", pid),
           fmt::format("Name:\tpython\nState:\tZ (zombie)\nUid:\t{0}\t{0}\t{0}\t{0}\n", getuid()));
}

void put_dead_holders(Tree& proc, const wire::View& view) {
  std::uint32_t card = 0;
  for (std::uint32_t i = 0; i < view.state().devices; ++i) {
    const wire::Device& d = view.device(i);
    const bool nvidia = d.vendor == wire::kNvidia;
    const std::string node = nvidia ? fmt::format("/dev/nvidia{}", d.minor)
                                    : fmt::format("/dev/dri/renderD{}", 128 + card);
    if (!nvidia) ++card;
    if (wire::fault_of(view, wire::kZombie, i, ~std::uint64_t{0}) != nullptr)
      put_dead(proc, node, i);
  }
}

}  // namespace

bool sysfs_moves(const wire::View& view) {
  if (view.state().frozen >= 0) return false;
  for (std::uint32_t i = 0; i < view.state().devices; ++i)
    if (view.device(i).vendor != wire::kNvidia) return true;
  return false;
}

void refresh_sysfs(const Folder& folder, const wire::View& view, std::uint64_t now) {
  static_cast<void>(put_moving(folder, view, now, false));
}

Status write_sysfs(const Folder& folder, const wire::View& view, bool nvidia_bound) {
  Tree root(folder, "sys");
  for (const char* name : {"bus/pci/devices", "bus/pci/drivers", "class", "devices"})
    root.folder(name);
  root.link("devices/system", "/sys/devices/system");
  root.link("fs", "/sys/fs");
  root.link("kernel", "/sys/kernel");
  Tree proc(folder, "proc");
  proc.folder("");
  put_dead_holders(proc, view);
  if (!root.status()) return root.status();
  if (!proc.status()) return proc.status();
  for (std::uint32_t i = 0; i < view.state().devices; ++i) {
    const wire::Device& d = view.device(i);
    if (d.on_bus == 0) continue;
    root.folder(std::string("bus/pci/drivers/") + d.kernel_driver);
    Tree tree(folder, device_folder(d));
    tree.folder("");
    if (d.pci_path[0] != '\0')
      root.link("bus/pci/devices/" + address_of(d),
                "../../../" + device_folder(d).substr(std::string_view("sys/").size()));
    put_pci(tree, d, d.vendor != wire::kNvidia || nvidia_bound);
    if (!tree.status()) return tree.status();
  }
  if (auto links = put_card_links(folder, view); !links) return links;
  const std::uint64_t now =
      view.state().frozen >= 0 ? static_cast<std::uint64_t>(view.state().frozen) : 0;
  return put_moving(folder, view, now, true);
}

}  // namespace berth::sim
