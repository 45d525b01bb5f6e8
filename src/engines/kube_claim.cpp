#include "engines/kube_claim.hpp"

#include <algorithm>
#include <cctype>

#include "base/digest.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "engines/other_plugin.hpp"
#include "engines/own_queue.hpp"

namespace berth::engines {
namespace {

using Json = nlohmann::json;

// The largest number of devices in one slice. The API server allows 128, or 64 with taints,
// consumed counters or list attributes.
constexpr std::size_t kMostDevices = 64;
constexpr std::uint64_t kMebibyte = 1U << 20U;
constexpr const char* kDigest = "berth.dev/devices";
constexpr const char* kShareMark = "-share-";
// The maximum number of claims that can share one GPU; the limit of `--shares`.
constexpr std::int64_t kMostShares = 64;

Error unreadable(const char* what) {
  return {ErrorCode::kUnavailable, "E0969",
          text("the API server's answer cannot be read: {}", what), ""};
}

std::uint64_t number_at(const Json& object, const char* key) {
  const Json& value = json_member(object, key);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

/// A device name is a DNS label: "gpu-6e4a0f0e-…" for "GPU-6e4a0f0e-…".
std::string device_name(const std::string& uuid) {
  std::string name;
  for (const char c : uuid)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0
                ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                : '-';
  name = name.substr(0, 50);
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

Json amount(std::uint64_t mebibytes) {
  return std::to_string(mebibytes) + "Mi";
}

Json attributes_of(const KubeUnit& unit, const std::string& nvlink_group) {
  // A selector that uses a missing attribute is an error for the scheduler. So every device has all
  // of these attributes; only `numa`, the PCIe root, the NVLink group and the capacity `memory` may
  // be absent.
  Json all{{"uuid", {{"string", unit.uuid.substr(0, 64)}}},
           {"model", {{"string", unit.model.substr(0, 64)}}},
           {"kind", {{"string", unit.profile.empty() ? "gpu" : "mig"}}},
           {"profile", {{"string", unit.profile.substr(0, 64)}}},
           {"pciAddress", {{"string", unit.pci.substr(0, 64)}}}};
  if (unit.numa) all["numa"] = {{"int", *unit.numa}};
  if (!nvlink_group.empty()) all["nvlinkGroup"] = {{"string", nvlink_group.substr(0, 64)}};
  // The name of this attribute is a standard of Kubernetes. With it, a claim can request a GPU and
  // a network card of the same PCIe root.
  if (const std::string root = unit.pci_path.substr(0, unit.pci_path.find('/'));
      !root.empty() && root.size() <= 64)
    all["resource.kubernetes.io/pcieRoot"] = {{"string", root}};
  return all;
}

/// Describes a capacity that several claims can consume in parts. A claim that requests no amount
/// consumes one share.
Json divided(std::uint64_t mebibytes, std::uint64_t part, int shares) {
  return {{"memory",
           {{"value", amount(mebibytes)},
            {"requestPolicy",
             {{"default", amount(part)}, {"validRange", {{"min", "1Mi"}, {"step", "1Mi"}}}}}}},
          {"shares",
           {{"value", std::to_string(shares)},
            {"requestPolicy", {{"default", "1"}, {"validRange", {{"min", "1"}, {"step", "1"}}}}}}}};
}

/// Whether claims share the unit. A GPU with unknown memory is not shared, because no quota could
/// be computed. A MIG slice is not shared either.
bool is_shared(const KubeUnit& unit, int shares) {
  return unit.profile.empty() && share_of(unit, shares).value_or(0) > 0;
}

Json taint_of(const KubeUnit& unit) {
  Json taint{{"key", kUnhealthyTaint}, {"value", unit.fault}, {"effect", "NoSchedule"}};
  if (unit.fault == kOwnQueueFault) taint.update({{"key", kOwnQueueTaint}, {"value", "berth"}});
  if (unit.fault == kOtherPluginFault)
    taint.update({{"key", kOtherPluginTaint}, {"value", "true"}});
  return taint;
}

/// Whether Berth's own queue or another program may allocate this unit. Then no claim gets the
/// unit, even a claim that tolerates its taint.
bool is_closed(const KubeUnit& unit) {
  return unit.fault == kOwnQueueFault || unit.fault == kOtherPluginFault;
}

void add_devices(const KubeUnit& unit, const std::string& nvlink_group,
                 const SliceSettings& settings, Json& out) {
  Json device{{"name", device_name(unit.uuid)}, {"attributes", attributes_of(unit, nvlink_group)}};
  if (!unit.healthy) device["taints"] = Json::array({taint_of(unit)});
  const std::uint64_t mebibytes = unit.memory_bytes.value_or(0) / kMebibyte;
  if (!is_shared(unit, settings.shares)) {
    device["capacity"] = {{"shares", {{"value", "1"}}}};
    if (unit.memory_bytes) device["capacity"]["memory"] = {{"value", amount(mebibytes)}};
    out.push_back(device);
  } else if (settings.consumable) {
    device["allowMultipleAllocations"] = true;
    device["capacity"] =
        divided(mebibytes, *share_of(unit, settings.shares) / kMebibyte, settings.shares);
    out.push_back(device);
  } else {
    const auto part = *share_of(unit, settings.shares) / kMebibyte;
    device["capacity"] = {{"memory", {{"value", amount(part)}}}, {"shares", {{"value", "1"}}}};
    for (int i = 0; i < settings.shares; ++i) {
      device["name"] = device_name(unit.uuid) + kShareMark + std::to_string(i);
      out.push_back(device);
    }
  }
}

/// The parts of a device name in a ResourceSlice: "gpu-6e4a…-share-3" is share 3 of a unit.
struct DeviceName {
  std::string unit;
  std::optional<int> share;
};
/// Splits a device name. nullopt if no ResourceSlice can contain this name.
std::optional<DeviceName> name_parts(const std::string& name) {
  const auto mark = name.find(kShareMark);
  if (mark == std::string::npos) return DeviceName{name, std::nullopt};
  const std::string written = name.substr(mark + std::string_view(kShareMark).size());
  const auto number = to_number(written);
  if (!number || *number < 0 || *number >= kMostShares || std::to_string(*number) != written)
    return std::nullopt;
  return DeviceName{name.substr(0, mark), static_cast<int>(*number)};
}

const KubeUnit* unit_named(const std::vector<KubeUnit>& units, const std::string& name) {
  const auto parts = name_parts(name);
  for (const KubeUnit& unit : units)
    if (parts && device_name(unit.uuid) == parts->unit) return &unit;
  return nullptr;
}

std::string taint_name(const Json& device, const Json& taint) {
  return fmt::format("{} {}={}", json_text(device, "name"), json_text(taint, "key"),
                     json_text(taint, "value"));
}

/// Reads the values for PublishedSlice::tainted from an array of devices.
std::map<std::string, std::string> taints_of(const Json& devices) {
  std::map<std::string, std::string> out;
  if (!devices.is_array()) return out;
  for (const Json& device : devices)
    if (const Json& taints = json_member(device, "taints"); taints.is_array())
      for (const Json& taint : taints)
        out[taint_name(device, taint)] = json_text(taint, "timeAdded");
  return out;
}

/// Whether one of a result's tolerations matches Berth's taint. The scheduler has already compared
/// the taint's value, which may have changed since then.
bool tolerates_unhealthy(const Json& result) {
  const Json& all = json_member(result, "tolerations");
  return all.is_array() && std::any_of(all.begin(), all.end(), [](const Json& one) {
           const std::string key = json_text(one, "key"), effect = json_text(one, "effect");
           return one.is_object() && (key.empty() || key == kUnhealthyTaint) &&
                  (effect.empty() || effect == "NoSchedule");
         });
}

Error not_there(const std::string& device) {
  return {ErrorCode::kNotFound, "E1031",
          text("no device {} is offered to containers here", printable(device)),
          "berth k8s devices"};
}

Error without_size(const std::string& device) {
  // A share of unknown size is refused, because the guard needs a size to enforce a limit.
  return {ErrorCode::kUnavailable, "E1032",
          text("{} cannot be used for a job: {}", printable(device),
               text("the memory of this share is not known")),
          "berth k8s devices"};
}

/// Whether a device that a claim has would be published now with the same name and size.
bool is_same_naming(const ClaimDevice& held, const KubeUnit& unit, const SliceSettings& settings) {
  const auto parts = name_parts(held.device);
  if (held.pool != settings.node) return false;  // the node was renamed
  if (!is_shared(unit, settings.shares))
    return !parts->share && held.share.empty() && !held.memory_bytes;
  // The API server counts how much memory of a divided GPU is allocated, so every size is valid.
  if (settings.consumable) return !parts->share && held.memory_bytes;
  return parts->share && *parts->share < settings.shares &&
         held.memory_bytes == share_of(unit, settings.shares);
}

Error lost_claim(const std::string& name) {
  return {ErrorCode::kNotFound, "E1031",
          text("the claim {} was deleted, or replaced by another claim with the same name", name),
          ""};
}

}  // namespace

std::string Slice::json(std::uint64_t generation, std::size_t slices, const std::string& version,
                        const std::map<std::string, std::string>& since) const {
  Json all = Json::parse(devices);
  // Send the time at which each taint was added. If it is missing in an update, the server sets it
  // to the current time.
  for (Json& device : all) {
    if (!device.contains("taints")) continue;
    Json& taint = device["taints"].front();
    const auto time = since.find(taint_name(device, taint));
    if (time != since.end()) taint["timeAdded"] = time->second;
  }
  Json out{{"apiVersion", "resource.k8s.io/v1"},
           {"kind", "ResourceSlice"},
           {"metadata", {{"name", name}, {"annotations", {{kDigest, digest}}}}},
           {"spec",
            {{"driver", kDraDriver},
             {"nodeName", node},
             {"pool", {{"name", node}, {"generation", generation}, {"resourceSliceCount", slices}}},
             {"devices", std::move(all)}}}};
  // With an owner reference, Kubernetes deletes the ResourceSlice when the node is deleted.
  if (!node_uid.empty())
    out["metadata"]["ownerReferences"] = {{{"apiVersion", "v1"},
                                           {"kind", "Node"},
                                           {"name", node},
                                           {"uid", node_uid},
                                           {"controller", true}}};
  if (!version.empty()) out["metadata"]["resourceVersion"] = version;
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<Slice> resource_slices(const std::vector<KubeUnit>& units,
                                   const SliceSettings& settings) {
  Json all = Json::array();
  auto nvlink = nvlink_groups(units);
  for (const KubeUnit& unit : units)
    if (unit.healthy || settings.taints) add_devices(unit, nvlink[unit.uuid], settings, all);
  std::vector<Slice> slices;
  for (std::size_t first = 0; first == 0 || first < all.size(); first += kMostDevices) {
    Json part = Json::array();
    for (std::size_t i = first; i < std::min(all.size(), first + kMostDevices); ++i)
      part.push_back(all[i]);
    Slice slice;
    slice.name = settings.node + "-gpu-berth-dev-" + std::to_string(slices.size());
    slice.node = settings.node;
    slice.node_uid = settings.node_uid;
    slice.devices = part.dump(-1, ' ', false, Json::error_handler_t::replace);
    slice.digest = hex(sha256(slice.node_uid + slice.devices)).substr(0, 32);
    slices.push_back(std::move(slice));
  }
  return slices;
}

Result<std::vector<PublishedSlice>> published_slices(const std::string& json) {
  const Json all = Json::parse(json, nullptr, false);
  const Json& items = json_member(all, "items");
  if (!items.is_array()) return unreadable("ResourceSliceList");
  std::vector<PublishedSlice> out;
  for (const Json& one : items) {
    const Json& metadata = json_member(one, "metadata");
    const Json& spec = json_member(one, "spec");
    PublishedSlice slice;
    slice.name = json_text(metadata, "name");
    slice.version = json_text(metadata, "resourceVersion");
    slice.digest = json_text(json_member(metadata, "annotations"), kDigest);
    slice.generation = number_at(json_member(spec, "pool"), "generation");
    slice.slices = number_at(json_member(spec, "pool"), "resourceSliceCount");
    slice.is_consumable =
        keeps_divided(one.dump(-1, ' ', false, Json::error_handler_t::replace)).value_or(false);
    slice.tainted = taints_of(json_member(spec, "devices"));
    if (!slice.name.empty()) out.push_back(std::move(slice));
  }
  return out;
}

bool is_current(const std::vector<Slice>& wanted, const std::vector<PublishedSlice>& published) {
  if (wanted.size() != published.size()) return false;
  // A server that lacks one of these features drops the fields of that feature.
  const auto any = [&](auto has) { return std::any_of(published.begin(), published.end(), has); };
  if (any([](const auto& one) { return one.is_consumable; }) != has_divided(wanted) ||
      any([](const auto& one) { return !one.tainted.empty(); }) != has_tainted(wanted))
    return false;
  return std::all_of(wanted.begin(), wanted.end(), [&](const Slice& slice) {
    return std::any_of(published.begin(), published.end(), [&](const PublishedSlice& one) {
      return one.name == slice.name && one.digest == slice.digest && one.slices == wanted.size() &&
             one.generation == published.front().generation;
    });
  });
}

Result<Claim> claim_in(const std::string& json, const std::string& uid, const std::string& pool) {
  const Json all = Json::parse(json, nullptr, false);
  const Json& metadata = json_member(all, "metadata");
  if (!metadata.is_object()) return unreadable("ResourceClaim");
  Claim claim{json_text(metadata, "namespace"), json_text(metadata, "name"), uid, {}};
  if (json_text(metadata, "uid") != uid) return lost_claim(printable(claim.name));
  const Json& results = json_member(
      json_member(json_member(json_member(all, "status"), "allocation"), "devices"), "results");
  std::string other_pool;
  if (results.is_array())
    for (const Json& one : results) {
      if (json_text(one, "driver") != kDraDriver) continue;
      if (json_text(one, "pool") != pool) {
        other_pool = json_text(one, "pool");
        continue;
      }
      ClaimDevice device{json_text(one, "request"), pool,         json_text(one, "device"),
                         json_text(one, "shareID"), std::nullopt, tolerates_unhealthy(one)};
      if (const std::string memory = json_text(json_member(one, "consumedCapacity"), "memory");
          !memory.empty()) {
        device.memory_bytes = quantity_bytes(memory);
        if (!device.memory_bytes)
          return Error{ErrorCode::kUnavailable, "E0969",
                       text("the memory of the claim {} is '{}', not a whole number of bytes",
                            printable(claim.name), printable(memory.substr(0, 40))),
                       "kubectl get resourceclaim -o yaml"};
      }
      claim.devices.push_back(std::move(device));
    }
  if (claim.devices.empty() && !other_pool.empty())
    return Error{ErrorCode::kNotFound, "E1078",
                 text("the claim {} has GPUs of the node {}, but this driver serves the node {}",
                      printable(claim.name), printable(other_pool), pool),
                 "kubectl get nodes"};
  if (claim.devices.empty())
    return Error{
        ErrorCode::kNotFound, "E1031",
        text("the claim {} has no device of {} on this node", printable(claim.name), kDraDriver),
        "kubectl describe resourceclaim"};
  return claim;
}

bool has_divided(const std::vector<Slice>& slices) {
  return std::any_of(slices.begin(), slices.end(), [](const Slice& slice) {
    return keeps_divided(slice.json(1, 1, "")).value_or(false);
  });
}

bool has_tainted(const std::vector<Slice>& slices) {
  return std::any_of(slices.begin(), slices.end(), [](const Slice& slice) {
    return keeps_taints(slice.json(1, 1, "")).value_or(false);
  });
}

std::string trial_slice(const Slice& slice) {
  Slice trial = slice;
  // Add a suffix, because the server refuses a name that already exists.
  trial.name += "-trial";
  return trial.json(1, 1, "");
}

std::optional<bool> keeps_divided(const std::string& json) {
  const Json all = Json::parse(json, nullptr, false);
  const Json& devices = json_member(json_member(all, "spec"), "devices");
  if (!devices.is_array()) return std::nullopt;
  return std::any_of(devices.begin(), devices.end(), [](const Json& device) {
    return json_member(device, "allowMultipleAllocations") == Json(true);
  });
}

std::optional<bool> keeps_taints(const std::string& json) {
  const Json all = Json::parse(json, nullptr, false);
  const Json& devices = json_member(json_member(all, "spec"), "devices");
  if (!devices.is_array()) return std::nullopt;
  return !taints_of(devices).empty();
}

std::vector<KubeUnit> publishable(const std::vector<KubeUnit>& units, const SliceSettings& settings,
                                  const std::vector<ClaimDevice>& held,
                                  std::vector<std::string>& withheld) {
  std::vector<KubeUnit> out;
  for (const KubeUnit& unit : units) {
    const bool is_free = std::all_of(held.begin(), held.end(), [&](const ClaimDevice& one) {
      const auto parts = name_parts(one.device);
      return !parts || parts->unit != device_name(unit.uuid) || is_same_naming(one, unit, settings);
    });
    if (is_free)
      out.push_back(unit);
    else
      withheld.push_back(device_name(unit.uuid));
  }
  return out;
}

Result<Claim> sized_claim(Claim claim, const std::vector<KubeUnit>& units,
                          const KubeConfig& config) {
  for (ClaimDevice& device : claim.devices) {
    const KubeUnit* unit = unit_named(units, device.device);
    if (unit == nullptr) return not_there(device.device);
    const bool shared = is_shared(*unit, config.shares);
    if (const auto share = name_parts(device.device)->share) {
      if (!shared || *share >= config.shares) return not_there(device.device);
      device.memory_bytes = share_of(*unit, config.shares);
    }
    if (!device.memory_bytes && (shared || !device.share.empty()))
      return without_size(device.device);
  }
  return claim;
}

Result<KubeAnswer> claim_answer(const Claim& claim, const std::vector<KubeUnit>& units,
                                const KubeConfig& config) {
  std::vector<std::string> uuids;
  std::map<std::string, std::uint64_t> limits;
  std::vector<KubeUnit> usable = units;
  for (const ClaimDevice& device : claim.devices) {
    const KubeUnit* unit = unit_named(units, device.device);
    if (unit == nullptr) return not_there(device.device);
    if (device.tolerates && !is_closed(*unit))
      usable[static_cast<std::size_t>(unit - units.data())].healthy = true;
    uuids.push_back(unit->uuid);
    if (device.memory_bytes)
      limits[unit->uuid] += *device.memory_bytes;
    else if (name_parts(device.device)->share || !device.share.empty())
      return without_size(device.device);
  }
  KubeConfig whole = config;
  whole.shares = 0;
  auto answer = kube_answer(uuids, usable, whole);
  if (answer) answer->limits = std::move(limits);
  return answer;
}

bool is_device_of(const std::string& device, const std::string& uuid) {
  const auto parts = name_parts(device);
  return parts && parts->unit == device_name(uuid);
}

std::string claim_cdi_name(const std::string& uid) {
  return "berth.dev/claim=" + uid;
}

std::string claim_cdi_file(const std::string& uid, const KubeAnswer& answer) {
  Json variables = Json::array();
  for (const auto& [name, value] : answer.variables) variables.push_back(name + "=" + value);
  Json mounts = Json::array();
  for (const KubeMount& mount : answer.mounts)
    mounts.push_back({{"hostPath", mount.host},
                      {"containerPath", mount.container},
                      {"options", {"bind", mount.read_only ? "ro" : "rw", "nosuid", "nodev"}}});
  Json nodes = Json::array();
  for (const std::string& node : answer.nodes) nodes.push_back({{"path", node}});
  Json edits{{"env", variables}};
  if (!mounts.empty()) edits["mounts"] = mounts;
  if (!nodes.empty()) edits["deviceNodes"] = nodes;
  const Json all{{"cdiVersion", "0.5.0"},
                 {"kind", "berth.dev/claim"},
                 {"devices", {{{"name", uid}, {"containerEdits", edits}}}}};
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string claim_line(const Claim& claim, const std::vector<std::string>& cdi) {
  Json devices = Json::array();
  for (const ClaimDevice& one : claim.devices)
    devices.push_back({{"request", one.request},
                       {"pool", one.pool},
                       {"device", one.device},
                       {"share", one.share},
                       {"tolerates", one.tolerates},
                       {"memory_bytes", one.memory_bytes ? Json(*one.memory_bytes) : Json()}});
  const Json all{{"schema", 1},      {"namespace", claim.space}, {"name", claim.name},
                 {"uid", claim.uid}, {"devices", devices},       {"cdi", cdi}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<JournalledClaim> journalled_claim(const std::string& line) {
  JournalledClaim out;
  try {
    const Json all = Json::parse(line);
    out.claim = {all.at("namespace").get<std::string>(),
                 all.at("name").get<std::string>(),
                 all.at("uid").get<std::string>(),
                 {}};
    for (const Json& one : all.at("devices")) {
      ClaimDevice device{one.at("request").get<std::string>(), one.at("pool").get<std::string>(),
                         one.at("device").get<std::string>(), one.at("share").get<std::string>(),
                         std::nullopt};
      if (const Json& value = json_member(one, "tolerates"); value.is_boolean())
        device.tolerates = value.get<bool>();
      if (!one.at("memory_bytes").is_null())
        device.memory_bytes = json_value<std::uint64_t>(one.at("memory_bytes"));
      out.claim.devices.push_back(std::move(device));
    }
    read_json(all.at("cdi"), out.cdi);
  } catch (const Json::exception&) {
    return unreadable("journal");
  }
  return out;
}

namespace {

/// Parses a decimal exponent: "e9" or "E9" is 1'000'000'000.
std::optional<std::uint64_t> power_of_ten(const std::string& suffix) {
  constexpr std::int64_t kMost = 19;  // 10^19 is the largest power of ten in 64 bits
  if (suffix.size() < 2 || (suffix[0] != 'e' && suffix[0] != 'E')) return std::nullopt;
  const auto exponent = to_number(suffix.substr(1));
  if (!exponent || *exponent < 0 || *exponent > kMost) return std::nullopt;
  std::uint64_t power = 1;
  for (std::int64_t i = 0; i < *exponent; ++i) power *= 10;
  return power;
}

}  // namespace

std::optional<ApiAddress> api_address(std::string_view url) {
  constexpr std::string_view kScheme = "https://";
  if (!url.starts_with(kScheme)) return std::nullopt;
  url.remove_prefix(kScheme.size());
  while (url.ends_with('/')) url.remove_suffix(1);
  const auto colon = url.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && url.find(']', colon) == std::string_view::npos;
  ApiAddress out{std::string(url.substr(0, has_port ? colon : url.size())),
                 has_port ? std::string(url.substr(colon + 1)) : "443"};
  const bool is_v6 = out.host.starts_with('[') && out.host.ends_with(']');
  if (is_v6) out.host = out.host.substr(1, out.host.size() - 2);
  const auto port = to_number(out.port);
  const bool is_host =
      !out.host.empty() && std::all_of(out.host.begin(), out.host.end(), [&](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' ||
               (is_v6 && c == ':');
      });
  if (!is_host || !port || *port < 1 || *port > 65535) return std::nullopt;
  return out;
}

bool is_node_name(const std::string& name) {
  return !name.empty() && name.size() <= 253 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

std::optional<std::uint64_t> quantity_bytes(const std::string& text) {
  std::size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0)
    ++digits;
  const auto number = to_number(text.substr(0, digits));
  if (digits == 0 || !number || *number < 0) return std::nullopt;
  static const std::map<std::string, std::uint64_t> kUnits{{"", 1},
                                                           {"k", 1000},
                                                           {"M", 1'000'000},
                                                           {"G", 1'000'000'000},
                                                           {"T", 1'000'000'000'000},
                                                           {"Ki", 1ULL << 10U},
                                                           {"Mi", 1ULL << 20U},
                                                           {"Gi", 1ULL << 30U},
                                                           {"Ti", 1ULL << 40U},
                                                           {"P", 1'000'000'000'000'000},
                                                           {"E", 1'000'000'000'000'000'000},
                                                           {"Pi", 1ULL << 50U},
                                                           {"Ei", 1ULL << 60U}};
  const std::string suffix = text.substr(digits);
  auto bytes = static_cast<std::uint64_t>(*number);
  if (suffix == "m") return bytes % 1000 == 0 ? std::optional(bytes / 1000) : std::nullopt;
  const auto unit = kUnits.find(suffix);
  const auto factor = unit != kUnits.end() ? std::optional(unit->second) : power_of_ten(suffix);
  if (!factor || __builtin_mul_overflow(bytes, *factor, &bytes)) return std::nullopt;
  return bytes;
}

bool is_safe_uid(const std::string& uid) {
  return !uid.empty() && uid.size() <= 64 && std::all_of(uid.begin(), uid.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-';
  });
}

}  // namespace berth::engines
