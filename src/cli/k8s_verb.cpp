// `berth k8s`: shows what Berth offers a kubelet on this machine, and starts the program that
// offers it.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/exit_code.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/k8s_lend.hpp"
#include "cli/k8s_verify.hpp"
#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "engines/kube_claim.hpp"
#include "engines/kube_devices.hpp"
#include "engines/other_plugin.hpp"
#include "engines/own_queue.hpp"
#include "output/json_writer.hpp"
#include "output/table.hpp"

namespace berth::cli {
namespace {

constexpr int kMostShares = 64;
constexpr std::uint64_t kMebibyte = 1 << 20;
constexpr std::uint64_t kLeastStep = 128 * kMebibyte;

Error wrong(std::string message, std::string hint) {
  return {ErrorCode::kInvalidArgument, "E1036", std::move(message), std::move(hint)};
}

/// Rejects options that this part of `berth k8s` does not accept.
Status refuse_foreign(const Arguments& given, const std::string& part) {
  struct Foreign {
    const char *option, *parts;
  };
  constexpr const char* kDra = "dra";
  constexpr const char* kVerify = "verify";
  constexpr const char* kServers = "devices, device-plugin, dra";
  constexpr const char* kPlugin = "devices, device-plugin";
  constexpr const char* kFolders = "devices, device-plugin, dra, lend, reclaim";
  static constexpr auto kOptions = std::to_array<Foreign>({{"--node", kDra},
                                                           {"--cdi", kDra},
                                                           {"--api", kDra},
                                                           {"--account", kDra},
                                                           {"--image", kVerify},
                                                           {"--namespace", kVerify},
                                                           {"--resource", kVerify},
                                                           {"--runtime-class", kVerify},
                                                           {"--timeout", "verify, lend, reclaim"},
                                                           {"--devices", "lend, reclaim"},
                                                           {"--inside", kVerify},
                                                           {"--shares", kServers},
                                                           {"--memory-step", kPlugin},
                                                           {"--pass", kServers},
                                                           {"--kubelet", kFolders},
                                                           {"--state", kFolders},
                                                           {"--interval", kFolders}});
  for (const Foreign& one : kOptions)
    if (given.has(one.option) && std::string_view(one.parts).find(part) == std::string_view::npos)
      return wrong(
          text("{} is an option of berth k8s {}, not of berth k8s {}", one.option, one.parts, part),
          "berth k8s --help");
  return Done{};
}

Result<engines::KubeConfig> config_of(const Arguments& given, const std::string& part) {
  if (auto own = refuse_foreign(given, part); !own) return std::move(own).error();
  const std::string verb = "berth k8s " + part;
  engines::KubeConfig config;
  if (const auto shares = given.value("--shares")) {
    const auto number = to_number(*shares);
    if (!number || *number < 1 || *number > kMostShares)
      return wrong(
          text("--shares: '{}' is not a number from 1 to {}", printable(*shares), kMostShares),
          verb + " --shares 4");
    config.shares = static_cast<int>(*number);
  }
  if (const auto step = given.value("--memory-step")) {
    if (config.shares > 0) return contradiction("--shares", "--memory-step");
    const auto bytes = parse_size(*step);
    if (!bytes || *bytes < kLeastStep || *bytes % kMebibyte != 0)
      return wrong(text("--memory-step: '{}' is not a size of at least 128 MiB, in whole MiB",
                        printable(*step)),
                   verb + " --memory-step 1GiB");
    config.memory_step_bytes = *bytes;
  }
  if (const auto interval = given.value("--interval"))
    if (const auto parsed = parse_duration(*interval);
        !parsed || *parsed < std::chrono::milliseconds(100))
      return wrong(text("--interval: '{}' is not a time of at least 100 ms", printable(*interval)),
                   verb + " --interval 5s");
  for (const char* option : {"--kubelet", "--state", "--cdi", "--account"})
    if (const auto folder = given.value(option); folder && !folder->starts_with('/'))
      return wrong(text("{}: '{}' is not an absolute path", option, printable(*folder)),
                   verb + " " + option + " /absolute/path");
  if (const auto node = given.value("--node"); node && !engines::is_node_name(*node))
    return wrong(text("--node: '{}' is not the name of a node", printable(*node)),
                 "kubectl get nodes");
  if (const auto api = given.value("--api"); api && !engines::api_address(*api))
    return wrong(text("--api: '{}' is not an address like https://10.96.0.1:443", printable(*api)),
                 "kubectl cluster-info");
  return config;
}

std::string json_of(const std::vector<engines::KubeResource>& resources) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.rows("resources", resources, [&](const engines::KubeResource& resource) {
    json.field("name", resource.name);
    json.rows("devices", resource.devices, [&](const engines::KubeDevice& device) {
      json.field("id", device.id);
      json.field("healthy", device.healthy);
      json.text_field("why", device.why);
      json.field("numa_node", device.numa);
      json.field("memory_limit_bytes", device.memory_limit_bytes);
    });
  });
  json.close('}');
  return json.finish();
}

/// Adds a row for each GPU, because each GPU is offered to Kubernetes as many small units of
/// memory.
void add_steps(const engines::KubeResource& resource, output::Table& table) {
  std::size_t first = 0;
  for (std::size_t i = 1; i <= resource.devices.size(); ++i) {
    const engines::KubeDevice& device = resource.devices[first];
    const std::string uuid = device.id.substr(0, device.id.find("::"));
    if (i < resource.devices.size() && resource.devices[i].id.starts_with(uuid + "::")) continue;
    table.add({resource.name, uuid,
               fmt::format("{} × {}", i - first, show_bytes(device.memory_limit_bytes.value_or(0))),
               device.healthy ? text("ok") : device.why});
    first = i;
  }
}

Result<int> print_devices(const Context& context) {
  const auto config = config_of(context.arguments, "devices");
  if (!config) return config.error();
  const auto seen = look(context, Processes::kUsers, false);
  if (!seen) return seen.error();
  auto units = engines::kube_units(*seen);
  // If this user cannot read the folder, it is unknown which GPUs are closed to pods. Then all GPUs
  // are shown.
  const engines::OwnQueue own(context.arguments.value("--state").value_or(kKubeState));
  if (own.units()) own.apply(units);
  const std::filesystem::path folder =
      context.arguments.value("--kubelet").value_or("/var/lib/kubelet/device-plugins");
  engines::OtherPlugins(folder.parent_path().string(), folder.string(),
                        engines::OtherPlugins::Part::kDevicePlugin)
      .apply(units);
  const auto resources = engines::kube_resources(units, *config);
  const bool is_empty = std::all_of(resources.begin(), resources.end(),
                                    [](const auto& one) { return one.devices.empty(); });
  if (context.json) {
    context.out(json_of(resources));
    return is_empty ? static_cast<int>(kNoDevice) : 0;
  }
  output::Table table(
      {{text("resource")}, {text("device")}, {text("memory"), true}, {text("state")}});
  for (const engines::KubeResource& resource : resources)
    for (const engines::KubeDevice& device : resource.devices)
      if (!device.memory_limit_bytes || config->memory_step_bytes == 0)
        table.add({resource.name, device.id,
                   device.memory_limit_bytes ? show_bytes(*device.memory_limit_bytes) : "-",
                   device.healthy ? text("ok") : device.why});
  if (config->memory_step_bytes > 0) add_steps(resources.front(), table);
  if (table.empty())
    return Error{ErrorCode::kNoDevice, "E1037",
                 text("there is no NVIDIA GPU to offer to Kubernetes"), "berth doctor"};
  context.out(table.render(context.out_terminal));
  return 0;
}

/// Checks that `berth k8s dra` knows its node and the API server: from options or, in a pod, from
/// variables.
Status check_place(const Arguments& given) {
  constexpr const char* kExample = "berth k8s dra --node NAME --api https://HOST:PORT";
  if (!given.value("--node") && !env_nonempty("NODE_NAME"))
    return wrong(text("the node's name is missing: {}", "--node, NODE_NAME"), kExample);
  if (!given.value("--api") && !env_nonempty("KUBERNETES_SERVICE_HOST"))
    return wrong(text("the API server's address is missing: {}", "--api, KUBERNETES_SERVICE_HOST"),
                 kExample);
  return Done{};
}

/// Replaces this process with berth-k8s, which is in the folder of this program if it was built.
Result<int> become_plugin(const Context& context, const char* part) {
  const Arguments& given = context.arguments;
  const auto config = config_of(given, part);
  if (!config) return config.error();
  if (std::string_view(part) == "dra")
    if (auto place = check_place(given); !place) return std::move(place).error();
  const auto program = k8s_program();
  if (!program) return program.error();
  std::vector<std::string> words{*program, part};
  for (const char* option : {"--shares", "--memory-step", "--pass", "--kubelet", "--state",
                             "--interval", "--node", "--api", "--account", "--cdi"})
    if (const auto value = given.value(option)) words.insert(words.end(), {option, *value});
  if (context.json) words.emplace_back("--json");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program->c_str(), pointers.data());
  return Error{ErrorCode::kUnsupported, "E1030",
               text("{} cannot be started: {}", *program, error_words(errno)), ""};
}

}  // namespace

Result<int> run_k8s(const Context& context) {
  const auto& words = context.arguments.positional;
  if (words.size() == 1 && words[0] == "devices") return print_devices(context);
  if (words.size() == 1 && words[0] == "device-plugin")
    return become_plugin(context, "device-plugin");
  if (words.size() == 1 && words[0] == "dra") return become_plugin(context, "dra");
  if (words.size() == 1 && words[0] == "verify") {
    if (auto own = refuse_foreign(context.arguments, "verify"); !own) return std::move(own).error();
    return run_k8s_verify(context);
  }
  if (words.size() == 1 && (words[0] == "lend" || words[0] == "reclaim")) {
    if (auto checked = config_of(context.arguments, words[0]); !checked)
      return std::move(checked).error();
    return k8s_lend(context, words[0]);
  }
  constexpr const char* kWords = "devices, device-plugin, dra, verify, lend, reclaim";
  return wrong(words.empty() ? text("the Kubernetes command is missing; possible: {}", kWords)
                             : text("'{}' is not one of {}", printable(words[0]), kWords),
               "berth k8s devices\nberth k8s device-plugin\nberth k8s dra\nberth k8s verify\n"
               "sudo berth k8s lend");
}

}  // namespace berth::cli
