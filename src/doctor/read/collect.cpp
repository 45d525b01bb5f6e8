#include "doctor/read/collect.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/read/bundle_json.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/cuda_init.hpp"
#include "doctor/read/kernel_log.hpp"
#include "doctor/read/live.hpp"
#include "doctor/read/other_process.hpp"
#include "doctor/read/process.hpp"
#include "doctor/read/silent_mounts.hpp"
#include "doctor/tree/bundle.hpp"
#include "doctor/tree/recorded_machine.hpp"
#include "inventory/observe.hpp"

namespace berth::doctor {

namespace {

/// The doctor waits this long for mounts to respond, and does not access mounts that take longer.
/// Programs that access such a mount also have to wait.
constexpr std::chrono::milliseconds kMountsDeadline{1500};

bool a_gpu_sleeps(const Tree& tree) {
  const auto functions = collect_pci(tree).value_or({});
  return std::any_of(functions.begin(), functions.end(),
                     [](const PciFunction& one) { return one.is_nvidia_gpu() && one.is_asleep(); });
}

/// Queries NVML and CUDA in parallel. If a GPU sleeps, CUDA is not queried, because it would wake
/// the GPU.
DriverAnswers ask_both(const Tree& tree) {
  if (a_gpu_sleeps(tree)) {
    DriverAnswers answers = ask_driver(true);
    answers.cuda_init =
        Unreadable{std::string(tr("cuInit (not called, because a GPU is asleep)")), 0};
    return answers;
  }
  CudaInit cuda;
  DriverAnswers answers = ask_driver(false);
  answers.cuda_init = cuda.finish();
  return answers;
}

}  // namespace

Tree answering_tree() {
  Tree tree("/");
  MountsAsked mounts("/proc/self", "", own_environment());
  for (std::string& one : mounts.finish(kMountsDeadline)) tree.silence(std::move(one));
  return tree;
}

Sources this_machine(Depth depth) {
  Sources sources;
  // Tests the mounts while ask_both() queries the driver.
  MountsAsked mounts("/proc/self", "", own_environment());
  // A simulated machine may have its own /sys, but it has no kernel log.
  const inventory::Sources seen = inventory::Sources::from_environment();
  if (seen.simulated) {
    if (seen.roots.sys != "/sys") sources.tree.mount("/sys", seen.roots.sys);
    sources.kernel_log = Unreadable{std::string(tr("the simulated machine has no kernel log")), 0};
    // Hides the real machine's files that would contradict the simulated one.
    for (const char* path :
         {"/proc/modules", "/proc/driver/nvidia/version", "/proc/driver/nvidia/params", "/proc",
          "/sys/module/nvidia/version", "/lib/modules", "/etc/modprobe.d", "/dev",
          "/usr/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1",
          "/usr/lib/x86_64-linux-gnu/libze_loader.so.1", "/lib/firmware/nvidia",
          "/usr/bin/nvidia-modprobe", "/usr/bin/nv-fabricmanager", "/run/reboot-required.pkgs",
          "/proc/cmdline"})
      sources.tree.add_special(path, {std::nullopt, ENODATA});
    // The simulated machine is not a container, even if this one is.
    for (const char* path : {"/.dockerenv", "/run/.containerenv", "/.singularity.d"})
      sources.tree.add_special(path, {std::nullopt, ENOENT});
  } else {
    sources.kernel_log = read_kernel_log();
  }
  sources.driver = depth == Depth::kStatic ? driver_not_asked()
                   : seen.simulated        ? ask_driver(a_gpu_sleeps(sources.tree))
                                           : ask_both(sources.tree);
  for (std::string& one : mounts.finish(kMountsDeadline)) sources.tree.silence(std::move(one));
  sources.process = own_process(sources.tree);
  // The simulated machine has another number of cores.
  if (seen.simulated) sources.process.cpus = Unreadable{"sched_getaffinity", ENODATA};
  sources.python = default_python(sources.tree, sources.process.environment);
  return sources;
}

Result<Sources> of_process(std::int64_t pid, Depth depth) {
  auto process = other_process(pid);
  if (!process) return std::move(process).error();
  Sources sources = this_machine(depth);
  // A process in a container has other files, but the same kernel. The container may hide parts of
  // /proc and /sys, so these two are read from Berth's own mounts.
  if (Tree own(process->root); !process->same_files && own.exists("/")) {
    for (std::string& one : process->silent) own.silence(std::move(one));
    own.mount("/proc", "/proc");
    own.mount("/sys", "/sys");
    sources.tree = std::move(own);
  }
  sources.process = std::move(process->facts);
  sources.python = process->program;
  return sources;
}

namespace {

/// The documents of a bundle, by name. If the bundle is a folder, they are read from its files.
class Parts {
 public:
  explicit Parts(const std::string& folder) : folder_(Tree(folder)) {}
  explicit Parts(std::map<std::string, std::string> texts) : texts_(std::move(texts)) {}

  /// Reads at most `limit` bytes; unreadable if the document was not recorded.
  [[nodiscard]] Fact<std::string> read(const std::string& name, std::size_t limit,
                                       bool from_end = false) const {
    const Unreadable not_recorded{name, 0};
    if (folder_) {
      // Read the document through a Tree, which does not block even if the path is a FIFO or a
      // device.
      auto text =
          from_end ? folder_->read_end("/" + name, limit) : folder_->read("/" + name, limit);
      if (text.is_absent()) return not_recorded;
      return text;
    }
    const auto found = texts_.find(name);
    if (found == texts_.end()) return not_recorded;
    const std::string& text = found->second;
    return text.substr(from_end ? text.size() - std::min(limit, text.size()) : 0, limit);
  }

 private:
  std::optional<Tree> folder_;
  std::map<std::string, std::string> texts_;
};

bool is_file(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

Result<Sources> sources_of(Tree tree, const Parts& parts) {
  Sources sources;
  sources.recorded = true;
  sources.tree = std::move(tree);
  // Reads the end of the log, which has the newest lines.
  sources.kernel_log = parts.read("kernel.log", 4 << 20, true);
  auto driver = driver_from_json(parts.read("driver.json", 1 << 20).value_or("{}"), "driver.json");
  if (!driver) return std::move(driver).error();
  sources.driver = *std::move(driver);
  if (const auto tried = parts.read("probe.json", 1 << 20)) {
    auto probe = probe_from_json(*tried, "probe.json");
    if (!probe) return std::move(probe).error();
    sources.request.probe = *std::move(probe);
  }
  auto process =
      process_from_json(parts.read("process.json", 1 << 20).value_or("{}"), "process.json");
  if (!process) return std::move(process).error();
  sources.process = *std::move(process);
  sources.process.environment = parts.read("environment", 1 << 20).map([](const std::string& text) {
    return environment_from(text);
  });
  sources.python =
      sources.process.python.value_or(default_python(sources.tree, sources.process.environment));
  return sources;
}

}  // namespace

Result<Sources> from_bundle(const std::string& path) {
  if (!is_file(path)) {
    auto tree = bundle_tree(path);
    if (!tree) return std::move(tree).error();
    return sources_of(*std::move(tree), Parts(path));
  }
  auto machine = read_machine(path);
  if (!machine) return std::move(machine).error();
  Tree tree(std::move(machine->files), path);
  for (auto& [place, special] : machine->specials) tree.add_special(place, special);
  return sources_of(std::move(tree), Parts(std::move(machine->parts)));
}

Facts collect(const Sources& sources) {
  Facts facts;
  facts.machine = collect_machine(sources.tree, sources.kernel_log);
  facts.machine.slow_devices =
      collect_slow_devices(sources.tree, sources.process.environment, facts.machine.host_name);
  facts.nvidia = collect_nvidia(sources.tree, sources.process);
  facts.driver = sources.driver;
  facts.process = sources.process;
  if (!sources.python.empty()) facts.process.python = sources.python;
  facts.nodes = collect_gpu_nodes(sources.tree);
  facts.files = collect_driver_files(sources.tree, sources.process);
  facts.container = collect_container(sources.tree, sources.process);
  facts.platform = collect_platform(sources.tree, sources.process);
  facts.rdma = collect_rdma(sources.tree, facts.files.folders);
  facts.wsl = collect_wsl(sources.tree, facts.files.folders);
  facts.libraries = collect_libraries(sources.tree, sources.process.environment, sources.python);
  const auto unsearched = sources.python.empty()
                              ? why_not_searched(sources.tree, sources.process.environment)
                              : std::nullopt;
  facts.python = unsearched
                     ? unreadable_python(*unsearched)
                     : collect_python(sources.tree, sources.process.environment,
                                      python_of_program(sources.tree, sources.process.environment,
                                                        sources.python));
  facts.python.lost_environment =
      collect_lost_environment(sources.tree, sources.process.environment, sources.recorded);
  facts.parts = collect_python_parts(sources.tree, sources.process.environment, facts.python);
  facts.rocm = collect_rocm(sources.tree, sources.process.environment, facts.python);
  facts.packages = collect_package_sources(sources.tree, sources.process.environment, facts.python);
  facts.builds = collect_package_builds(sources.tree, facts.python);
  facts.imports = collect_imports(sources.tree, sources.process.environment, facts.python);
  facts.toolchain = collect_toolchain(sources.tree, sources.process.environment, facts.python);
  facts.gpu_models = collect_gpu_models(sources.tree);
  return facts;
}

}  // namespace berth::doctor
