// Rules RT01, RT03 to RT11 and RT14: the GPU works, but programs are slow, fail, or lack memory.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

constexpr std::uint64_t kMib = 1ULL << 20, kGib = 1ULL << 30;

std::string gib(std::uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(kGib));
}

std::string named(const StuckProcess& one) {
  return fmt::format("{} ({})", one.pid, printable(one.name));
}

/// Adds to the finding which GPU node a hung process has open, and how to end the process.
void add_stuck(Finding& finding, const StuckProcess& one) {
  std::string line =
      one.state == 'Z'
          ? text("process {} has ended, but its parent {} has not reaped it (state Z)", named(one),
                 one.parent)
          : text("process {} is blocked in the kernel and cannot be killed (state D)", named(one));
  if (!one.node.empty())
    line += ": " + (one.state == 'Z' ? text("one of its threads has {} open", one.node)
                                     : text("it has opened {}", one.node));
  finding.evidence.push_back(std::move(line));
  if (one.state == 'Z' && one.node.empty() && one.parent > 1) {
    finding.fix.insert(finding.fix.begin(),
                       {fmt::format("sudo kill {}", one.parent),
                        text("ends the parent process, so that the zombie is reaped")});
    return;
  }
  if (one.state == 'Z')
    finding.fix.insert(finding.fix.begin(),
                       {fmt::format("sudo kill -9 {}", one.pid),
                        text("ends the process's threads, unless they are blocked in the kernel")});
  finding.fix.push_back(
      {"sudo reboot",
       text("needed only if a process is blocked in the kernel; sudo dmesg may show the reason")});
}

/// The log line about a process that has been blocked for minutes; "" if there is none. A short
/// block is normal.
std::string hung_line(Examination& look, int pid) {
  const auto& log = look.facts.machine.kernel_log;
  return log ? newest_line(*log, {fmt::format(":{} blocked for more than", pid)}) : "";
}

/// Reports hung processes that hold a GPU, even if NVML does not list them.
void stuck_holders(Examination& look) {
  const auto* stuck = look.see(look.facts.machine.stuck);
  if (stuck == nullptr) return;
  for (const StuckProcess& one : *stuck) {
    const std::string hung = hung_line(look, one.pid);
    if (one.node.empty() || (one.state == 'D' && hung.empty())) continue;
    Finding& finding = look.found(
        text("process {} cannot be killed, and keeps its memory on {}", named(one), one.node));
    add_stuck(finding, one);
    if (!hung.empty()) finding.evidence.push_back(quoted_line(hung));
  }
}

void memory_held(Examination& look) {
  // Containers and WSL hide other processes, so memory would appear to be in use without a process.
  const auto& kind = look.facts.container.kind;
  if (look.see(kind) != nullptr || kind.is_unreadable() || look.facts.machine.in_container ||
      look.facts.machine.is_wsl)
    return;
  for (const GpuAnswer& gpu : answers(look)) {
    const auto* used = look.see(gpu.memory_used_bytes);
    const auto* named = look.see(gpu.processes_memory_bytes);
    const auto* total = look.see(gpu.memory_total_bytes);
    if (used == nullptr || named == nullptr || total == nullptr) continue;
    if (gpu.mig_enabled.value_or(false) || gpu.vgpu_licence) continue;
    // The driver itself uses a few hundred MiB, and more on larger GPUs. Allow 1 GiB, or 5 % of the
    // memory if that is more.
    const std::uint64_t own = std::max(kGib, *total / 20);
    if (*used <= *named + own) continue;
    Finding& finding = look.found(text("{} of GPU {} are in use, but no visible process holds them",
                                       gib(*used - *named), gpu.pci_address));
    finding.evidence.push_back(
        text("NVML: {} used, {} by the processes that it lists", gib(*used), gib(*named)));
    finding.fix.push_back(
        {"sudo fuser -v /dev/nvidia*", text("shows which processes hold the memory: end those that "
                                            "a killed program left behind")});
    finding.fix.push_back(
        {fmt::format("sudo nvidia-smi --gpu-reset -i {}", pasted(gpu.pci_address)),
         text("only if no process holds the memory: it also ends every program on the GPU")});
    for (const StuckProcess& one : look.facts.machine.stuck.value_or({}))
      if (!one.node.empty() || one.unknown) add_stuck(finding, one);
  }
  if (look.findings().empty()) stuck_holders(look);
}

void throttle(Examination& look) {
  constexpr auto kGrave =
      std::to_array<std::string_view>({"hw_thermal", "sw_thermal", "hw_power_brake"});
  for (const GpuAnswer& gpu : answers(look)) {
    const auto* reasons = look.see(gpu.throttle);
    if (reasons == nullptr) continue;
    const bool busy = gpu.utilization_percent.value_or(100) >= 10;
    std::string grave;
    for (const std::string& reason : *reasons)
      if (std::find(kGrave.begin(), kGrave.end(), reason) != kGrave.end() ||
          (reason == "hw_slowdown" && busy))
        grave += (grave.empty() ? "" : ", ") + reason;
    if (grave.empty()) continue;
    const bool heat = grave.find("thermal") != std::string::npos;
    Finding& finding =
        look.found(heat ? text("GPU {} is slowed down by heat", gpu.pci_address)
                        : text("GPU {} is slowed down by its power supply", gpu.pci_address));
    finding.evidence.push_back(fmt::format("NVML: {}", grave));
    if (gpu.utilization_percent)
      finding.evidence.push_back(text("at {} % GPU utilization", *gpu.utilization_percent));
    finding.fix.push_back(
        {"", heat ? text("clean fans and filters; in a rack, check that air flows over the card")
                  : text("check the power supply, its cables and the card's connectors")});
    finding.fix.push_back(
        {fmt::format("sudo nvidia-smi -i {} -pl WATTS", pasted(gpu.pci_address)),
         text("sets a lower power limit: the GPU is slower, but its clock is steady")});
  }
}

void power_limit(Examination& look) {
  for (const GpuAnswer& gpu : answers(look)) {
    const auto* limit = look.see(gpu.power_limit_milliwatts);
    const auto* usual = look.see(gpu.power_limit_default_milliwatts);
    if (limit == nullptr || usual == nullptr || *limit >= *usual) continue;
    Finding& finding = look.found(text("the power limit of GPU {} is {} W, its default is {} W",
                                       gpu.pci_address, *limit / 1000, *usual / 1000));
    finding.fix.push_back(
        {fmt::format("sudo nvidia-smi -i {} -pl {}", pasted(gpu.pci_address), *usual / 1000), ""});
  }
}

void clock_lock(Examination& look) {
  for (const GpuAnswer& gpu : answers(look)) {
    const auto* locked = look.see(gpu.clock_graphics_locked_mhz);
    const auto* most = look.see(gpu.clock_graphics_max_mhz);
    if (locked == nullptr || most == nullptr || *locked >= *most) continue;
    Finding& finding = look.found(
        text("the clock of GPU {} is locked to {} MHz of {}", gpu.pci_address, *locked, *most));
    finding.fix.push_back({fmt::format("sudo nvidia-smi -i {0} -rgc && sudo nvidia-smi -i {0} -rac",
                                       pasted(gpu.pci_address)),
                           ""});
  }
}

void shm_full(Examination& look) {
  const auto* total = look.see(look.facts.process.shm_total_bytes);
  const auto* used = look.see(look.facts.process.shm_used_bytes);
  if (total == nullptr || used == nullptr || *total == 0 || *used <= *total / 10 * 9) return;
  Finding& finding =
      look.found(text("/dev/shm is full: {} of {} MiB; the next DataLoader worker will be killed",
                      *used / kMib, *total / kMib));
  finding.fix.push_back(
      {"ls -lS /dev/shm | head", text("delete files that programs have left there")});
  finding.fix.push_back({"sudo mount -o remount,size=16G /dev/shm", text("enlarges /dev/shm")});
}

/// What programs write to a folder that a variable names, and the least space that this needs.
struct Need {
  std::string_view variable;
  std::uint64_t bytes;
  const char* what;
};
constexpr auto kNeeds = std::to_array<Need>({
    // TMPDIR needs space for the intermediate files that nvcc writes for one extension. The cache
    // folders need space for compiled kernels.
    {"TMPDIR", 64 * kMib, msgid("a compiler's temporary files")},
    {"TRITON_CACHE_DIR", 64 * kMib, msgid("compiled kernels")},
    {"TORCHINDUCTOR_CACHE_DIR", 64 * kMib, msgid("compiled kernels")},
    {"VLLM_CACHE_ROOT", 64 * kMib, msgid("compiled kernels")},
    {"HOME", 100 * kMib, msgid("compiled kernels and a package's wheel")},
    {"XDG_CACHE_HOME", 100 * kMib, msgid("compiled kernels and a package's wheel")},
    {"HF_HOME", 200 * kMib, msgid("a small model")},
    {"/var/lib/docker", 200 * kMib, msgid("a layer of an image")},
});

/// Reports file systems without space, because writes then fail, often with misleading messages.
/// Only the free bytes count, since a nearly full disk may still have enough.
void disk_full(Examination& look) {
  const auto* spaces = look.see(look.facts.process.disk_space);
  if (spaces == nullptr || (seen_gpus(look).empty() && !look.facts.python.interpreter)) return;
  for (const DiskSpace& space : *spaces) {
    const bool no_files = space.free_files && *space.free_files == 0;
    const auto* need = std::find_if(kNeeds.begin(), kNeeds.end(),
                                    [&](const Need& one) { return one.variable == space.what; });
    if ((need == kNeeds.end() || space.free_bytes >= need->bytes) && !no_files) continue;
    const bool is_docker = space.what.starts_with('/');
    Finding& finding = look.found(
        no_files
            ? text("no file can be created in {}: its file system has no inodes left",
                   printable(space.path))
            : text("{} MiB are left in {}, but {} may need {} MiB or more", space.free_bytes / kMib,
                   printable(space.path), tr(need->what), need->bytes / kMib));
    // With some MiB left, the program may succeed. With less than 1 MiB, writes fail.
    if (no_files || space.free_bytes < kMib) finding.severity = Severity::kError;
    if (is_docker) finding.severity = Severity::kWarning;
    finding.evidence = {
        fmt::format("statvfs({}): {} bytes", printable(space.path), space.free_bytes),
        "https://github.com/state-spaces/mamba/issues/164"};
    if (is_docker) {
      finding.fix.push_back({"docker system df && docker system prune",
                             text("removes unused images, layers and containers")});
      return;
    }
    finding.evidence.push_back(text("the variable {} names this folder", space.what));
    const bool has_caches = space.what == "HOME" || space.what == "XDG_CACHE_HOME";
    finding.fix.push_back({std::string(has_caches ? "pip cache purge; " : "") +
                               "du -xh --max-depth=2 " + pasted(space.path) +
                               " 2>/dev/null | sort -h | tail",
                           text("shows which folders use the space")});
    finding.fix.push_back({fmt::format("export {}=/path/with/room", space.what),
                           space.what == "HOME"
                               ? text("or set only HF_HOME, XDG_CACHE_HOME or TRITON_CACHE_DIR")
                               : ""});
    return;
  }
}

/// Reports a low limit for the address space. CUDA reserves address space for the memory of the
/// host and of all GPUs, even for GPUs that are not used.
void address_space(Examination& look) {
  const auto* most = look.see(look.facts.process.address_space_limit_bytes);
  if (most == nullptr) return;
  std::uint64_t wanted = 0;
  for (const GpuAnswer& gpu : answers(look)) wanted += gpu.memory_total_bytes.value_or(0);
  if (*most >= wanted) return;
  Finding& finding =
      look.found(text("this process may use only {} of address space, but CUDA must reserve more "
                      "than the GPUs' {}, so CUDA cannot start",
                      gib(*most), gib(wanted)));
  finding.severity = Severity::kError;
  finding.evidence = {fmt::format("RLIMIT_AS: {}", *most),
                      "https://github.com/nicolasprevot/GpuShareSat/issues/6"};
  finding.fix.push_back(
      {"ulimit -v unlimited", text("in the shell that starts the program; fails if there is also a "
                                   "hard limit (ulimit -Hv)")});
  finding.fix.push_back(
      {fmt::format("qsub -l h_vmem={}G …", (2 * wanted) >> 30),
       text("a scheduler sets this limit from the memory that the job requests (h_vmem, pvmem): "
            "request more than GPUs and host have together; without a scheduler, see the lines "
            "with “as” in /etc/security/limits.conf")});
}

void open_files(Examination& look) {
  address_space(look);
  constexpr std::uint64_t kUsual = 1024;
  const auto* files = look.see(look.facts.process.open_files_limit);
  if (files != nullptr && *files < kUsual) {
    Finding& finding = look.found(
        text("this process may open {} files only; DataLoader workers need more", *files));
    finding.fix.push_back(
        {"ulimit -n \"$(ulimit -Hn)\"", text("in the shell that starts the program")});
  }
  const auto* cpus = look.see(look.facts.process.cpus);
  if (cpus == nullptr) return;
  // The import of NumPy and PyTorch loads up to four libraries that each start one thread per core.
  const std::uint64_t wanted = 4 * cpus->size() + 32;
  for (const auto* fact :
       {&look.facts.process.cgroup_processes_limit, &look.facts.process.processes_limit}) {
    const auto* most = look.see(*fact);
    if (most == nullptr || *most >= wanted) continue;
    Finding& finding = look.found(
        text("at most {} processes and threads are allowed, on {} cores", *most, cpus->size()));
    finding.evidence.push_back(fmt::format(
        "{}: {}",
        fact == &look.facts.process.processes_limit ? "RLIMIT_NPROC" : "pids.max - pids.current",
        *most));
    finding.fix.push_back({"OMP_NUM_THREADS=4 …", text("or raise the limit: ulimit -u, or for a "
                                                       "container --pids-limit")});
    return;
  }
}

void peers_unsupported(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  const auto* pairs = look.see(look.facts.driver.peer_pairs_unsupported);
  if (pairs == nullptr || pairs->empty()) return;
  Finding& finding = look.found(
      text("no direct transfers (P2P) between the GPUs {}: they go through the host's memory",
           printable(fmt::format("{}", fmt::join(*pairs, ", ")))));
  finding.evidence.push_back(
      text("NVML reports this for each of these pairs; GeForce cards usually have no P2P"));
}

void display_gpu(Examination& look) {
  const auto& gpus = answers(look);
  for (const GpuAnswer& gpu : gpus) {
    const bool* display = look.see(gpu.display_active);
    if (display == nullptr || !*display || gpus.size() < 2) continue;
    Finding& finding = look.found(text(
        "GPU {} also drives the desktop, which uses some of its memory and time", gpu.pci_address));
    finding.fix.push_back({"berth run --gpus 1 -- python …", text("uses a free GPU")});
  }
}

/// Reports an Intel card whose memory BAR, the largest of its six BARs, is smaller than the memory.
/// With the driver xe, Intel's runtime rejects such a card; with i915, the card works, but slowly.
void intel_bar_small(Examination& look) {
  for (const PciFunction& gpu : cards_on_bus(look, kVendorIntel)) {
    const auto* sizes = look.see(gpu.bar_sizes);
    if (sizes == nullptr || sizes->empty()) continue;
    const std::uint64_t window = *std::max_element(
        sizes->begin(),
        sizes->begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(sizes->size(), 6)));
    if (window == 0 || window > 256 * kMib) continue;
    const bool by_xe = gpu.driver.value_or("") == "xe";
    Finding& finding = look.found(
        by_xe ? text("the host can address only {} MiB at a time of the memory of the Intel GPU "
                     "{}; with the xe driver, Level Zero and OpenCL ignore such a card",
                     window / kMib, gpu.address)
              : text("the host can address only {} MiB at a time of the memory of the Intel GPU {}",
                     window / kMib, gpu.address));
    if (by_xe) finding.severity = Severity::kError;
    finding.evidence = {fmt::format("/sys/bus/pci/devices/{}/resource", gpu.address),
                        "https://github.com/intel/compute-runtime/issues/997"};
    finding.fix.push_back({"", text("in the firmware setup turn on Above 4G Decoding and Resizable "
                                    "BAR, and turn off the compatibility mode (CSM); a virtual "
                                    "machine needs a PCI address window that is as large")});
  }
}

void bar1_small(Examination& look) {
  intel_bar_small(look);
  constexpr std::uint64_t kBig = 16 * kGib;
  for (const GpuAnswer& gpu : answers(look)) {
    const auto* bar = look.see(gpu.bar1_bytes);
    const auto* total = look.see(gpu.memory_total_bytes);
    if (bar == nullptr || total == nullptr || *bar > 256 * kMib || *total < kBig) continue;
    Finding& finding =
        look.found(text("the host can address only {} MiB of the {} of GPU {} at once (BAR1)",
                        *bar / kMib, gib(*total), gpu.pci_address));
    finding.fix.push_back(
        {"", text("enable Resizable BAR in the firmware setup, if the card supports it")});
  }
}

/// The variables that show that the job has ranks on other machines; "" if there are none.
std::string distributed_by(Examination& look) {
  const auto& process = look.facts.process;
  const auto number = [&](const char* name) {
    const auto value = process.variable(name);
    const std::string* word = look.see(value);
    return word == nullptr ? 0 : to_number(*word).value_or(0);
  };
  for (const char* name :
       {"SLURM_JOB_NUM_NODES", "SLURM_NNODES", "NNODES", "PET_NNODES", "GROUP_WORLD_SIZE"})
    if (number(name) > 1) return fmt::format("{}={}", name, number(name));
  if (const auto local = number("LOCAL_WORLD_SIZE"); local > 0 && number("WORLD_SIZE") > local)
    return fmt::format("WORLD_SIZE={}, LOCAL_WORLD_SIZE={}", number("WORLD_SIZE"), local);
  const auto master = process.variable("MASTER_ADDR");
  if (master && *master != "localhost" && !master->starts_with("127.") && *master != "::1")
    return "MASTER_ADDR=" + printable(*master);
  return "";
}

void rendezvous(Examination& look) {
  const std::string because = distributed_by(look);
  if (because.empty()) return;
  const std::string* name = look.see(look.facts.machine.host_name);
  const std::string* address = look.see(look.facts.machine.host_name_address);
  if (name == nullptr || address == nullptr) return;
  if (!address->starts_with("127.") && *address != "::1") return;
  Finding& finding = look.found(
      text("this machine's host name resolves to {}; other machines cannot reach this rank there",
           printable(*address)));
  finding.evidence.push_back(
      fmt::format("/etc/hosts: {} {}", printable(*address), printable(*name)));
  finding.evidence.push_back(because);
  finding.fix.push_back({"export GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME=eth0",
                         text("replace eth0 with the interface that reaches the other machines; "
                              "ip -br addr lists the interfaces")});
  finding.fix.push_back(
      {"sudoedit /etc/hosts", text("map the host name to the machine's real address")});
}

constexpr auto kRuntimeRules = std::to_array<Rule>({
    {"RT01", Layer::kRuntime, Severity::kError, true,
     msgid("GPU memory in use without a visible process"), "", memory_held},
    {"RT03", Layer::kRuntime, Severity::kWarning, true, msgid("a GPU slowed down by heat or power"),
     "", throttle},
    {"RT04", Layer::kRuntime, Severity::kInfo, false, msgid("a lowered power limit"), "",
     power_limit},
    {"RT05", Layer::kRuntime, Severity::kInfo, false, msgid("a locked clock"), "", clock_lock},
    {"RT06", Layer::kRuntime, Severity::kWarning, false, msgid("a full /dev/shm"), "", shm_full},
    {"RT14", Layer::kRuntime, Severity::kWarning, true,
     msgid("no disk space where programs store compiled and downloaded files"), "", disk_full},
    {"RT07", Layer::kRuntime, Severity::kWarning, false,
     msgid("low limits for address space, files, processes and threads"), "", open_files},
    {"RT08", Layer::kRuntime, Severity::kInfo, false, msgid("GPUs without direct transfers"), "",
     peers_unsupported},
    {"RT09", Layer::kRuntime, Severity::kInfo, false, msgid("a GPU that also drives the desktop"),
     "", display_gpu},
    {"RT10", Layer::kRuntime, Severity::kInfo, true,
     msgid("a GPU with a small window for the host (BAR1)"), "", bar1_small},
    {"RT11", Layer::kRuntime, Severity::kError, true,
     msgid("a host name that resolves to a loopback address"), "", rendezvous},
});

}  // namespace

std::span<const Rule> runtime_rules() {
  return kRuntimeRules;
}

}  // namespace berth::doctor
