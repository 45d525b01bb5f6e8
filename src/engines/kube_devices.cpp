#include "engines/kube_devices.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "engines/fitness.hpp"
#include "model/topology.hpp"

namespace berth::engines {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kShareMark = "::";
constexpr const char* kInside = "/run/berth";
constexpr const char* kDomain = "berth.dev/";
// The maximum number of steps per GPU. The kubelet gets the list of all steps in one message, so
// the list must be small.
constexpr std::uint64_t kMostSteps = 4096;

/// Changes a MIG profile into a valid resource name, which may contain only letters, digits, "-",
/// "_" and ".": "1g.10gb.me" for "1g.10gb+me".
std::string resource_word(std::string_view name) {
  if (name.starts_with("MIG ")) name.remove_prefix(4);
  std::string word;
  for (const char c : name)
    word += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-'
                ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                : '.';
  return word;
}

std::optional<std::uint64_t> usable_memory(const model::Device& device) {
  const auto& total = device.readings.memory_total_bytes;
  const auto& reserved = device.readings.memory_reserved_bytes;
  if (!total) return std::nullopt;
  return *total - std::min(*total, reserved ? *reserved : 0);
}

/// The device's failed check as the value of a Kubernetes label: letters, digits and "-".
std::string fault_of(const model::Device& device) {
  const auto check = failed_check(device);
  if (!check) return "";
  std::string word(check->id == "answers" ? "no-answer" : check->id);
  std::replace(word.begin(), word.end(), '_', '-');
  return word;
}

std::string uuid_of(std::string_view id) {
  return std::string(id.substr(0, id.find(kShareMark)));
}

const KubeUnit* unit_of(const std::vector<KubeUnit>& units, std::string_view id) {
  const std::string uuid = uuid_of(id);
  for (const KubeUnit& unit : units)
    if (unit.uuid == uuid) return &unit;
  return nullptr;
}

/// The equal parts (shares or steps) into which a unit is divided. The count is 0 if it is not
/// divided, or too small for one step.
struct Parts {
  int count = 0;
  std::optional<std::uint64_t> bytes;  // memory of each part
};

bool is_divided(const KubeUnit& unit, const KubeConfig& config) {
  return unit.profile.empty() && (config.shares > 0 || config.memory_step_bytes > 0);
}

/// Divides a unit into parts. The count is 0 if the unit has less memory than one step, or if its
/// memory is not known.
Parts parts_of(const KubeUnit& unit, const KubeConfig& config) {
  if (!is_divided(unit, config)) return {};
  if (config.shares > 0) return {config.shares, share_of(unit, config.shares)};
  const std::uint64_t step = config.memory_step_bytes;
  return {static_cast<int>(std::min(unit.memory_bytes.value_or(0) / step, kMostSteps)), step};
}

bool is_offered(std::string_view id, const KubeUnit& unit, const KubeConfig& config) {
  const bool divided = is_divided(unit, config);
  const auto mark = id.find(kShareMark);
  if (!divided || mark == std::string_view::npos) return !divided && mark == std::string_view::npos;
  const auto number = to_number(id.substr(mark + kShareMark.size()));
  return number && *number >= 0 && *number < parts_of(unit, config).count;
}

/// The error for a container that got memory of several GPUs, because no single GPU had enough.
Error scattered(const std::vector<const KubeUnit*>& given, const KubeAnswer& answer) {
  std::string found;
  for (const KubeUnit* unit : given)
    found += fmt::format("{}{} {}", found.empty() ? "" : ", ", unit->uuid,
                         show_bytes(answer.limits.at(unit->uuid)));
  return {ErrorCode::kUnavailable, "E1039",
          text("no single GPU of this node has the memory that the container requests: {}", found),
          text("request less berth.dev/gpu-memory, or use a claim: berth k8s dra")};
}

void add_nodes(const std::vector<const KubeUnit*>& given, KubeAnswer& answer) {
  for (const KubeUnit* unit : given)
    if (unit->minor) answer.nodes.push_back("/dev/nvidia" + std::to_string(*unit->minor));
  for (const char* common : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"})
    answer.nodes.emplace_back(common);
}

/// Groups device ids by a key that is computed from the unit of each id.
template <typename Key>
std::vector<std::string> packed(const std::vector<std::string>& available,
                                const std::vector<std::string>& required, std::size_t size,
                                Key key) {
  std::vector<std::string> chosen = required;
  std::set<std::string> taken(required.begin(), required.end());
  std::map<std::string, std::vector<std::string>> groups;
  for (const std::string& id : available)
    if (!taken.contains(id)) groups[key(id)].push_back(id);
  const auto take = [&](std::vector<std::string>& group) {
    for (const std::string& id : group)
      if (chosen.size() < size) chosen.push_back(id);
    group.clear();
  };
  for (const std::string& id : required) take(groups[key(id)]);
  while (chosen.size() < size) {
    const std::size_t wanted = size - chosen.size();
    // Use the smallest group that is large enough. If no group is large enough, use the largest.
    std::vector<std::string>* best = nullptr;
    for (auto& [name, group] : groups) {
      if (group.empty()) continue;
      const bool enough = group.size() >= wanted;
      const bool best_enough = best != nullptr && best->size() >= wanted;
      if (best == nullptr || (enough && !best_enough) ||
          (enough == best_enough &&
           (enough ? group.size() < best->size() : group.size() > best->size())))
        best = &group;
    }
    if (best == nullptr) break;
    take(*best);
  }
  return chosen;
}

model::Device device_of(const KubeUnit& unit) {
  model::Device device;
  device.pci_address = unit.pci;
  device.pci_path = unit.pci_path;
  device.numa_node = unit.numa;
  if (unit.profile.empty()) device.nvlink_peers = unit.nvlink_peers;  // slices cannot use NVLink
  return device;
}

/// Maps the uuid of a unit to the name of its group, which is the uuid of the group's first unit.
using Groups = std::map<std::string, std::string>;
Groups groups_of(const std::vector<KubeUnit>& units, model::Connection grade) {
  std::vector<model::Device> devices;
  for (const KubeUnit& unit : units) devices.push_back(device_of(unit));
  std::vector<const model::Device*> pointers;
  for (const model::Device& device : devices) pointers.push_back(&device);
  const auto numbers = model::groups_at(pointers, grade);
  Groups groups;
  for (std::size_t i = 0; i < units.size(); ++i) groups[units[i].uuid] = units[numbers[i]].uuid;
  return groups;
}

/// The kinds of connection by which GPUs are grouped, fastest first. Each group lies within one
/// group of the next kind.
constexpr std::array kGrades{model::Connection::kNvLink, model::Connection::kSwitch,
                             model::Connection::kSwitches, model::Connection::kHostBridge,
                             model::Connection::kNode};

/// Finds a group of grade `at` that has at least `size` available ids and all required ids. Takes
/// the group with the fewest available ids. If two have equally few, takes the one inside the
/// smaller group of the next grade, so that large groups stay whole.
std::optional<std::string> best_group(const std::vector<Groups>& groups, std::size_t at,
                                      const std::vector<std::string>& available,
                                      const std::vector<std::string>& required, std::size_t size) {
  const auto group_of = [&](std::size_t grade, const std::string& id) {
    const auto found = groups[grade].find(id);
    return found == groups[grade].end() ? id : found->second;
  };
  std::vector<std::map<std::string, std::size_t>> counts(groups.size());
  for (std::size_t grade = at; grade < groups.size(); ++grade)
    for (const std::string& id : available) ++counts[grade][group_of(grade, id)];
  std::optional<std::pair<std::vector<std::size_t>, std::string>> best;
  for (const std::string& id : available) {
    const std::string group = group_of(at, id);
    const bool has_required =
        std::all_of(required.begin(), required.end(),
                    [&](const std::string& other) { return group_of(at, other) == group; });
    if (!has_required || counts[at][group] < size) continue;
    std::vector<std::size_t> sizes;
    for (std::size_t grade = at; grade < groups.size(); ++grade)
      sizes.push_back(counts[grade][group_of(grade, id)]);
    if (!best || sizes < best->first) best = {sizes, group};
  }
  return best ? std::optional(best->second) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> share_of(const KubeUnit& unit, int shares) {
  if (!unit.memory_bytes || shares < 1) return std::nullopt;
  return *unit.memory_bytes / static_cast<std::uint64_t>(shares) >> 20U << 20U;
}

std::vector<KubeUnit> kube_units(const model::Snapshot& snapshot) {
  std::vector<KubeUnit> units;
  for (const model::Device& device : snapshot.devices) {
    if (device.kind != model::DeviceKind::kGpu || device.vendor != model::Vendor::kNvidia ||
        device.uuid.empty())
      continue;
    KubeUnit unit;
    unit.uuid = device.uuid;
    unit.model = device.name;
    unit.pci = device.pci_address;
    unit.pci_path = device.pci_path;
    unit.nvlink_peers = device.nvlink_peers;
    unit.minor = device.minor_number;
    unit.numa = device.numa_node && *device.numa_node >= 0 ? device.numa_node : std::nullopt;
    unit.memory_bytes = usable_memory(device);
    unit.why = why_unfit(device);
    unit.healthy = unit.why.empty();
    unit.fault = fault_of(device);
    if (!device.mig_enabled.value_or(false)) {
      units.push_back(std::move(unit));
      continue;
    }
    for (const model::Partition& part : device.partitions) {
      KubeUnit slice = unit;
      slice.uuid = part.uuid;
      slice.profile = resource_word(part.name);
      slice.memory_bytes = part.memory_total_bytes.value;
      units.push_back(std::move(slice));
    }
  }
  return units;
}

std::vector<KubeUnit> with_missing(std::vector<KubeUnit> seen,
                                   const std::vector<KubeUnit>& before) {
  // The driver does not report whether a lost GPU has MIG enabled, so the GPU looks like a whole
  // GPU. Leave it out if it had slices before.
  std::erase_if(seen, [&](const KubeUnit& unit) {
    return !unit.healthy && unit.profile.empty() && !unit.pci.empty() &&
           std::any_of(before.begin(), before.end(), [&](const KubeUnit& old) {
             return old.pci == unit.pci && !old.profile.empty();
           });
  });
  for (KubeUnit& unit : seen)
    if (const KubeUnit* old = unit.healthy ? nullptr : unit_of(before, unit.uuid)) {
      if (unit.model.empty()) unit.model = old->model;
      if (unit.pci.empty()) unit.pci = old->pci;
      if (unit.pci_path.empty()) unit.pci_path = old->pci_path;
      if (unit.nvlink_peers.empty()) unit.nvlink_peers = old->nvlink_peers;
      if (!unit.minor) unit.minor = old->minor;
      if (!unit.numa) unit.numa = old->numa;
      if (!unit.memory_bytes) unit.memory_bytes = old->memory_bytes;
    }
  // If a missing slice's GPU has other MIG slices now, the missing slice was replaced and is not
  // lost.
  const auto is_replaced = [&](const KubeUnit& old) {
    return !old.pci.empty() && std::any_of(seen.begin(), seen.end(), [&](const KubeUnit& unit) {
      return unit.healthy && unit.pci == old.pci;
    });
  };
  for (const KubeUnit& old : before) {
    if (unit_of(seen, old.uuid) != nullptr || is_replaced(old)) continue;
    KubeUnit gone = old;
    gone.healthy = false;
    gone.why = text("the driver does not list it any more");
    gone.fault = "lost";
    seen.push_back(std::move(gone));
  }
  return seen;
}

std::vector<KubeResource> kube_resources(const std::vector<KubeUnit>& units,
                                         const KubeConfig& config) {
  const char* name = config.shares > 0              ? "gpu-share"
                     : config.memory_step_bytes > 0 ? "gpu-memory"
                                                    : "gpu";
  std::vector<KubeResource> resources{{std::string(kDomain) + name, {}}};
  for (const KubeUnit& unit : units) {
    KubeDevice device{unit.uuid, unit.healthy, unit.why, unit.numa, std::nullopt};
    if (unit.profile.empty()) {
      if (!is_divided(unit, config)) resources.front().devices.push_back(device);
      const Parts parts = parts_of(unit, config);
      device.memory_limit_bytes = parts.bytes;
      for (int i = 0; i < parts.count; ++i) {
        device.id = fmt::format("{}{}{}", unit.uuid, kShareMark, i);
        resources.front().devices.push_back(device);
      }
      continue;
    }
    const std::string slices = std::string(kDomain) + "mig-" + unit.profile;
    auto at = std::find_if(resources.begin(), resources.end(),
                           [&](const KubeResource& one) { return one.name == slices; });
    if (at == resources.end()) at = resources.insert(at, {slices, {}});
    at->devices.push_back(device);
  }
  return resources;
}

std::map<std::string, std::string> nvlink_groups(const std::vector<KubeUnit>& units) {
  std::map<std::string, std::size_t> sizes;
  std::map<std::string, std::string> groups;
  for (const auto& [uuid, group] : groups_of(units, model::Connection::kNvLink)) {
    groups[uuid] = group;
    ++sizes[group];
  }
  std::erase_if(groups, [&](const auto& one) { return sizes[one.second] < 2; });
  return groups;
}

std::vector<std::string> preferred(const std::vector<KubeUnit>& units,
                                   const std::vector<std::string>& available,
                                   const std::vector<std::string>& required, std::size_t size) {
  const bool shares = std::any_of(available.begin(), available.end(), [](const std::string& id) {
    return id.find(kShareMark) != std::string::npos;
  });
  if (shares) return packed(available, required, size, uuid_of);
  std::vector<Groups> groups;
  for (const auto grade : kGrades) groups.push_back(groups_of(units, grade));
  for (std::size_t at = 0; at < groups.size(); ++at) {
    const auto group = best_group(groups, at, available, required, size);
    if (!group) continue;
    std::vector<std::string> near;
    for (const std::string& id : available)
      if (groups[at][id] == *group) near.push_back(id);
    // Inside the group, prefer GPUs of one group of the next nearer grade. In a group of the
    // nearest grade, all GPUs are equally near, so prefer GPUs of one NUMA node.
    Groups& inner = at == 0 ? groups.back() : groups[at - 1];
    return packed(near, required, size, [&](const std::string& id) { return inner[id]; });
  }
  return packed(available, required, size,
                [&](const std::string& id) { return groups.back()[id]; });
}

Result<KubeAnswer> kube_answer(const std::vector<std::string>& ids,
                               const std::vector<KubeUnit>& units, const KubeConfig& config) {
  if (ids.empty()) return Error{ErrorCode::kNotFound, "E1031", text("no device is requested"), ""};
  KubeAnswer answer;
  std::vector<const KubeUnit*> given;
  for (const std::string& id : ids) {
    const KubeUnit* unit = unit_of(units, id);
    if (unit == nullptr || !is_offered(id, *unit, config))
      return Error{ErrorCode::kNotFound, "E1031",
                   text("no device {} is offered to containers here", printable(id)),
                   "berth k8s devices"};
    if (!unit->healthy)
      return Error{ErrorCode::kUnavailable, "E1032",
                   text("{} cannot be used for a job: {}", id, unit->why), "berth health"};
    if (std::find(given.begin(), given.end(), unit) == given.end()) given.push_back(unit);
    if (const auto part = parts_of(*unit, config).bytes) answer.limits[unit->uuid] += *part;
  }
  if (config.memory_step_bytes > 0 && answer.limits.size() > 1) return scattered(given, answer);
  std::string uuids;
  for (const KubeUnit* unit : given) uuids += (uuids.empty() ? "" : ",") + unit->uuid;
  answer.variables["BERTH_DEVICES"] = uuids;
  if (config.pass == KubePass::kEnv) answer.variables["NVIDIA_VISIBLE_DEVICES"] = uuids;
  if (config.pass == KubePass::kCdi)
    for (const KubeUnit* unit : given) answer.cdi.push_back("nvidia.com/gpu=" + unit->uuid);
  if (config.pass == KubePass::kNodes) add_nodes(given, answer);
  return answer;
}

void add_guard(KubeAnswer& answer, const KubeGuard& files) {
  const std::string library = std::string(kInside) + "/libberth-guard.so";
  const std::string folder = std::string(kInside) + "/guard";
  answer.variables["LD_PRELOAD"] = library;
  answer.variables["BERTH_GUARD"] = folder;
  answer.mounts.push_back({library, files.library, true});
  answer.mounts.push_back({folder + "/limits", files.limits, true});
  // Each process in the container writes how much GPU memory it uses to files in this folder.
  answer.mounts.push_back({folder + "/usage", files.usage, false});
}

namespace {

Json nvlinks_json(const KubeUnit& unit) {
  Json out = Json::object();
  for (const model::NvLinkPeer& peer : unit.nvlink_peers) out[peer.pci_address] = peer.links;
  return out;
}

}  // namespace

std::string units_line(const std::vector<KubeUnit>& units) {
  const auto nullable = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  Json all = Json::array();
  for (const KubeUnit& unit : units)
    all.push_back({{"uuid", unit.uuid},
                   {"profile", unit.profile},
                   {"model", unit.model},
                   {"pci", unit.pci},
                   {"pci_path", unit.pci_path},
                   {"nvlinks", nvlinks_json(unit)},
                   {"minor", nullable(unit.minor)},
                   {"numa", nullable(unit.numa)},
                   {"memory", nullable(unit.memory_bytes)},
                   {"healthy", unit.healthy},
                   {"why", unit.why},
                   {"fault", unit.fault},
                   {"unguarded", unit.unguarded}});
  return all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<std::vector<KubeUnit>> units_in(const std::string& line) {
  std::vector<KubeUnit> units;
  try {
    for (const Json& one : Json::parse(line)) {
      KubeUnit unit;
      unit.uuid = one.at("uuid");
      unit.profile = one.at("profile");
      unit.model = one.at("model");
      unit.pci = one.at("pci");
      unit.pci_path = one.at("pci_path");
      for (const auto& [address, links] : one.at("nvlinks").items())
        unit.nvlink_peers.push_back({address, links.get<std::uint32_t>()});
      if (!one.at("minor").is_null()) unit.minor = one.at("minor").get<std::uint32_t>();
      if (!one.at("numa").is_null()) unit.numa = one.at("numa").get<int>();
      if (!one.at("memory").is_null()) unit.memory_bytes = one.at("memory").get<std::uint64_t>();
      unit.healthy = one.at("healthy");
      unit.why = one.at("why");
      unit.fault = one.at("fault");
      unit.unguarded = one.at("unguarded");
      units.push_back(std::move(unit));
    }
  } catch (const Json::exception&) {
    return Error{ErrorCode::kInvalidArgument, "E1033", text("a list of devices cannot be read"),
                 ""};
  }
  return units;
}

}  // namespace berth::engines
