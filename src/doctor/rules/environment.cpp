// Rules ENV about single variables that configure libraries, and about the files that variables
// name.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/builds.hpp"
#include "doctor/rules/cuda_compilers.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

Fix unset(const std::string& name) {
  return {"unset " + name, ""};
}

void stub_path(Examination& look) {
  const std::string path = variable_or_empty(look, "LD_LIBRARY_PATH");
  if (path.empty() || !machine_has_nvidia(look)) return;
  const auto* stubs = look.see(look.facts.platform.named.stubs);
  if (stubs == nullptr || stubs->empty()) return;
  Finding& finding = look.found(
      text("LD_LIBRARY_PATH contains a stub of the driver's library, which is only for linking"));
  finding.evidence.push_back("LD_LIBRARY_PATH=" + path);
  for (const std::string& stub : *stubs) finding.evidence.push_back(stub);
  finding.fix.push_back(
      {"export LD_LIBRARY_PATH=$(echo \"$LD_LIBRARY_PATH\" | tr ':' '\\n' | grep "
       "-v /stubs | paste -sd:)",
       ""});
}

void ld_preload(Examination& look) {
  const std::string value = variable_or_empty(look, "LD_PRELOAD");
  constexpr auto kLibraries = std::to_array<std::string_view>(
      {"libcuda.", "libcudart", "libcublas", "libcudnn", "libcusparse", "libcufft", "libnccl",
       "libnvrtc", "libnvJitLink", "libnvidia-ml"});
  std::string list = value;
  std::replace(list.begin(), list.end(), ' ', ':');
  for (const std::string_view path : split(list, ':')) {
    const std::string_view name = path.substr(path.rfind('/') + 1);
    if (std::none_of(kLibraries.begin(), kLibraries.end(),
                     [&](std::string_view one) { return name.starts_with(one); }))
      continue;
    Finding& finding =
        look.found(text("LD_PRELOAD loads {} instead of each framework's own copy", path));
    finding.evidence.push_back("LD_PRELOAD=" + value);
    finding.fix.push_back(unset("LD_PRELOAD"));
    return;
  }
}

/// Whether a package is installed that needs libnvvm or nvcc from CUDA_HOME at run time.
bool compiles_at_run_time(Examination& look) {
  for (const char* name : {"numba", "numba-cuda", "pycuda", "deepspeed", "cupy"})
    if (look.facts.python.distribution(name)) return true;
  return false;
}

/// Reports a list such as CUDA_HOME=$CUDA_HOME:/usr/local/cuda. Unlike PATH, CUDA_HOME must be a
/// single folder.
bool is_list(Examination& look, const char* name) {
  const std::string value = variable_or_empty(look, name);
  if (value.find(':') == std::string::npos) return false;
  std::string folder;
  for (const std::string_view one : split(value, ':'))
    if (one.starts_with('/')) folder = one;
  Finding& finding = look.found(text("{} is a list of folders, but must be a single folder", name));
  if (compiles_at_run_time(look)) finding.severity = Severity::kError;
  finding.evidence = {shown_variable(look, name), "https://github.com/numba/numba/issues/9216"};
  finding.fix.push_back(folder.empty() ? unset(name)
                                       : Fix{fmt::format("export {}={}", name, pasted(folder)),
                                             text("also correct the line that sets the variable: "
                                                  "do not append or prepend the old value")});
  return true;
}

void cuda_home(Examination& look) {
  const auto& named = look.facts.platform.named;
  const bool home = look.facts.process.variable("CUDA_HOME").has_value();
  if (is_list(look, home ? "CUDA_HOME" : "CUDA_PATH")) return;
  const std::string shown = shown_variable(look, home ? "CUDA_HOME" : "CUDA_PATH");
  const auto* there = look.see(named.cuda_home_there);
  const auto* nvcc = look.see(named.cuda_home_nvcc);
  if (there == nullptr || nvcc == nullptr || *nvcc) return toolkit_for_building(look);
  Finding& finding = look.found(*there ? text("{} has no compiler: there is no bin/nvcc", shown)
                                       : text("{} does not exist", shown));
  if (*there) finding.severity = Severity::kInfo;
  finding.evidence.push_back(fmt::format("{}/bin/nvcc: {}", shown, tr("missing")));
  finding.fix.push_back(
      {"ls -d /usr/local/cuda*",
       text("lists the installed toolkits; a toolkit is needed only to build extensions")});
}

/// Reports an nvcc that is newer than the driver supports, or of another CUDA major version than
/// PyTorch, for which nvcc compiles extensions.
void nvcc_newer(Examination& look) {
  const Toolkit* toolkit = look.see(look.facts.toolchain.building);
  if (toolkit == nullptr || version_of(toolkit->version).size() < 2 || seen_gpus(look).empty() ||
      look.facts.machine.is_jetson)
    return;
  const std::string nvcc = beginning(toolkit->version);
  const SeenDriver driver = nvidia_driver(look);
  const std::string torch = torch_cuda(look);
  const auto differs = [&](const std::string& other) {
    return version_of(nvcc)[0] != version_of(other)[0];
  };
  // CUDA 12.6 has the same PTX version as 12.5, so a driver for 12.5 accepts its PTX.
  const bool same_ptx = nvcc == "12.6" && driver.cuda == "12.5";
  // In an image, the toolkit is often newer than the driver. This is normal within one CUDA major
  // version.
  const bool of_image = look.facts.machine.in_container || look.facts.container.kind.has_value();
  const bool newer = !driver.cuda.empty() && !same_ptx && is_older(driver.cuda, nvcc);
  if (newer && (differs(driver.cuda) || !of_image)) {
    Finding& finding =
        look.found(text("nvcc is from CUDA {}, but the driver only accepts code of CUDA up to {}",
                        nvcc, driver.cuda));
    // If the major versions are equal, the driver runs machine code of the newer CUDA version and
    // only rejects its PTX.
    finding.severity = differs(driver.cuda) ? Severity::kWarning : Severity::kInfo;
    finding.evidence = {fmt::format("{}: CUDA {}", toolkit->folder, toolkit->version)};
    if (!driver.version.empty())
      finding.evidence.push_back(
          text("the driver is version {} and supports CUDA up to {}", driver.version, driver.cuda));
    finding.fix.push_back(
        {"nvcc -arch=native …",
         text("compiles machine code for this GPU, which a driver of the same CUDA major version "
              "can run; otherwise install CUDA toolkit {} and set CUDA_HOME to it",
              driver.cuda)});
  }
  if (!torch.empty() && is_older(torch, nvcc) && differs(torch)) {
    Finding& finding =
        look.found(text("nvcc is from CUDA {}, but PyTorch is built with CUDA {}: PyTorch "
                        "extensions do not compile",
                        nvcc, torch));
    finding.severity = Severity::kInfo;
    finding.evidence = {fmt::format("{}: CUDA {}", toolkit->folder, toolkit->version),
                        look.facts.python.torch ? look.facts.python.torch->path : torch};
    finding.fix.push_back({"", text("install CUDA toolkit {} next to the other one and set "
                                    "CUDA_HOME to it; the driver is unchanged",
                                    torch)});
  }
}

void nvcc_path(Examination& look) {
  older_ptxas_first(look);
  nvcc_newer(look);
  const auto& named = look.facts.platform.named;
  const auto* first = look.see(named.nvcc);
  if (first == nullptr) return;
  const bool home = look.facts.process.variable("CUDA_HOME").has_value() ||
                    look.facts.process.variable("CUDA_PATH").has_value();
  const auto* other = look.see(home ? named.cuda_home_nvcc_target : named.usual_nvcc);
  if (other == nullptr || *other == *first) return;
  // Without CUDA_HOME, extensions are compiled by the nvcc in PATH. Report this only for a
  // distribution's nvcc, because users often do not know that it is installed.
  if (!home && !first->starts_with("/usr/bin/") && !first->starts_with("/usr/lib/")) return;
  Finding& finding = look.found(
      text("the nvcc in PATH is not the CUDA toolkit's own nvcc: {}, not {}", *first, *other));
  finding.evidence.push_back(fmt::format("command -v nvcc → {}", *first));
  finding.evidence.push_back(home ? shown_variable(look, "CUDA_HOME")
                                  : fmt::format("/usr/local/cuda/bin/nvcc → {}", *other));
  const std::string folder = other->substr(0, other->rfind('/'));
  finding.fix.push_back({fmt::format("export PATH={}:$PATH CUDA_HOME={}", pasted(folder),
                                     pasted(folder.substr(0, folder.rfind('/')))),
                         text("then rebuild the extension")});
}

/// Converts a GPU version to the number that the kernel uses: 10.3.0 → 100300.
std::optional<unsigned> target_of(std::string_view version) {
  const auto parts = split(version, '.');
  if (parts.size() != 3) return std::nullopt;
  const auto major = to_number(parts[0]);
  const auto minor = to_number(parts[1]);
  const auto step = to_number(parts[2]);
  if (!major || !minor || !step) return std::nullopt;
  return static_cast<unsigned>(*major * 10000 + *minor * 100 + *step);
}

void hsa_override(Examination& look) {
  const std::string value = variable_or_empty(look, "HSA_OVERRIDE_GFX_VERSION");
  if (value.empty()) return;
  const auto* nodes = look.see(look.facts.rocm.nodes);
  if (nodes == nullptr || nodes->empty()) return;
  const auto wanted = target_of(value);
  if (wanted) {
    // All targets of one generation have the same instructions: code for 10.3.0 runs on 10.3.1, and
    // code for 11.0.0 on 11.5.1.
    if (std::any_of(nodes->begin(), nodes->end(),
                    [&](const KfdNode& node) { return node.target / 10000 == *wanted / 10000; }))
      return;
  }
  Finding& finding = look.found(
      wanted ? text("HSA_OVERRIDE_GFX_VERSION={} is for another generation than this GPU, {}",
                    value, nodes->front().gfx())
             : text("HSA_OVERRIDE_GFX_VERSION={} is not a version like 11.0.0", value));
  finding.evidence.push_back(
      fmt::format("/sys/class/kfd/kfd/topology/nodes/{}: gfx_target_version {}",
                  nodes->front().number, nodes->front().target));
  finding.fix.push_back(unset("HSA_OVERRIDE_GFX_VERSION"));
}

bool is_there(std::string_view wanted, const std::vector<std::string>& interfaces, bool exact) {
  return std::any_of(interfaces.begin(), interfaces.end(), [&](const std::string& one) {
    return exact ? one == wanted : one.starts_with(wanted);
  });
}

Finding& interface_finding(Examination& look, const char* name, std::string title,
                           const std::vector<std::string>& interfaces) {
  Finding& finding = look.found(std::move(title));
  finding.evidence.push_back(shown_variable(look, name));
  finding.evidence.push_back(fmt::format("/sys/class/net: {}", fmt::join(interfaces, " ")));
  const auto real = std::find_if(interfaces.begin(), interfaces.end(), [](const std::string& one) {
    return one.starts_with("e") || one.starts_with("ib") || one.starts_with("bond");
  });
  finding.fix.push_back(real == interfaces.end()
                            ? unset(name)
                            : Fix{fmt::format("export {}={}", name, pasted(*real)), ""});
  return finding;
}

void gloo_interface(Examination& look, const std::vector<std::string>& interfaces) {
  const char* name = "GLOO_SOCKET_IFNAME";
  const std::string value = variable_or_empty(look, name);
  if (value.empty()) return;
  if (contains(value, "^")) {
    interface_finding(
        look, name,
        text("GLOO_SOCKET_IFNAME={}: Gloo accepts only names of interfaces, not NCCL's prefix ^",
             value),
        interfaces);
    return;
  }
  for (const std::string_view one : split(value, ','))
    if (!is_there(trim(one), interfaces, true)) {
      interface_finding(look, name, text("{} names {}, but there is no such interface", name, one),
                        interfaces);
      return;
    }
}

void nccl_interface(Examination& look, const std::vector<std::string>& interfaces) {
  const char* name = "NCCL_SOCKET_IFNAME";
  const std::string value = variable_or_empty(look, name);
  if (value.empty() || value.starts_with('^')) return;
  const bool exact = value.starts_with('=');
  bool any = false;
  for (std::string_view one : split(value, ',')) {
    one = trim(one);
    if (one.starts_with('=')) one.remove_prefix(1);
    one = one.substr(0, one.find(':'));
    any = any || is_there(one, interfaces, exact);
  }
  if (!any)
    interface_finding(look, name, text("{} names {}, but there is no such interface", name, value),
                      interfaces);
}

/// Reports that no adapter in NCCL_IB_HCA has an active port. NCCL uses only active ports.
void adapters_down(Examination& look, std::string_view value, bool exact) {
  const char* name = "NCCL_IB_HCA";
  const auto* ports = look.see(look.facts.rdma.ports);
  if (ports == nullptr) return;
  std::vector<std::string> down;
  for (std::string_view one : split(value.substr(exact ? 1 : 0), ',')) {
    one = trim(one.substr(0, one.find(':')));
    for (const RdmaPort& port : *ports) {
      if (exact ? port.adapter != one : !port.adapter.starts_with(one)) continue;
      if (port.state == "ACTIVE") return;
      down.push_back(fmt::format("{}/state: {}", port.path, printable(port.state)));
    }
  }
  if (down.empty()) return;
  Finding& finding = look.found(
      text("{} names {}, but none of its ports is active: NCCL uses plain TCP", name, value));
  finding.evidence = std::move(down);
  finding.evidence.push_back(shown_variable(look, name));
  finding.fix.push_back({"ibstat", text("shows the port's state: INIT means no subnet manager, "
                                        "DOWN means no cable or no peer")});
}

/// Checks a value such as "mlx5_0:1,mlx5_1", "=mlx5_0", "^mlx5_3". If the value starts with "=",
/// its names are complete; if not, they are prefixes.
void infiniband_adapters(Examination& look) {
  const char* name = "NCCL_IB_HCA";
  const std::string value = variable_or_empty(look, name);
  if (value.empty() || value.starts_with('^')) return;
  const auto* adapters = look.see(look.facts.container.infiniband);
  if (adapters == nullptr || adapters->empty()) return;
  const bool exact = value.starts_with('=');
  for (std::string_view one : split(std::string_view(value).substr(exact ? 1 : 0), ','))
    if (is_there(trim(one.substr(0, one.find(':'))), *adapters, exact))
      return adapters_down(look, value, exact);
  Finding& finding = look.found(text("{} names {}, but there is no such adapter", name, value));
  finding.evidence = {shown_variable(look, name),
                      fmt::format("/sys/class/infiniband: {}", fmt::join(*adapters, " "))};
  finding.fix.push_back(unset(name));
}

void socket_interface(Examination& look) {
  infiniband_adapters(look);
  const std::string nccl = variable_or_empty(look, "NCCL_SOCKET_IFNAME");
  const std::string gloo = variable_or_empty(look, "GLOO_SOCKET_IFNAME");
  if (nccl.empty() && gloo.empty()) return;
  const auto& known = look.facts.platform.interfaces;
  // Gloo does not support "^", so such a value is wrong even if the interfaces are unknown.
  const std::vector<std::string> none;
  if (!known && contains(gloo, "^")) return gloo_interface(look, none);
  const auto* interfaces = look.see(known);
  if (interfaces == nullptr) return;
  gloo_interface(look, *interfaces);
  nccl_interface(look, *interfaces);
  for (const char* name : {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"})
    if (variable_or_empty(look, name) == "lo" && spans_machines(look))
      interface_finding(look, name,
                        text("{} is lo, which reaches no other machine of this job", name),
                        *interfaces);
}

/// Whether no pair of GPUs supports peer access. If so, NCCL_P2P_DISABLE has no effect.
bool peers_are_impossible(const DriverAnswers& driver) {
  if (!driver.peer_pairs_unsupported || !driver.gpus) return false;
  const std::size_t count = driver.gpus->size();
  return driver.peer_pairs_unsupported->size() >= count * (count - 1) / 2;
}

void nccl_crutch(Examination& look) {
  constexpr auto kNames =
      std::to_array<const char*>({"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"});
  for (const char* name : kNames) {
    if (!is_on(variable_or_empty(look, name))) continue;
    if (std::string_view(name) == "NCCL_IB_DISABLE") {
      const auto* adapters = look.see(look.facts.container.infiniband);
      if (adapters == nullptr || adapters->empty()) continue;
    } else {
      const auto count = nvidia_count(look);
      const std::size_t gpus = count ? *count : cards_on_bus(look, kVendorAmd).size();
      if (gpus < 2 || peers_are_impossible(look.facts.driver)) continue;
    }
    Finding& finding =
        look.found(text("{} disables a fast transport, so GPUs exchange data more slowly",
                        shown_variable(look, name)));
    finding.evidence.push_back(shown_variable(look, name));
    finding.fix.push_back(
        {fmt::format("unset {}", name),
         text(
             "the variable only hides a fault: run once with NCCL_DEBUG=INFO to find that fault")});
  }
}

void debug_crutch(Examination& look) {
  const auto slow = [&](const char* name, bool is_set, std::string_view what) {
    if (!is_set) return;
    Finding& finding =
        look.found(text("{} is still set from debugging: {}", shown_variable(look, name), what));
    finding.evidence.push_back(shown_variable(look, name));
    finding.fix.push_back(unset(name));
  };
  slow("CUDA_LAUNCH_BLOCKING", is_on(variable_or_empty(look, "CUDA_LAUNCH_BLOCKING")),
       tr("the program waits for every kernel"));
  slow("NCCL_DEBUG", variable_or_empty(look, "NCCL_DEBUG") == "TRACE",
       tr("NCCL logs every data exchange"));
  slow("AMD_SERIALIZE_KERNEL",
       !variable_or_empty(look, "AMD_SERIALIZE_KERNEL").empty() &&
           variable_or_empty(look, "AMD_SERIALIZE_KERNEL") != "0",
       tr("the program waits for every kernel"));
  slow("CUDA_INJECTION64_PATH",
       contains(variable_or_empty(look, "CUDA_INJECTION64_PATH"), "sanitizer"),
       tr("every memory access is checked"));
}

void jit_switches(Examination& look) {
  struct Switch {
    const char* name;
    const char* says;
  };
  constexpr auto kSwitches = std::to_array<Switch>({
      {"CUDA_FORCE_PTX_JIT", msgid("every kernel is compiled again, and fails if it has no PTX")},
      {"CUDA_DISABLE_PTX_JIT", msgid("programs with only PTX cannot run")},
      {"CUDA_CACHE_DISABLE", msgid("compiled kernels are lost when the program ends")},
  });
  for (const Switch& one : kSwitches) {
    if (!is_on(variable_or_empty(look, one.name))) continue;
    Finding& finding =
        look.found(fmt::format("{}: {}", shown_variable(look, one.name), tr(one.says)));
    finding.evidence.push_back(shown_variable(look, one.name));
    finding.fix.push_back(unset(one.name));
  }
}

void xla_flags(Examination& look) {
  const auto& named = look.facts.platform.named;
  const auto* folder = look.see(named.xla_folder);
  if (folder == nullptr) return;
  const auto* there = look.see(named.xla_libdevice);
  if (there == nullptr || *there) return;
  Finding& finding =
      look.found(text("XLA_FLAGS sets XLA's CUDA folder to {}, which has no libdevice", *folder));
  finding.evidence.push_back(shown_variable(look, "XLA_FLAGS"));
  finding.evidence.push_back(
      fmt::format("{}/nvvm/libdevice/libdevice.10.bc: {}", *folder, tr("missing")));
  finding.fix.push_back(
      {"find / -name libdevice.10.bc 2>/dev/null",
       text("set the flag to the folder that contains nvvm; JAX's wheels do not need this flag")});
}

void bitsandbytes_version(Examination& look) {
  const std::string wanted = variable_or_empty(look, "BNB_CUDA_VERSION");
  if (wanted.empty()) return;
  const auto* binaries = look.see(look.facts.python.bitsandbytes);
  if (binaries == nullptr) return;
  const std::string name = "libbitsandbytes_cuda" + wanted;
  if (std::any_of(binaries->begin(), binaries->end(),
                  [&](const std::string& one) { return one.starts_with(name + "."); }))
    return;
  Finding& finding = look.found(
      text("BNB_CUDA_VERSION={} selects a binary that bitsandbytes does not have", wanted));
  finding.evidence.push_back(text("bitsandbytes would need {}.so; the existing files are {}", name,
                                  fmt::format("{}", fmt::join(*binaries, ", "))));
  finding.fix.push_back(
      {"unset BNB_CUDA_VERSION", text("bitsandbytes then uses the binary for PyTorch's CUDA")});
}

constexpr auto kLayer = Layer::kEnvironment;
constexpr auto kEnvironmentRules = std::to_array<Rule>({
    {"ENV07", kLayer, Severity::kError, true, msgid("a stub of libcuda in LD_LIBRARY_PATH"), "",
     stub_path},
    {"ENV18", kLayer, Severity::kError, true,
     msgid("BNB_CUDA_VERSION names a binary that is not installed"), "", bitsandbytes_version},
    {"ENV09", kLayer, Severity::kWarning, false, msgid("CUDA libraries in LD_PRELOAD"), "LIB*",
     ld_preload},
    {"ENV10", kLayer, Severity::kWarning, true,
     msgid("a CUDA_HOME without a toolkit, or with an unsuitable one"), "", cuda_home},
    {"ENV11", kLayer, Severity::kWarning, true,
     msgid("an nvcc or ptxas that is not from the toolkit, or is newer than the driver or PyTorch"),
     "", nvcc_path},
    {"ENV12", kLayer, Severity::kError, true, msgid("HSA_OVERRIDE_GFX_VERSION for another GPU"), "",
     hsa_override},
    {"ENV13", kLayer, Severity::kError, true, msgid("interfaces that NCCL or Gloo cannot use"),
     "RT11", socket_interface},
    {"ENV14", kLayer, Severity::kWarning, false, msgid("disabled transports between GPUs"), "",
     nccl_crutch},
    {"ENV15", kLayer, Severity::kWarning, false,
     msgid("variables that are still set from debugging"), "", debug_crutch},
    {"ENV16", kLayer, Severity::kWarning, false, msgid("settings of CUDA's compiler and cache"), "",
     jit_switches},
    {"ENV17", kLayer, Severity::kError, true, msgid("XLA_FLAGS without a valid toolkit"), "LIB10",
     xla_flags},
});

}  // namespace

std::span<const Rule> environment_rules() {
  return kEnvironmentRules;
}

}  // namespace berth::doctor
