// Rules ENV about variables that list visible devices, compared with the devices that exist.
#include <algorithm>
#include <array>
#include <set>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/device_list.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

using Tokens = std::vector<std::string_view>;

/// The tokens of a list for AMD's and Intel's runtimes, which ignore spaces around them.
Tokens tokens_of(std::string_view value) {
  Tokens tokens;
  for (const std::string_view token : listed_devices(value)) tokens.push_back(trim(token));
  return tokens;
}

bool is_index(std::string_view token) {
  return !token.empty() && token.find_first_not_of("0123456789") == std::string_view::npos;
}

/// CUDA_VISIBLE_DEVICES if it names devices; "" if it is not set, or if it hides all GPUs. ENV01
/// reports a value that hides all GPUs.
std::string cuda_list(Examination& look) {
  const std::string value = variable_or_empty(look, "CUDA_VISIBLE_DEVICES");
  return hides_every_device(value) ? "" : value;
}

Fix unset(const std::string& name) {
  return {"unset " + name, ""};
}

void hidden(Examination& look, const char* name) {
  const auto value = look.facts.process.variable(name);
  const auto* seen = look.see(value);
  if (seen == nullptr || !hides_every_device(*seen)) return;
  Finding& finding =
      look.found(text("{} is '{}', which hides every GPU from this program", name, *seen));
  finding.evidence.push_back(fmt::format("{}={}", name, *seen));
  const std::string job = variable_or_empty(look, "SLURM_JOB_ID");
  if (!job.empty()) {
    finding.evidence.push_back("SLURM_JOB_ID=" + job);
    finding.fix.push_back(
        {"sbatch --gres=gpu:1 …", text("Slurm assigned no GPU to this job: request one")});
    return;
  }
  finding.fix.push_back(unset(name));
  finding.fix.push_back({fmt::format("grep -rn {} ~/.bashrc ~/.profile /etc/environment "
                                     "/etc/profile.d",
                                     name),
                         text("shows files that may set the variable")});
}

/// Whether the selector excludes Level Zero, as "opencl:cpu" does. PyTorch and oneAPI's libraries
/// need Level Zero for the card.
bool leaves_no_level_zero(std::string_view selector) {
  bool any = false;
  for (std::string_view term : split(selector, ';')) {
    term = trim(term);
    if (term.empty() || term.starts_with('!')) continue;
    any = true;
    const std::string_view backend = term.substr(0, term.find(':'));
    const auto colon = term.find(':');
    const std::string_view devices = colon == std::string_view::npos ? "*" : term.substr(colon + 1);
    if ((backend == "level_zero" || backend == "*") && devices != "cpu") return false;
  }
  return any;
}

void hidden_from_level_zero(Examination& look) {
  const std::string selector = variable_or_empty(look, "ONEAPI_DEVICE_SELECTOR");
  const std::string mask = variable_or_empty(look, "ZE_AFFINITY_MASK");
  if (leaves_no_level_zero(selector)) {
    Finding& finding = look.found(text("{} is '{}', which hides every GPU from this program",
                                       "ONEAPI_DEVICE_SELECTOR", selector));
    finding.evidence.push_back("ONEAPI_DEVICE_SELECTOR=" + selector);
    finding.fix.push_back({"export ONEAPI_DEVICE_SELECTOR=level_zero:gpu", ""});
    finding.fix.push_back(unset("ONEAPI_DEVICE_SELECTOR"));
  }
  const std::size_t count = gpus_on_bus(look, kVendorIntel).size();
  constexpr std::string_view kNumbered = "level_zero:";
  const std::string_view numbers =
      selector.starts_with(kNumbered) ? std::string_view(selector).substr(kNumbered.size()) : "";
  const auto first = to_number(numbers.substr(0, numbers.find_first_of(",;.")));
  if (first && static_cast<std::size_t>(*first) >= count && count > 0) {
    Finding& finding = look.found(text("{}={} names GPU '{}', but the number of GPUs is {}",
                                       "ONEAPI_DEVICE_SELECTOR", selector, *first, count));
    finding.evidence.push_back("ONEAPI_DEVICE_SELECTOR=" + selector);
    finding.fix.push_back({"export ONEAPI_DEVICE_SELECTOR=level_zero:gpu", ""});
  }
  if (mask.empty()) return;
  const Tokens tokens = tokens_of(mask);
  if (std::any_of(tokens.begin(), tokens.end(), [&](std::string_view token) {
        const auto index = to_number(token.substr(0, token.find('.')));
        return !index || static_cast<std::size_t>(*index) < count;
      }))
    return;
  Finding& finding = look.found(text("{}={} names GPU '{}', but the number of GPUs is {}",
                                     "ZE_AFFINITY_MASK", mask, tokens.front(), count));
  finding.evidence.push_back("ZE_AFFINITY_MASK=" + mask);
  finding.fix.push_back(unset("ZE_AFFINITY_MASK"));
}

/// The variables that AMD's runtimes read. Each one selects from the GPUs that the previous one
/// leaves visible. HIP reads CUDA's variable too.
constexpr auto kAmdLists = std::to_array<const char*>(
    {"ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"});

/// Whether this is CUDA's variable and one of AMD's is also set. HIP then ignores CUDA's variable;
/// ENV06 reports this.
bool is_second(Examination& look, std::string_view name) {
  return name == "CUDA_VISIBLE_DEVICES" && !(variable_or_empty(look, "ROCR_VISIBLE_DEVICES") +
                                             variable_or_empty(look, "HIP_VISIBLE_DEVICES"))
                                                .empty();
}

void visible_empty(Examination& look) {
  if (machine_has_nvidia(look)) {
    hidden(look, "CUDA_VISIBLE_DEVICES");
    return;
  }
  if (!cards_on_bus(look, kVendorIntel).empty()) return hidden_from_level_zero(look);
  if (cards_on_bus(look, kVendorAmd).empty()) return;
  for (const char* name : kAmdLists)
    if (!is_second(look, name)) hidden(look, name);
}

/// Whether the token is neither an index nor the uuid of a GPU: "cpu", "all".
bool is_no_device(std::string_view token) {
  return !is_index(token) && !token.starts_with("GPU-");
}

/// Reports an index without a GPU in one of AMD's lists. Only the GPUs that this process can open
/// have an index, for example four of the machine's eight.
void amd_bad_index(Examination& look) {
  const auto* render = look.see_whole(look.facts.nodes.render);
  if (render == nullptr) return;
  std::size_t count = static_cast<std::size_t>(
      std::count_if(render->begin(), render->end(),
                    [](const GpuNode& one) { return one.vendor == kVendorAmd && !one.denied(); }));
  if (count == 0) return;
  for (const char* name : kAmdLists) {
    const std::string list = variable_or_empty(look, name);
    if (hides_every_device(list) || is_second(look, name)) continue;
    const Tokens tokens = tokens_of(list);
    const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](std::string_view token) {
      return is_no_device(token) ||
             (is_index(token) &&
              (token.size() > 5 || static_cast<std::size_t>(*to_number(token)) >= count));
    });
    if (bad == tokens.end()) {
      count = tokens.size();  // the next variable selects from the GPUs in this list
      continue;
    }
    Finding& finding = look.found(
        text("{}={} names GPU '{}', but the number of GPUs is {}", name, list, *bad, count));
    finding.evidence.push_back(fmt::format("{}={}", name, list));
    for (const GpuNode& one : *render) finding.evidence.push_back(one.path);
    finding.fix.push_back(unset(name));
    finding.fix.push_back({"", text("a scheduler numbers all GPUs of the machine, but inside the "
                                    "job or container the numbers begin at 0")});
    return;
  }
}

void jax_bad_index(Examination& look, const std::string& list, std::size_t count) {
  const Tokens tokens = tokens_of(list);
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](std::string_view token) {
    return !is_index(token) || token.size() > 5 ||
           static_cast<std::size_t>(*to_number(token)) >= count;
  });
  if (bad == tokens.end()) return;
  Finding& finding = look.found(text("{}={} names GPU '{}', but the number of GPUs is {}",
                                     "JAX_CUDA_VISIBLE_DEVICES", list, *bad, count));
  finding.evidence.push_back("JAX_CUDA_VISIBLE_DEVICES=" + list);
  finding.fix.push_back(unset("JAX_CUDA_VISIBLE_DEVICES"));
}

/// How CUDA interprets a list on a machine with a given number of GPUs.
struct CudaReading {
  std::size_t used = 0;    // number of valid tokens before the first invalid one
  std::string_view bad{};  // the first invalid token, if `used` is less than the number of tokens
  bool twice = false;      // `bad` is a duplicate; CUDA then shows no GPU at all
  bool behind_blank = false;
  std::string meant;  // all tokens that name GPUs, also those after `bad`
};

CudaReading read_cuda_list(const Tokens& tokens, std::size_t count) {
  CudaReading reading;
  std::set<std::string> seen;
  bool ended = false;
  for (const std::string_view token : tokens) {
    const auto fits = [&](std::string_view one) {
      return names_device(one) || listed_number(one).value_or(count) < count;
    };
    const std::string plain = plain_device_list(token);
    const bool first = fits(trim(token)) && seen.insert(plain).second;
    if (first) reading.meant += (reading.meant.empty() ? "" : ",") + pasted(plain);
    if (ended) continue;
    ended = !first || !fits(token);
    if (!ended) {
      ++reading.used;
      continue;
    }
    reading.bad = token;
    reading.twice = !first && fits(token);
    reading.behind_blank = fits(trim(token)) && !fits(token);
  }
  return reading;
}

/// Reports a list that is valid for CUDA, but from which CUDA uses fewer GPUs than intended.
void fewer_than_meant(Examination& look, const std::string& list, const Tokens& tokens,
                      std::size_t count) {
  std::string meant;
  std::string_view read;
  for (const std::string_view token : tokens) {
    const std::string several = several_in_one(token);
    if (!several.empty()) read = token;
    meant += (meant.empty() ? "" : ",") + (several.empty() ? plain_device_list(token) : several);
  }
  if (read.empty() || count < 2) return;
  Finding& finding =
      look.found(text("CUDA_VISIBLE_DEVICES={}: CUDA reads '{}' as {}, and ignores the rest", list,
                      read, *listed_number(trim(read))));
  finding.severity = Severity::kWarning;
  finding.evidence = {"CUDA_VISIBLE_DEVICES=" + list,
                      "https://github.com/pytorch/pytorch/blob/v2.8.0/torch/cuda/__init__.py#L713"};
  finding.fix.push_back({"export CUDA_VISIBLE_DEVICES=" + meant, ""});
}

void visible_bad_index(Examination& look) {
  if (!machine_has_nvidia(look) && !cards_on_bus(look, kVendorAmd).empty())
    return amd_bad_index(look);
  std::string list = cuda_list(look);
  const auto count = nvidia_count(look);
  if (!count || *count == 0) return;
  // JAX has its own variable, which contains only indices.
  if (const std::string own = variable_or_empty(look, "JAX_CUDA_VISIBLE_DEVICES");
      list.empty() && !own.empty() && own != "all" && look.facts.python.distribution("jaxlib"))
    return jax_bad_index(look, own, *count);
  if (list.empty()) return;
  for (const GpuAnswer& gpu : look.facts.driver.gpus.value_or({}))
    if (gpu.mig_enabled.value_or(false)) return;  // ENV04 checks lists for MIG
  const Tokens tokens = listed_devices(list);
  const CudaReading reading = read_cuda_list(tokens, *count);
  if (reading.used == tokens.size()) return fewer_than_meant(look, list, tokens, *count);
  const bool none = reading.twice || reading.used == 0;
  Finding& finding = look.found(
      reading.twice ? text("CUDA_VISIBLE_DEVICES={} names {} twice: CUDA then shows no GPU at all",
                           list, reading.bad)
      : reading.behind_blank ? text("CUDA_VISIBLE_DEVICES='{}': CUDA ignores '{}' and all after "
                                    "it, because of the space",
                                    list, reading.bad)
      : none
          ? text("CUDA_VISIBLE_DEVICES={} leaves no GPU: '{}' is not a GPU here", list, reading.bad)
          : text("CUDA_VISIBLE_DEVICES={}: CUDA ignores '{}' and all after it, because it is not a "
                 "GPU here",
                 list, reading.bad));
  if (!none) finding.severity = Severity::kError;
  finding.evidence.push_back("CUDA_VISIBLE_DEVICES=" + list);
  finding.evidence.push_back(
      text_n("{} GPU is here", "this machine has {} GPUs", static_cast<long long>(*count), *count));
  finding.fix.push_back(
      {"export CUDA_VISIBLE_DEVICES=" + (reading.meant.empty() ? "0" : reading.meant),
       *count == 1 ? "" : text("the GPUs here are 0 to {}", *count - 1)});
}

bool begins(const Fact<std::string>& uuid, std::string_view token) {
  return uuid && uuid->starts_with(token);
}

/// Reports uuids in the list, if vLLM is older than 0.23 and parses each entry as a number.
void names_for_vllm(Examination& look, const std::string& list) {
  if (!contains(list, "GPU-") && !contains(list, "MIG-")) return;
  const auto package = look.facts.python.distribution("vllm");
  const Distribution* vllm = look.see(package);
  if (vllm == nullptr || !is_older(vllm->version, "0.23")) return;
  Finding& finding = look.found(text(
      "vLLM {} only accepts numbers in CUDA_VISIBLE_DEVICES, but it is {}", vllm->version, list));
  finding.evidence.push_back("CUDA_VISIBLE_DEVICES=" + list);
  finding.evidence.push_back(vllm->path);
  finding.fix.push_back({install_command(look.facts.python, {"-U", "vllm>=0.24"}),
                         text("these releases also accept names of GPUs and MIG instances")});
  if (!contains(list, "MIG-"))
    finding.fix.push_back(
        {"export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0",
         text("instead of 0, use the number that nvidia-smi -L shows for this GPU")});
}

void visible_uuid(Examination& look) {
  const std::string list = cuda_list(look);
  names_for_vllm(look, list);
  if (!contains(list, "GPU-")) return;
  const auto* gpus = look.see(look.facts.driver.gpus);
  if (gpus == nullptr) return;
  for (const GpuAnswer& gpu : *gpus)
    if (look.see(gpu.uuid) == nullptr) return;
  for (const std::string_view token : tokens_of(list)) {
    if (!token.starts_with("GPU-")) continue;
    const auto matches = std::count_if(
        gpus->begin(), gpus->end(), [&](const GpuAnswer& gpu) { return begins(gpu.uuid, token); });
    if (matches == 1) continue;
    Finding& finding = look.found(
        matches == 0
            ? text("CUDA_VISIBLE_DEVICES names {}, but no GPU here has this UUID", token)
            : text("CUDA_VISIBLE_DEVICES names {}, which matches more than one GPU", token));
    finding.evidence.push_back("CUDA_VISIBLE_DEVICES=" + list);
    for (const GpuAnswer& gpu : *gpus)
      if (gpu.uuid) finding.evidence.push_back(*gpu.uuid);
    finding.fix.push_back({"nvidia-smi -L", text("lists this machine's GPUs with their UUIDs")});
  }
}

std::vector<std::string> instances_of(const std::vector<GpuAnswer>& gpus) {
  std::vector<std::string> all;
  for (const GpuAnswer& gpu : gpus) {
    const auto some = gpu.mig_instances.value_or({});
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

Finding& mig_finding(Examination& look, std::string title, const std::vector<std::string>& all) {
  Finding& finding = look.found(std::move(title));
  const std::string shown = shown_variable(look, "CUDA_VISIBLE_DEVICES");
  if (!shown.empty()) finding.evidence.push_back(shown);
  finding.evidence.push_back(fmt::format("nvidia-smi -L: {}", fmt::join(all, ", ")));
  finding.fix.push_back(
      {"export CUDA_VISIBLE_DEVICES=" + pasted(all.front()),
       text("a process can use only one MIG instance: give every rank a different instance")});
  return finding;
}

void mig_of_ranks(Examination& look, const std::string& list, const std::vector<std::string>& all) {
  const auto rank = to_number(variable_or_empty(look, "LOCAL_RANK"));
  const auto ranks = to_number(variable_or_empty(look, "LOCAL_WORLD_SIZE"));
  const Tokens tokens = list.empty() ? Tokens{} : tokens_of(list);
  const bool ordinals = !tokens.empty() && std::all_of(tokens.begin(), tokens.end(), is_index);
  const bool past_first = ordinals && (tokens.size() > 1 || tokens.front() != "0");
  const bool many_ranks = rank.value_or(0) > 0 || ranks.value_or(1) > 1;
  if (past_first || (many_ranks && (ordinals || list.empty()))) {
    mig_finding(look,
                text("MIG is on: numbers cannot select MIG instances, so the program finds only "
                     "the first one"),
                all);
  } else if (list.empty() && all.size() > 1) {
    mig_finding(
        look, text("MIG is on: a process sees only the first of the {} MIG instances", all.size()),
        all)
        .severity = Severity::kInfo;
  }
}

void visible_mig(Examination& look) {
  const auto* gpus = look.see(look.facts.driver.gpus);
  if (gpus == nullptr || gpus->empty()) return;
  const auto value = look.facts.process.variable("CUDA_VISIBLE_DEVICES");
  const auto* seen = look.see(value);
  if (value.is_unreadable() || (seen != nullptr && hides_every_device(*seen))) return;
  const std::string list = seen == nullptr ? "" : *seen;
  const bool names_mig = contains(list, "MIG-");
  bool all_mig = true;
  for (const GpuAnswer& gpu : *gpus) {
    const auto* enabled = look.see(gpu.mig_enabled);
    all_mig = all_mig && enabled != nullptr && *enabled;
    if (names_mig && look.see(gpu.mig_instances) == nullptr && !gpu.mig_instances.is_absent())
      return;
  }
  const auto all = instances_of(*gpus);
  if (all.empty() && !names_mig) return;  // DRV19 reports missing MIG instances
  if (!names_mig) {
    if (all_mig) mig_of_ranks(look, list, all);
    return;
  }
  const Tokens tokens = tokens_of(list);
  for (const std::string_view token : tokens) {
    // Before driver 470, MIG instances had names such as "MIG-GPU-…/7/0".
    if (!token.starts_with("MIG-") || contains(token, "/")) continue;
    if (std::any_of(all.begin(), all.end(),
                    [&](const std::string& one) { return one.starts_with(token); }))
      continue;
    Finding& finding =
        look.found(text("CUDA_VISIBLE_DEVICES names {}, but there is no such MIG instance", token));
    finding.evidence.push_back("CUDA_VISIBLE_DEVICES=" + list);
    finding.evidence.push_back(fmt::format("nvidia-smi -L: {}", fmt::join(all, ", ")));
    finding.fix.push_back(
        {"nvidia-smi -L", text("MIG instances get new names when they are recreated")});
    return;
  }
  // PyTorch 1.13 counts GPUs with NVML, but does not support names of MIG instances.
  if (const auto& torch = look.facts.python.torch; torch && in_range(torch->version, "1.13")) {
    Finding& finding = look.found(text(
        "PyTorch {} counts no GPUs if CUDA_VISIBLE_DEVICES names a MIG instance", torch->version));
    finding.evidence.push_back("CUDA_VISIBLE_DEVICES=" + list);
    finding.evidence.push_back(torch->path);
    finding.fix.push_back({install_command(look.facts.python, {"-U", "torch"}),
                           text("in the old release, device_count() is 0, but .cuda() works")});
  }
  if (tokens.size() > 1)
    mig_finding(look,
                text("CUDA_VISIBLE_DEVICES names {} MIG instances, and a process can use one",
                     tokens.size()),
                all)
        .severity = Severity::kError;
}

void device_order(Examination& look) {
  const auto* gpus = look.see(look.facts.driver.gpus);
  if (gpus == nullptr || gpus->size() < 2) return;
  // Skip a GPU that does not answer: its name is from the PCI table, which differs from the
  // driver's name.
  const GpuAnswer* first = nullptr;
  bool mixed = false;
  const auto answers = [](const GpuAnswer& gpu) {
    return gpu.error.value_or(0) == 0 && !gpu.silent.value_or(false);
  };
  for (const GpuAnswer& gpu : *gpus) {
    if (!answers(gpu)) continue;
    if (look.see(gpu.name) == nullptr) return;
    if (first == nullptr) first = &gpu;
    mixed = mixed || *gpu.name != *first->name;
  }
  if (!mixed || !look.missing(look.facts.process.variable("CUDA_DEVICE_ORDER"))) return;
  Finding& finding =
      look.found(text("the GPUs are of different models: CUDA numbers the fastest first, "
                      "nvidia-smi numbers them by slot"));
  for (const GpuAnswer& gpu : *gpus)
    if (answers(gpu)) finding.evidence.push_back(fmt::format("{} {}", gpu.pci_address, *gpu.name));
  finding.fix.push_back({"export CUDA_DEVICE_ORDER=PCI_BUS_ID",
                         text("makes CUDA number the GPUs as nvidia-smi does")});
}

void hip_visible_conflict(Examination& look) {
  if (gpus_on_bus(look, kVendorAmd).empty()) return;
  const std::string rocr = variable_or_empty(look, "ROCR_VISIBLE_DEVICES");
  const std::string hip = variable_or_empty(look, "HIP_VISIBLE_DEVICES");
  const std::string cuda = variable_or_empty(look, "CUDA_VISIBLE_DEVICES");
  if (hides_every_device(rocr) && hides_every_device(hip)) return;
  const std::string evidence = fmt::format(
      "ROCR_VISIBLE_DEVICES={} HIP_VISIBLE_DEVICES={} CUDA_VISIBLE_DEVICES={}", rocr, hip, cuda);
  const std::string& second = hip.empty() ? cuda : hip;
  if (!rocr.empty() && !second.empty() && !hides_every_device(second)) {
    const std::size_t left = tokens_of(rocr).size();
    for (const std::string_view token : tokens_of(second)) {
      if (!is_index(token) || static_cast<std::size_t>(to_number(token).value_or(0)) < left)
        continue;
      Finding& finding = look.found(
          text("ROCR_VISIBLE_DEVICES leaves {} GPUs, renumbered from 0, so there is no GPU {}",
               left, token));
      finding.evidence.push_back(evidence);
      finding.fix.push_back(unset("HIP_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES"));
      return;
    }
  }
  if (hip.empty() || cuda.empty() || hip == cuda) return;
  Finding& finding =
      look.found(text("HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES name different GPUs; only one "
                      "of the variables takes effect"));
  finding.evidence.push_back(evidence);
  finding.fix.push_back(unset("CUDA_VISIBLE_DEVICES"));
}

// These rules are not causes of FW findings, because a variable does not change how a package was
// built.
constexpr auto kVisibleDevicesRules = std::to_array<Rule>({
    {"ENV01", Layer::kEnvironment, Severity::kFatal, true, msgid("a variable that hides every GPU"),
     "", visible_empty},
    {"ENV02", Layer::kEnvironment, Severity::kFatal, true,
     msgid("numbers or words in CUDA_VISIBLE_DEVICES that name no GPU"), "", visible_bad_index},
    {"ENV03", Layer::kEnvironment, Severity::kFatal, true,
     msgid("UUIDs in CUDA_VISIBLE_DEVICES that name no GPU"), "", visible_uuid},
    {"ENV04", Layer::kEnvironment, Severity::kFatal, true,
     msgid("MIG instances in CUDA_VISIBLE_DEVICES"), "", visible_mig},
    {"ENV05", Layer::kEnvironment, Severity::kInfo, false,
     msgid("CUDA and nvidia-smi numbering GPUs differently"), "", device_order},
    {"ENV06", Layer::kEnvironment, Severity::kError, true,
     msgid("contradictory lists of visible AMD GPUs"), "", hip_visible_conflict},
});

}  // namespace

std::span<const Rule> visible_device_rules() {
  return kVisibleDevicesRules;
}

}  // namespace berth::doctor
