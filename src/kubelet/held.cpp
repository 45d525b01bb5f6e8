#include "kubelet/held.hpp"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/write_file.hpp"
#include "engines/kube_claim.hpp"
#include "kubelet/podresources.grpc.pb.h"
#include "kubelet/socket_server.hpp"

namespace berth::kubelet {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kKubelet{5'000};
constexpr const char* kPodResources = "/pod-resources/kubelet.sock";

std::string given_in(const std::string& state) {
  return state + "/given";
}

/// Returns the uuid of the unit: "GPU-1" for "GPU-1::3".
std::string unit_of(const std::string& id) {
  return id.substr(0, id.find("::"));
}

Error unknown(const std::string& why, const std::string& hint) {
  return {ErrorCode::kUnavailable, "E1082", text("it is not known which GPUs pods have: {}", why),
          hint};
}

void add(Json& held, const std::string& device, const std::string& by) {
  held.push_back({{"device", device}, {"by", by}});
}

Status add_claims(const std::string& folder, Json& held) {
  for (const std::string& name : list_folder(folder)) {
    const std::string path = folder + "/" + name;
    if (name.ends_with(".damaged"))
      return unknown(text("{} is a damaged record of a claim", path),
                     "kubectl get pods --all-namespaces -o wide\nsudo rm " + path);
    if (!name.ends_with(".json")) continue;
    const auto words = read_file(path);
    if (!words && words.error().code == ErrorCode::kNotFound)
      continue;  // the claim was unprepared after the folder was listed
    const auto entry =
        words ? engines::journalled_claim(*words) : Result<engines::JournalledClaim>(words.error());
    if (!entry) return unknown(path + ": " + entry.error().message, "ls -l " + path);
    for (const engines::ClaimDevice& one : entry->claim.devices)
      add(held, one.device, entry->claim.space + "/" + entry->claim.name);
  }
  return Done{};
}

Result<v1::ListPodResourcesResponse> list_pods(const std::string& kubelet) {
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  arguments.SetMaxReceiveMessageSize(16 << 20);
  const auto stub = v1::PodResourcesLister::NewStub(grpc::CreateCustomChannel(
      "unix:" + kubelet + kPodResources, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kKubelet);
  v1::ListPodResourcesResponse answer;
  const grpc::Status status = stub->List(&context, {}, &answer);
  if (!status.ok())
    return unknown(text("the kubelet does not answer: {}", printable(status.error_message())),
                   "systemctl status kubelet");
  return answer;
}

/// Calls `each` once for each device of a vendor's resources that a pod has, with the device's id
/// and the pod ("default/train").
template <typename Each>
void for_each_device(const v1::ListPodResourcesResponse& pods, const char* vendor, Each each) {
  for (const auto& pod : pods.pod_resources())
    for (const auto& container : pod.containers())
      for (const auto& devices : container.devices()) {
        if (!devices.resource_name().starts_with(vendor)) continue;
        for (const std::string& id : devices.device_ids())
          each(id, pod.namespace_() + "/" + pod.name());
      }
}

Status add_pods(const std::string& kubelet, Json& held) {
  const auto pods = list_pods(kubelet);
  if (!pods) return pods.error();
  for_each_device(*pods, "berth.dev/", [&](const std::string& id, const std::string& pod) {
    add(held, unit_of(id), pod);
  });
  return Done{};
}

/// Adds the devices that were allocated less than `settle` ago. The kubelet may not list the pods
/// of these devices yet.
void add_recent(const std::string& folder, milliseconds settle, Json& held) {
  for (const std::string& name : list_folder(folder)) {
    struct stat status = {};
    timespec now = {};
    const std::string path = folder + "/" + name;
    if (::stat(path.c_str(), &status) != 0 || ::clock_gettime(CLOCK_REALTIME, &now) != 0) continue;
    const auto age = (now.tv_sec - status.st_mtim.tv_sec) * 1000 +
                     (now.tv_nsec - status.st_mtim.tv_nsec) / 1'000'000;
    if (age < settle.count()) add(held, slurp(path).value_or(""), text("a pod that is starting"));
  }
}

}  // namespace

Status note_given(const std::string& state, const std::vector<std::string>& ids) {
  const std::string folder = given_in(state);
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  for (const std::string& id : ids) {
    const std::string unit = unit_of(id);
    std::string name = unit;
    std::replace(name.begin(), name.end(), '/', '-');
    // If the file exists, update only its time, because replacing the file would also write to the
    // disk.
    const std::string path = folder + "/" + name;
    if (::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) continue;
    if (!replace_file(path, unit, 0600))
      return Error{ErrorCode::kUnavailable, "E0520",
                   text("{} cannot be written: {}", folder, error_words(errno)), "df -h " + folder};
  }
  return Done{};
}

std::optional<std::map<std::string, std::string>> pods_of(const std::string& kubelet,
                                                          const char* vendor) {
  if (!is_socket(kubelet + kPodResources)) return std::nullopt;
  const auto pods = list_pods(kubelet);
  if (!pods) return std::nullopt;
  std::map<std::string, std::string> found;
  for_each_device(*pods, vendor,
                  [&](const std::string& id, const std::string& pod) { found[id] = pod; });
  return found;
}

Result<std::string> pods_with_devices(const std::string& kubelet) {
  const auto listed = list_pods(kubelet);
  if (!listed) return listed.error();
  Json pods = Json::array();
  for (const auto& pod : listed->pod_resources())
    for (const auto& container : pod.containers()) {
      const auto add_device = [&](const std::string& device) {
        pods.push_back({{"device", device},
                        {"namespace", pod.namespace_()},
                        {"pod", pod.name()},
                        {"container", container.name()}});
      };
      for (const auto& devices : container.devices())
        if (devices.resource_name().starts_with("berth.dev/") ||
            devices.resource_name().starts_with("nvidia.com/"))
          for (const std::string& id : devices.device_ids()) add_device(unit_of(id));
      for (const auto& claim : container.dynamic_resources())
        for (const auto& one : claim.claim_resources())
          if (one.driver_name() == engines::kDraDriver) add_device(one.device_name());
    }
  return Json{{"pods", pods}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<std::string> held_devices(const HeldSettings& settings) {
  Json held = Json::array();
  const std::string claims = settings.state + "/claims", given = given_in(settings.state);
  if (auto done = add_claims(claims, held); !done) return std::move(done).error();
  // Read the recent allocations before the kubelet's list. If a device stops counting as recent
  // between the two calls, the kubelet already lists it.
  add_recent(given, settings.settle, held);
  std::error_code ignored;
  const bool has_claims_alone =
      std::filesystem::exists(claims, ignored) && !std::filesystem::exists(given, ignored);
  const auto pods = add_pods(settings.kubelet, held);
  if (!pods && !has_claims_alone) return pods.error();
  return Json{{"held", held}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace berth::kubelet
