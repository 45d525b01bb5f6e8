#include "kubelet/plugin.hpp"

#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "base/text.hpp"
#include "engines/other_plugin.hpp"
#include "engines/own_queue.hpp"
#include "engines/unguarded.hpp"
#include "guard/container.hpp"
#include "kubelet/deviceplugin.grpc.pb.h"
#include "kubelet/held.hpp"
#include "kubelet/log.hpp"
#include "kubelet/socket_server.hpp"

namespace berth::kubelet {
namespace {

using std::chrono::milliseconds;

constexpr const char* kVersion = "v1beta1";

grpc::Status status_of(const Error& error) {
  const auto code = error.code == ErrorCode::kUnavailable ? grpc::StatusCode::UNAVAILABLE
                                                          : grpc::StatusCode::NOT_FOUND;
  return {code, error.message + " (" + error.id + ")"};
}

template <typename Repeated>
std::vector<std::string> list_of(const Repeated& words) {
  return {words.begin(), words.end()};
}

void fill(const engines::KubeAnswer& answer, v1beta1::ContainerAllocateResponse& out) {
  for (const auto& [name, value] : answer.variables) (*out.mutable_envs())[name] = value;
  for (const engines::KubeMount& mount : answer.mounts) {
    auto* one = out.add_mounts();
    one->set_container_path(mount.container);
    one->set_host_path(mount.host);
    one->set_read_only(mount.read_only);
  }
  for (const std::string& node : answer.nodes) {
    auto* one = out.add_devices();
    one->set_container_path(node);
    one->set_host_path(node);
    one->set_permissions("rw");
  }
  for (const std::string& name : answer.cdi) out.add_cdi_devices()->set_name(name);
}

}  // namespace

class Plugin::Service final : public v1beta1::DevicePlugin::Service {
 public:
  Service(const PluginSettings& settings, const std::string& resource, const Devices& devices)
      : settings_(settings), resource_(resource), devices_(devices) {}

  grpc::Status GetDevicePluginOptions(grpc::ServerContext*, const v1beta1::Empty*,
                                      v1beta1::DevicePluginOptions* options) override {
    options->set_get_preferred_allocation_available(true);
    return grpc::Status::OK;
  }

  grpc::Status ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty*,
                            grpc::ServerWriter<v1beta1::ListAndWatchResponse>* writer) override {
    std::uint64_t known = 0;
    while (!context->IsCancelled() && !ending_) {
      const std::uint64_t now = devices_.version();
      if (now != known) {
        known = now;
        if (!writer->Write(list())) break;
      }
      devices_.wait(known, milliseconds(200));
    }
    return grpc::Status::OK;
  }

  grpc::Status GetPreferredAllocation(grpc::ServerContext*,
                                      const v1beta1::PreferredAllocationRequest* request,
                                      v1beta1::PreferredAllocationResponse* response) override {
    const auto units = devices_.units();
    for (const auto& one : request->container_requests()) {
      auto* answer = response->add_container_responses();
      for (const std::string& id : engines::preferred(
               units, list_of(one.available_deviceids()), list_of(one.must_include_deviceids()),
               static_cast<std::size_t>(std::max(one.allocation_size(), 0))))
        answer->add_deviceids(id);
    }
    return grpc::Status::OK;
  }

  grpc::Status Allocate(grpc::ServerContext*, const v1beta1::AllocateRequest* request,
                        v1beta1::AllocateResponse* response) override {
    // `berth k8s reclaim` waits until this lock is released. It then sees that these devices are
    // allocated.
    const engines::OwnQueue own(settings_.state);
    const auto held = own.hold();
    if (!held) return refuse(held.error());
    auto units = devices_.units();
    own.apply(units);
    engines::OtherPlugins(settings_.kubelet, settings_.folder,
                          engines::OtherPlugins::Part::kDevicePlugin)
        .apply(units);
    for (const auto& one : request->container_requests()) {
      const auto ids = list_of(one.devices_ids());
      auto answer = engines::kube_answer(ids, units, settings_.config);
      if (!answer) return refuse(answer.error());
      if (!answer->limits.empty()) {
        const auto files = guard::files_for_container(
            settings_.state + "/slots/" + engines::slot_name(ids.front()), settings_.state + "/lib",
            answer->limits);
        // Without the guard, the container could use more than its share. So refuse to start the
        // container.
        if (!files) return refuse(files.error());
        engines::add_guard(*answer, {files->library, files->limits, files->usage});
      }
      if (auto noted = note_given(settings_.state, ids); !noted) return refuse(noted.error());
      fill(*answer, *response->add_container_responses());
      log("allocated",
          {{"resource", resource_}, {"devices", fmt::format("{}", fmt::join(ids, ","))}});
    }
    return grpc::Status::OK;
  }

  grpc::Status PreStartContainer(grpc::ServerContext*, const v1beta1::PreStartContainerRequest*,
                                 v1beta1::PreStartContainerResponse*) override {
    return grpc::Status::OK;
  }

  std::unique_ptr<grpc::Server> server;
  void end() { ending_ = true; }

 private:
  [[nodiscard]] v1beta1::ListAndWatchResponse list() const {
    v1beta1::ListAndWatchResponse response;
    for (const engines::KubeResource& resource :
         engines::kube_resources(devices_.units(), settings_.config)) {
      if (resource.name != resource_) continue;
      for (const engines::KubeDevice& device : resource.devices) {
        auto* one = response.add_devices();
        one->set_id(device.id);
        one->set_health(device.healthy ? "Healthy" : "Unhealthy");
        if (device.numa) one->mutable_topology()->add_nodes()->set_id(*device.numa);
      }
    }
    return response;
  }

  grpc::Status refuse(const Error& error) const {
    log("refused", {{"resource", resource_}, {"error", error.message}, {"id", error.id}});
    return status_of(error);
  }

  const PluginSettings& settings_;
  const std::string& resource_;
  const Devices& devices_;
  std::atomic<bool> ending_ = false;
};

Plugin::Plugin(const PluginSettings& settings, std::string resource, const Devices& devices)
    : settings_(settings), resource_(std::move(resource)), devices_(devices) {
  std::string name = resource_.substr(resource_.find('/') + 1);
  std::replace(name.begin(), name.end(), '.', '-');
  socket_ = "berth-" + name + ".sock";
}

Plugin::~Plugin() {
  stop();
}

Status Plugin::serve() {
  stop();
  auto service = std::make_unique<Service>(settings_, resource_, devices_);
  auto server = serve_on(settings_.folder + "/" + socket_, *service);
  if (!server) return std::move(server).error();
  service->server = *std::move(server);
  service_ = std::move(service);
  return Done{};
}

Status Plugin::register_here(milliseconds at_most) {
  const std::string path = settings_.folder + "/kubelet.sock";
  grpc::ChannelArguments arguments;
  // The kubelet's server requires a host name, but gRPC would send the path of the socket.
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  // Do not share channels: a channel from the time when the kubelet was down would delay the next
  // call.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel =
      grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), arguments);
  const auto stub = v1beta1::Registration::NewStub(channel);
  v1beta1::RegisterRequest request;
  request.set_version(kVersion);
  request.set_endpoint(socket_);
  request.set_resource_name(resource_);
  request.mutable_options()->set_get_preferred_allocation_available(true);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + at_most);
  v1beta1::Empty nothing;
  const grpc::Status status = stub->Register(&context, request, &nothing);
  if (status.ok()) return Done{};
  return Error{ErrorCode::kUnavailable, "E1035",
               text("the kubelet rejected {}: {}", resource_, status.error_message()),
               "journalctl -u kubelet"};
}

bool Plugin::has_socket() const {
  return service_ != nullptr && is_socket(settings_.folder + "/" + socket_);
}

void Plugin::stop() {
  if (!service_) return;
  service_->end();
  end_server(service_->server, settings_.folder + "/" + socket_);
  service_.reset();
}

}  // namespace berth::kubelet
