// Rules ENV24 to ENV28 and CTR21: wrong settings that a program gets from its launcher, service,
// user account or notebook, such as ranks, variables, the home folder and the Python.
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/device_list.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

const Distribution* first_package(Examination& look,
                                  std::initializer_list<std::string_view> names) {
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr) return nullptr;
  for (const std::string_view name : names)
    for (const Distribution& one : *all)
      if (one.name == name) return &one;
  return nullptr;
}

/// Whether the list makes exactly one GPU visible. False for lists that hide all GPUs (-1,
/// NoDevFiles), and for invalid lists such as 0-3, which ENV02 reports.
bool is_one_device(Examination& look, const std::string& visible) {
  const auto tokens = listed_devices(visible);
  if (hides_every_device(visible) || tokens.size() != 1 ||
      plain_device_list(visible) != tokens.front())
    return false;
  const auto number = listed_number(tokens.front());
  return !number || *number < nvidia_count(look).value_or(*number + 1);
}

/// Reports a Slurm task that sees one GPU, with index 0, and has a local rank above 0. A program
/// that uses its local rank as the index finds no GPU.
void rank_beyond_gpus(Examination& look) {
  if (variable_or_empty(look, "SLURM_JOB_ID").empty()) return;
  const std::string visible = variable_or_empty(look, "CUDA_VISIBLE_DEVICES");
  if (!machine_has_nvidia(look) || !is_one_device(look, visible)) return;
  // Programs usually read LOCAL_RANK. If only Slurm's own variable is set, perhaps the program
  // ignores it, so the finding is only information.
  const bool launched = !variable_or_empty(look, "LOCAL_RANK").empty();
  const char* name = launched ? "LOCAL_RANK" : "SLURM_LOCALID";
  if (to_number(variable_or_empty(look, name)).value_or(0) < 1) return;
  Finding& finding =
      look.found(text("this task sees only GPU 0, but {} is {}: a program that selects its GPU by "
                      "this number finds no device",
                      name, variable_or_empty(look, name)));
  if (!launched) finding.severity = Severity::kInfo;
  finding.evidence = {shown_variable(look, name), shown_variable(look, "CUDA_VISIBLE_DEVICES"),
                      "https://github.com/ACEsuit/mace/issues/435"};
  for (const char* more : {"SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND", "SLURM_STEP_GPUS"})
    if (const std::string shown = shown_variable(look, more); !shown.empty())
      finding.evidence.push_back(shown);
  finding.fix.push_back({"srun --gpu-bind=none PROGRAM",
                         text("every task then sees all GPUs of its machine; in a batch script, "
                              "use --gpus-per-node instead of --gpus-per-task")});
  finding.fix.push_back({"", text("or let every rank use device 0")});
}

/// Reports variables that are set in this shell, but that only Ollama's server reads. systemd
/// starts the server, so the server does not inherit these variables.
void not_in_service(Examination& look, const OllamaService& service) {
  const auto* variables = look.see(look.facts.process.environment);
  if (variables == nullptr) return;
  // Variables that also have an effect in Ollama's client, so the service does not need them.
  constexpr auto kClients = std::to_array<std::string_view>(
      {"OLLAMA_HOST", "OLLAMA_NOHISTORY", "OLLAMA_EDITOR", "OLLAMA_DEBUG", "OLLAMA_API_KEY"});
  const bool amd = !cards_on_bus(look, kVendorAmd).empty();
  std::vector<std::string> lost;
  for (const auto& [name, value] : *variables) {
    const bool is_servers =
        name.starts_with("OLLAMA_") ||
        (amd && (name == "HSA_OVERRIDE_GFX_VERSION" || name == "ROCR_VISIBLE_DEVICES"));
    if (!is_servers || service.variables.contains(name) ||
        std::find(kClients.begin(), kClients.end(), name) != kClients.end())
      continue;
    lost.push_back(fmt::format("{}={}", name, value));
  }
  if (lost.empty()) return;
  Finding& finding = look.found(text(
      "{} is set in this shell, but not for Ollama's server, because systemd starts the server",
      lost.front().substr(0, lost.front().find('='))));
  finding.severity = Severity::kInfo;
  finding.evidence = lost;
  finding.evidence.push_back(text("{} does not set this variable", service.unit));
  finding.evidence.emplace_back("https://github.com/ollama/ollama/issues/8679");
  std::string lines = "'[Service]'";
  for (const std::string& one : lost) lines += " " + pasted("Environment=\"" + one + "\"");
  const std::string folder = "/etc/systemd/system/ollama.service.d";
  finding.fix.push_back(
      {fmt::format("sudo mkdir -p {0} && printf '%s\\n' {1} | sudo tee {0}/variables.conf\n"
                   "sudo systemctl daemon-reload && sudo systemctl restart ollama",
                   folder, lines),
       text("or add the lines manually with sudo systemctl edit ollama")});
}

/// Reports a service whose CUDA_VISIBLE_DEVICES contains a GPU that this machine does not have.
void hidden_from_service(Examination& look, const OllamaService& service) {
  const auto hidden = service.variables.find("CUDA_VISIBLE_DEVICES");
  const auto gpus = nvidia_count(look);
  if (hidden == service.variables.end() || hidden->second.is_passed || !gpus || *gpus == 0) return;
  const std::string& value = hidden->second.value;
  const std::string_view first = std::string_view(value).substr(0, value.find(','));
  const auto number = to_number(first);
  const bool names = first.starts_with("GPU-") || first.starts_with("MIG-");
  if (names || (number && *number >= 0 && static_cast<std::size_t>(*number) < *gpus)) return;
  Finding& finding =
      look.found(text("Ollama's service sets CUDA_VISIBLE_DEVICES={}, which is not a GPU of this "
                      "machine: its server computes on the CPU",
                      value));
  // These values usually hide the GPUs on purpose.
  if (value.empty() || value == "-1") finding.severity = Severity::kInfo;
  finding.evidence = {
      fmt::format("{}: {}CUDA_VISIBLE_DEVICES={}", hidden->second.file,
                  contains(hidden->second.file, "/systemd/") ? "Environment=" : "", value),
      "https://github.com/ollama/ollama/issues/9722"};
  finding.fix.push_back(
      {fmt::format("sudo sed -i '/CUDA_VISIBLE_DEVICES/d' {}\nsudo systemctl daemon-reload && sudo "
                   "systemctl restart ollama",
                   pasted(hidden->second.file)),
       ""});
}

/// Whether the server could use a GPU if it had permission to open the GPU's nodes: an AMD card, or
/// with Vulkan any AMD or Intel GPU.
bool has_gpu_behind_nodes(Examination& look, const OllamaService& service) {
  return !cards_on_bus(look, kVendorAmd).empty() ||
         (service.variables.contains("OLLAMA_VULKAN") &&
          !(gpus_on_bus(look, kVendorAmd).empty() && gpus_on_bus(look, kVendorIntel).empty()));
}

/// Whether there is a node of an AMD or Intel GPU that not every user can open.
bool closed_to_others(Examination& look) {
  constexpr mode_t kAll = S_IROTH | S_IWOTH;
  const auto closed = [](const GpuNode& one) { return (one.node.mode & kAll) != kAll; };
  const GpuNode* kfd = look.see(look.facts.nodes.kfd);
  const auto* render = look.see(look.facts.nodes.render);
  return (kfd != nullptr && closed(*kfd)) ||
         (render != nullptr && std::any_of(render->begin(), render->end(), [&](const GpuNode& one) {
            return one.vendor != kVendorNvidia && closed(one);
          }));
}

/// Reports a service that has no permission to open the GPU nodes, because of a setting in its unit
/// or because of its groups.
void locked_out_of_nodes(Examination& look, const OllamaService& service) {
  const bool behind_nodes = has_gpu_behind_nodes(look, service);
  if (!behind_nodes && !machine_has_nvidia(look)) return;
  if (!service.locked.value.empty()) {
    Finding& finding = look.found(
        text("Ollama's service may not open any GPU: {} in its unit denies the GPUs' device nodes",
             service.locked.value));
    finding.evidence = {service.locked.file + ": " + service.locked.value,
                        "https://github.com/NixOS/nixpkgs/issues/331069"};
    finding.fix.push_back(
        // systemd uses the last value, so the name of this file must sort after all others.
        {"sudo mkdir -p /etc/systemd/system/ollama.service.d && printf '%s\\n' '[Service]' "
         "PrivateDevices=no DevicePolicy=auto DeviceAllow= | sudo tee "
         "/etc/systemd/system/ollama.service.d/zz-berth.conf\nsudo systemctl daemon-reload && sudo "
         "systemctl restart ollama",
         text("or remove this setting from {}", service.locked.file)});
    return;
  }
  if (!behind_nodes || service.grouped || !closed_to_others(look)) return;
  Finding& finding =
      look.found(text("Ollama's service runs as user {}, who is not in the group render and so may "
                      "not open the GPU",
                      service.user));
  finding.severity = Severity::kWarning;
  finding.evidence = {fmt::format("{}: User={}", service.unit, service.user),
                      fmt::format("/etc/group: render: {}: {}", service.user, tr("missing"))};
  finding.fix.push_back({fmt::format("sudo usermod -aG render,video {} && sudo systemctl restart "
                                     "ollama",
                                     pasted(service.user)),
                         ""});
}

void ollama_service(Examination& look) {
  const OllamaService* service = look.see(look.facts.platform.ollama_service);
  if (service == nullptr) return;
  locked_out_of_nodes(look, *service);
  hidden_from_service(look, *service);
  if (look.see_whole(look.facts.platform.ollama_service) != nullptr) not_in_service(look, *service);
}

/// Reports a user without a usable home folder. HOME is "/" for a user without an entry in
/// /etc/passwd; system users may have no home folder.
void no_home(Examination& look) {
  const std::string home = variable_or_empty(look, "HOME");
  if (home != "/" && home != "/nonexistent" && home != "/dev/null") return;
  const Identity* who = look.see(look.facts.process.identity);
  if (who == nullptr || who->uid == 0 ||
      (!machine_has_nvidia(look) && cards_on_bus(look, kVendorAmd).empty()))
    return;
  const Distribution* server = first_package(look, {"vllm", "sglang"});
  const Distribution* one =
      server != nullptr ? server : first_package(look, {"triton", "pytorch-triton"});
  const auto is_set = [&](const char* name) { return !variable_or_empty(look, name).empty(); };
  const bool placed = is_set("TRITON_CACHE_DIR") || is_set("TRITON_HOME");
  const bool all = is_set("XDG_CACHE_HOME") || is_set("VLLM_CACHE_ROOT") || is_set("HF_HOME");
  if (one == nullptr || (placed && (server == nullptr || all))) return;
  Finding& finding = look.found(text(
      "HOME is {}, where this user may not write: {} stores compiled and downloaded files there",
      home, named(*one)));
  if (server == nullptr) finding.severity = Severity::kWarning;
  finding.evidence = {"HOME=" + home, fmt::format("uid {}", who->uid), one->path,
                      "https://github.com/vllm-project/vllm/issues/10185"};
  finding.fix.push_back({container_kind(look).empty() ? "export HOME=/tmp/home && mkdir -p $HOME"
                                                      : "docker run -e HOME=/tmp IMAGE",
                         text("use any folder that the user may write to; a persistent folder "
                              "keeps downloaded files")});
}

/// Reports a user without an entry in /etc/passwd. PyTorch needs the user's name for its cache
/// folder, and fails.
void no_account(Examination& look) {
  // PyTorch releases that need the user's name. Later releases do not:
  // https://github.com/pytorch/pytorch/pull/184208
  constexpr std::string_view kAsks = "2.0-2.12";
  const bool* known = look.see(look.facts.process.has_account);
  if (known == nullptr || *known || container_kind(look).empty() || torch_cuda(look).empty() ||
      seen_gpus(look).empty())
    return;
  for (const char* name : {"LOGNAME", "USER", "LNAME", "USERNAME"})
    if (!variable_or_empty(look, name).empty()) return;
  const Distribution* server = first_package(look, {"vllm", "sglang"});
  const Distribution* torch = first_package(look, {"torch"});
  if (torch == nullptr || !in_range(torch->version, kAsks) ||
      !variable_or_empty(look, "TORCHINDUCTOR_CACHE_DIR").empty())
    return;
  const Identity* who = look.see(look.facts.process.identity);
  const std::string uid = who == nullptr ? "" : std::to_string(who->uid);
  Finding& finding =
      look.found(text("user {} has no name in this container, but {} needs one: {} fails", uid,
                      named(*torch), server == nullptr ? "torch.compile" : named(*server)));
  if (server != nullptr) finding.severity = Severity::kError;
  finding.evidence = {fmt::format("/etc/passwd: {}: {}", uid, tr("missing")),
                      fmt::format("USER, LOGNAME, TORCHINDUCTOR_CACHE_DIR: {}", tr("missing")),
                      torch->path, "https://github.com/pytorch/pytorch/issues/140765"};
  finding.fix.push_back(
      {"export USER=user",
       text("or docker run -e USER=user, or env in the pod's spec; any name works")});
}

void notebook_kernel(Examination& look) {
  const auto* kernels = look.see(look.facts.parts.kernels);
  const std::string* runs = look.see(look.facts.python.interpreter);
  if (kernels == nullptr || kernels->empty()) return;
  for (const NotebookKernel& one : *kernels) {
    if (one.is_there) continue;
    Finding& finding = look.found(text(
        "the notebook kernel {} starts a Python that does not exist: {}", one.name, one.python));
    finding.evidence = {one.path, "https://github.com/microsoft/vscode-python/issues/14451"};
    finding.fix.push_back({"jupyter kernelspec remove " + pasted(one.name), ""});
    return;
  }
  // Report this only if no Jupyter kernel starts the target's Python.
  const std::string& prefix = look.facts.python.prefix;
  if (runs == nullptr || torch_cuda(look).empty() || seen_gpus(look).empty() ||
      !(look.facts.python.is_venv || look.facts.python.is_conda) ||
      first_package(look, {"ipykernel"}) != nullptr ||
      std::any_of(kernels->begin(), kernels->end(),
                  [](const NotebookKernel& one) { return one.is_own; }))
    return;
  Finding& finding = look.found(
      text("no notebook kernel starts this Python: a notebook runs {}, which has other packages",
           kernels->front().python));
  finding.severity = Severity::kInfo;
  finding.evidence = {fmt::format("{}: {}", kernels->front().path, kernels->front().python),
                      text("the Python that runs: {}", *runs),
                      "https://github.com/microsoft/vscode-jupyter/issues/9081"};
  finding.fix.push_back(
      {fmt::format("{0} -m pip install ipykernel\n{0} -m ipykernel install --user --name {1}",
                   pasted(*runs), pasted(prefix.substr(prefix.rfind('/') + 1))),
       text("then choose that kernel in the notebook")});
}

/// Reports missing video libraries. The container toolkit provides them only if
/// NVIDIA_DRIVER_CAPABILITIES requests them.
void no_video(Examination& look) {
  const std::string asked = variable_or_empty(look, "NVIDIA_DRIVER_CAPABILITIES");
  const auto* libraries = look.see_whole(look.facts.python.libraries);
  if (asked.empty() || libraries == nullptr || contains(asked, "all") || contains(asked, "video") ||
      container_kind(look).empty() || look.facts.machine.is_jetson || seen_gpus(look).empty())
    return;
  // With CDI, containers get all libraries of the driver. The video libraries may then exist
  // although the variable does not request them.
  if (std::any_of(libraries->begin(), libraries->end(), [](const CudaLibrary& one) {
        return one.name.starts_with("libnvcuvid.so") || one.name.starts_with("libnvidia-encode.so");
      }))
    return;
  const Distribution* one = first_package(look, {"nvidia-dali-cuda130", "nvidia-dali-cuda120",
                                                 "nvidia-dali-cuda110", "pynvvideocodec"});
  if (one == nullptr) return;
  Finding& finding =
      look.found(text("the container lacks the video libraries that {} needs: "
                      "NVIDIA_DRIVER_CAPABILITIES does not request them",
                      named(*one)));
  // DALI is mostly used for images, which need no video library.
  if (one->name.starts_with("nvidia-dali")) finding.severity = Severity::kInfo;
  finding.evidence = {shown_variable(look, "NVIDIA_DRIVER_CAPABILITIES"), one->path,
                      fmt::format("libnvcuvid.so.1, libnvidia-encode.so.1: {}", tr("missing")),
                      "https://github.com/NVIDIA/nvidia-docker/issues/1530"};
  finding.fix.push_back(
      {"docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility,video IMAGE",
       text("or set ENV NVIDIA_DRIVER_CAPABILITIES in the image's Dockerfile")});
}

constexpr auto kLayer = Layer::kEnvironment;
constexpr auto kLaunchRules = std::to_array<Rule>({
    {"ENV24", kLayer, Severity::kWarning, true,
     msgid("a rank used as a GPU number, although the task sees no such GPU"), "",
     rank_beyond_gpus},
    {"ENV25", kLayer, Severity::kError, true,
     msgid("an Ollama service without a variable or permission that it needs"), "", ollama_service},
    {"ENV26", kLayer, Severity::kError, true,
     msgid("a home folder in which compiled files cannot be stored"), "", no_home},
    {"ENV27", kLayer, Severity::kWarning, true, msgid("a notebook that starts another Python"), "",
     notebook_kernel},
    {"ENV28", kLayer, Severity::kWarning, true, msgid("a user without a name in a container"), "",
     no_account},
    {"CTR21", Layer::kContainer, Severity::kWarning, true,
     msgid("a container without the driver's libraries for video"), "", no_video},
});

}  // namespace

std::span<const Rule> launch_rules() {
  return kLaunchRules;
}

}  // namespace berth::doctor
