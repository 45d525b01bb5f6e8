#include "engines/container_hook.hpp"

#include <algorithm>
#include <optional>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "engines/container.hpp"

namespace berth::engines {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRuntime = "berth";
constexpr const char* kDefault = "default-runtime";

Error unreadable(const char* what) {
  return {ErrorCode::kInvalidArgument, "E1105",
          text("the data from the container runtime cannot be read: {}", what),
          "sudo berth container --remove"};
}

Error bad_daemon() {
  return {ErrorCode::kInvalidArgument, "E1106", text("docker's daemon.json is not a JSON object"),
          "dockerd --validate"};
}

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string word(const Json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

/// Calls the function for each element of a JSON array. Another program wrote the array, so an
/// element may have any type.
template <typename Use>
void each(const Json* list, Use use) {
  if (list == nullptr || !list->is_array()) return;
  for (const Json& one : *list) use(one);
}

bool names_nvidia_hook(const Json& config) {
  bool found = false;
  const Json* hooks = member(config, "hooks");
  if (hooks == nullptr) return false;
  for (const char* stage : {"prestart", "createRuntime"})
    each(member(*hooks, stage), [&](const Json& hook) {
      found = found || word(member(hook, "path")).find("nvidia") != std::string::npos;
    });
  return found;
}

std::optional<std::uint32_t> minor_of(const std::string& path) {
  constexpr std::string_view kPrefix = "/dev/nvidia";
  if (!path.starts_with(kPrefix)) return std::nullopt;
  const auto number = to_number(std::string_view(path).substr(kPrefix.size()));
  constexpr std::int64_t kMost = 254;
  if (!number || *number < 0 || *number > kMost) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

void read_names(const std::string& value, GivenGpus& given) {
  if (value == "all") given.all = true;
  if (value == "all" || value == "none" || value == "void") return;
  for (const std::string_view one : split(value, ','))
    if (!trim(one).empty()) given.names.emplace_back(trim(one));
}

void read_job(const std::string& value, GivenGpus& given) {
  const std::size_t colon = std::min(value.find(':'), value.size());
  const auto number = to_number(value.substr(0, colon));
  given.job = number && *number > 0 ? static_cast<std::uint64_t>(*number) : 0;
  given.token = colon < value.size() ? value.substr(colon + 1) : "";
}

Json hook_json(const HookCall& call, bool nvidia_runtime) {
  Json words{"berth", "container", "prestart"};
  if (nvidia_runtime) words.push_back("--nvidia");
  return {{"path", call.program}, {"args", words}, {"env", call.variables}};
}

Json parsed(std::string_view text) {
  return Json::parse(text.begin(), text.end(), nullptr, false);
}

bool matches(const GivenGpus& given, const model::Device& device) {
  const auto has = [&](const std::string& name) {
    return std::find(given.names.begin(), given.names.end(), name) != given.names.end();
  };
  const auto& minors = given.minors;
  const bool by_file = device.minor_number && std::find(minors.begin(), minors.end(),
                                                        *device.minor_number) != minors.end();
  return given.all || by_file || has(device.uuid) ||
         (device.vendor_index && has(std::to_string(*device.vendor_index)));
}

}  // namespace

Result<HookState> parse_hook_state(std::string_view json) {
  const Json state = parsed(json);
  HookState out;
  const Json* pid = member(state, "pid");
  if (pid == nullptr || !pid->is_number_integer()) return unreadable("pid");
  out.pid = pid->get<std::int64_t>();
  out.id = word(member(state, "id"));
  out.bundle = word(member(state, "bundle"));
  if (out.bundle.empty()) out.bundle = word(member(state, "bundlePath"));
  if (out.pid <= 1) return unreadable("pid");
  if (!out.bundle.starts_with('/')) return unreadable("bundle");
  return out;
}

Result<GivenGpus> gpus_given(std::string_view config, bool nvidia_runtime) {
  const Json json = parsed(config);
  if (!json.is_object()) return unreadable("config.json");
  GivenGpus given;
  if (const Json* system = member(json, "linux"))
    each(member(*system, "devices"), [&](const Json& device) {
      if (const auto minor = minor_of(word(member(device, "path")))) given.minors.push_back(*minor);
    });
  const bool reads_names = nvidia_runtime || names_nvidia_hook(json);
  if (const Json* process = member(json, "process"))
    each(member(*process, "env"), [&](const Json& one) {
      const std::string variable = word(&one);
      constexpr std::string_view kNames = "NVIDIA_VISIBLE_DEVICES=";
      const std::string job = std::string(kJobVariable) + "=";
      if (reads_names && variable.starts_with(kNames))
        read_names(variable.substr(kNames.size()), given);
      if (variable.starts_with(job)) read_job(variable.substr(job.size()), given);
    });
  return given;
}

std::vector<std::string> devices_of(const GivenGpus& given, const model::Snapshot& snapshot) {
  std::vector<std::string> out;
  for (const model::Device& device : snapshot.devices) {
    if (device.vendor != model::Vendor::kNvidia || device.kind != model::DeviceKind::kGpu) continue;
    if (matches(given, device)) {
      out.push_back(device.uuid);
      continue;
    }
    for (const model::Partition& part : device.partitions)
      if (std::find(given.names.begin(), given.names.end(), part.uuid) != given.names.end())
        out.push_back(part.uuid);
  }
  return out;
}

bool has_lease_on(const model::Job& job, const std::vector<std::string>& devices) {
  return job.state == model::JobState::kRunning &&
         std::all_of(devices.begin(), devices.end(), [&](const std::string& device) {
           return std::any_of(job.grants.begin(), job.grants.end(),
                              [&](const model::Grant& grant) { return grant.unit == device; });
         });
}

bool has_token(std::string_view environment, const GivenGpus& given) {
  if (given.job == 0 || given.token.empty()) return false;
  const std::string wanted = fmt::format("{}={}:{}", kJobVariable, given.job, given.token);
  const auto all = split(environment, '\0');
  return std::find(all.begin(), all.end(), wanted) != all.end();
}

std::string podman_hook(const HookCall& call) {
  const Json hook{{"version", "1.0.0"},
                  {"hook", hook_json(call, false)},
                  {"when", {{"always", true}}},
                  {"stages", {"prestart"}}};
  return hook.dump(2) + "\n";
}

Result<std::string> with_hook(std::string_view config, const HookCall& call, bool nvidia_runtime) {
  Json json = parsed(config);
  if (!json.is_object()) return unreadable("config.json");
  Json& hooks = json["hooks"];
  if (!hooks.is_object()) hooks = Json::object();
  Json& prestart = hooks["prestart"];
  if (!prestart.is_array()) prestart = Json::array();
  prestart.push_back(hook_json(call, nvidia_runtime));
  return json.dump();
}

Result<std::string> with_runtime(std::string_view daemon, const std::string& program) {
  auto clean = without_runtime(daemon);
  if (!clean) return clean;
  Json json = clean->empty() ? Json::object() : parsed(*clean);
  const std::string was = word(member(json, kDefault));
  std::string next = "runc";
  if (const Json* all = member(json, "runtimes"); all != nullptr && !was.empty())
    if (const Json* one = member(*all, was.c_str()))
      if (const std::string path = word(member(*one, "path")); !path.empty()) next = path;
  // Docker writes these arguments into a script without quoting them, so an argument may not
  // contain blanks or special characters.
  Json words{"container", "runtime", "--next", next};
  if (!was.empty()) {
    words.push_back("--was");
    words.push_back(was);
  }
  words.push_back("--");
  json["runtimes"][kRuntime] = {{"path", program}, {"runtimeArgs", words}};
  json[kDefault] = kRuntime;
  return json.dump(2) + "\n";
}

Result<std::string> without_runtime(std::string_view daemon) {
  if (trim(daemon).empty()) return std::string();
  Json json = parsed(daemon);
  if (!json.is_object()) return bad_daemon();
  const auto runtimes = json.find("runtimes");
  if (runtimes != json.end() && !runtimes->is_object()) return bad_daemon();
  if (runtimes == json.end() || !runtimes->contains(kRuntime)) return json.dump(2) + "\n";
  std::string was;
  std::string last;
  each(member((*runtimes)[kRuntime], "runtimeArgs"), [&](const Json& one) {
    if (last == "--was") was = word(&one);
    last = word(&one);
  });
  runtimes->erase(kRuntime);
  if (runtimes->empty()) json.erase("runtimes");
  if (word(member(json, kDefault)) == kRuntime) {
    if (was.empty())
      json.erase(kDefault);
    else
      json[kDefault] = was;
  }
  return json.empty() ? std::string() : json.dump(2) + "\n";
}

}  // namespace berth::engines
