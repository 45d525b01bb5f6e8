// Rule ENV22: variables with values that break or slow down GPU programs. data/variables.toml has
// the variables, the values, and the programs that read them.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

std::string small(std::string_view text) {
  std::string out(trim(text));
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

bool any_of_list(std::string_view list, const auto& holds) {
  const auto items = split(list, '|');
  return std::any_of(items.begin(), items.end(), holds);
}

/// Whether a list such as "^ring,tree" or "allreduce:simple;broadcast:^ll" contains an unknown
/// word.
bool has_unknown_word(std::string_view value, std::string_view known) {
  std::size_t at = 0;
  while (at < value.size()) {
    const std::size_t end = std::min(value.find_first_of(",;: ", at), value.size());
    std::string_view word = value.substr(at, end - at);
    while (word.starts_with('^') || word.starts_with('=')) word.remove_prefix(1);
    at = end + 1;
    if (word.empty()) continue;
    if (!any_of_list(known, [&](std::string_view one) { return one == word; })) return true;
  }
  return false;
}

constexpr std::string_view kNoGpu = "no gpu of this machine";

/// Whether the value meets the condition `bad`: "above 128", "is a|b".
bool is_bad(std::string_view bad, const std::string& value) {
  const std::size_t blank = bad.find(' ');
  const std::string_view how = bad.substr(0, blank);
  const std::string_view what = blank == std::string_view::npos ? "" : bad.substr(blank + 1);
  const auto number = number_in(value);
  if (how == "set") return true;
  if (how == "on") return is_on(value);
  if (how == "is") return any_of_list(what, [&](std::string_view one) { return one == value; });
  if (how == "words") return has_unknown_word(value, what);
  if (how == "begins")
    return any_of_list(what, [&](std::string_view one) { return value.starts_with(one); });
  if (how == "has")
    return any_of_list(what, [&](std::string_view one) { return contains(value, one); });
  if (how == "lacks")
    return !any_of_list(what, [&](std::string_view one) { return contains(value, one); });
  if (how == "no") return !number;
  if (!number) return false;
  if (how == "above") return *number > number_in(what).value_or(*number);
  if (how == "below") return *number < number_in(what).value_or(*number);
  const std::size_t second = what.find(' ');
  return how == "outside" && second != std::string_view::npos &&
         (*number < number_in(what.substr(0, second)).value_or(*number) ||
          *number > number_in(what.substr(second + 1)).value_or(*number));
}

/// Returns true if a list of compute capabilities, such as "7.5;8.0 8.6+PTX", supports no installed
/// GPU. Returns false for a list with names of GPU families.
bool serves_no_gpu(Examination& look, std::string list) {
  WheelArch held;
  for (char& c : list)
    if (c == ' ' || c == ',') c = ';';
  for (std::string_view one : split(list, ';')) {
    if (one.empty()) continue;
    const bool ptx = one.ends_with("+ptx");
    if (ptx) one.remove_suffix(4);
    if (!number_in(one)) return false;
    held.arch.emplace_back(one);
    if (ptx && (held.ptx.empty() || is_older(one, held.ptx))) held.ptx = one;
  }
  const auto gpus = seen_gpus(look);
  return !held.arch.empty() && !gpus.empty() &&
         std::all_of(gpus.begin(), gpus.end(), [&](const SeenGpu& gpu) {
           return !gpu.capability.empty() && kernels_of(held, gpu.capability) == Kernels::kLacks;
         });
}

bool has_package(Examination& look, std::string_view name) {
  const auto package = look.facts.python.distribution(name);
  return look.see(package) != nullptr;
}

/// Whether a program that reads the variable is installed and has a GPU for it.
bool is_read(Examination& look, std::string_view reader) {
  const bool nvidia = machine_has_nvidia(look);
  if (reader == "cuda") return nvidia;
  if (reader == "nccl") {
    const std::size_t gpus = nvidia_count(look).value_or(0) + cards_on_bus(look, kVendorAmd).size();
    return gpus > 1 || (gpus == 1 && spans_machines(look));
  }
  if (reader == "intel") return !cards_on_bus(look, kVendorIntel).empty();
  if (reader == "rocm") return has_rocm_gpu(look);
  if (!nvidia && cards_on_bus(look, kVendorAmd).empty()) return false;
  if (reader == "torch") return look.see(look.facts.python.torch) != nullptr;
  if (reader == "triton") return has_package(look, "triton") || look.facts.python.torch;
  if (reader == "jax") return has_package(look, "jaxlib");
  if (reader == "paddle") return has_package(look, "paddlepaddle-gpu");
  if (reader == "ollama") return look.see(look.facts.platform.ollama) != nullptr;
  if (reader == "ggml") return look.see(look.facts.platform.ggml) != nullptr;
  const auto* all = look.see(look.facts.python.distributions);
  // A package can also have the name of the reader as its prefix: "tensorflow-gpu", "cupy-cuda12x",
  // "mxnet-cu112".
  return all != nullptr && std::any_of(all->begin(), all->end(), [&](const Distribution& one) {
           return one.name == reader || one.name.starts_with(std::string(reader) + "-");
         });
}

/// The value of a variable. If the variable is not set, the value of the same setting in NCCL's
/// configuration file.
struct Setting {
  std::string value, shown, file;
};

std::optional<Setting> setting_of(Examination& look, const VariableFault& row) {
  const auto variable = look.facts.process.variable(row.name);
  if (const std::string* value = look.see(variable))
    return value->empty() ? std::nullopt
                          : std::optional(Setting{*value, row.name + "=" + *value, ""});
  if (row.reader != "nccl" || !variable.is_absent()) return std::nullopt;
  const NcclSettings* settings = look.see(look.facts.platform.nccl);
  if (settings == nullptr) return std::nullopt;
  const auto one = settings->values.find(row.name);
  if (one == settings->values.end() || one->second.empty()) return std::nullopt;
  return Setting{one->second, settings->path + ": " + row.name + "=" + one->second, settings->path};
}

bool is_excused(Examination& look, const VariableFault& row) {
  if (!row.unless.empty() && is_on(variable_or_empty(look, row.unless.c_str()))) return true;
  if (!row.without.empty() && has_package(look, row.without)) return true;
  if (row.no_infiniband) {
    const auto* adapters = look.see_whole(look.facts.container.infiniband);
    return adapters == nullptr || !adapters->empty();
  }
  if (row.below_capability.empty()) return false;
  const auto gpus = seen_gpus(look);
  return gpus.size() != 1 || gpus.front().capability.empty() ||
         !is_older(gpus.front().capability, row.below_capability);
}

Severity severity_of(std::string_view effect) {
  if (effect == "fails" || effect == "off") return Severity::kError;
  return effect == "slow" || effect == "risks" ? Severity::kWarning : Severity::kInfo;
}

void wrong_values(Examination& look) {
  std::vector<std::string_view> told;
  for (const VariableFault& row : look.knowledge.compatibility().variables) {
    if (std::find(told.begin(), told.end(), row.name) != told.end()) continue;
    const auto setting = setting_of(look, row);
    if (!setting || !is_read(look, row.reader) || is_excused(look, row)) continue;
    const std::string value = small(setting->value);
    if (row.bad == kNoGpu ? !serves_no_gpu(look, value) : !is_bad(row.bad, value)) continue;
    told.push_back(row.name);
    Finding& finding =
        look.found(fmt::format("{}={}: {}", row.name, setting->value, tr(row.cause.c_str())));
    finding.severity = severity_of(row.effect);
    finding.evidence = {setting->shown, row.source};
    if (!setting->file.empty())
      finding.fix.push_back({fmt::format("sed -i '/{}/d' {}", row.name, pasted(setting->file)),
                             text("removes the line from NCCL's configuration file")});
    else if (!row.instead.empty())
      finding.fix.push_back({fmt::format("export {}={}", row.name, row.instead), ""});
    else
      finding.fix.push_back({"unset " + row.name, ""});
  }
}

void lost_environment(Examination& look) {
  const auto* lost = look.see(look.facts.python.lost_environment);
  if (lost == nullptr) return;
  const auto* runs = look.see(look.facts.python.interpreter);
  Finding& finding = look.found(
      lost->interpreter.empty()
          ? text("{} names a missing environment: {}", lost->variable, lost->prefix)
          : text("the Python of {} is missing: {} does not exist", lost->prefix, lost->leads_to));
  finding.evidence.push_back(lost->variable + "=" + lost->prefix);
  if (!lost->interpreter.empty())
    finding.evidence.push_back(lost->interpreter + " → " + lost->leads_to);
  else if (runs != nullptr)
    finding.evidence.push_back(text("python3 is {}", *runs));
  const bool conda = lost->variable == "CONDA_PREFIX";
  finding.fix.push_back({conda ? "conda deactivate" : "unset " + lost->variable, ""});
  if (conda) return;
  // If the folder exists, suggest another folder, because `venv --clear` would delete everything in
  // the existing one.
  if (lost->interpreter.empty())
    finding.fix.push_back({"python3 -m venv " + pasted(lost->prefix),
                           text("creates the environment again; reinstall its packages")});
  else
    finding.fix.push_back({"python3 -m venv " + pasted(lost->prefix + "-new"),
                           text("creates another environment; install the packages there again")});
}

constexpr auto kVariablesRules = std::to_array<Rule>({
    {"ENV22", Layer::kEnvironment, Severity::kError, true,
     msgid("variables with values that break or slow down GPU programs"), "", wrong_values},
    {"ENV23", Layer::kEnvironment, Severity::kError, false,
     msgid("an active environment whose folder or Python is missing"), "", lost_environment},
});

}  // namespace

std::span<const Rule> variable_rules() {
  return kVariablesRules;
}

}  // namespace berth::doctor
