#include "kubelet/dra.hpp"

#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <set>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "kubelet/dra.grpc.pb.h"
#include "kubelet/log.hpp"
#include "kubelet/pluginregistration.grpc.pb.h"
#include "kubelet/socket_server.hpp"

namespace berth::kubelet {
namespace {

namespace wire = k8s::io::kubelet::pkg::apis::dra::v1;

std::string socket_of(const DraSettings& settings) {
  return settings.plugins + "/" + engines::kDraDriver + "/dra.sock";
}
std::string registration_of(const DraSettings& settings) {
  return settings.registry + "/" + engines::kDraDriver + "-reg.sock";
}

Result<std::unique_ptr<grpc::Server>> serve(const std::string& path, grpc::Service& service) {
  std::error_code problem;
  std::filesystem::create_directories(path.substr(0, path.rfind('/')), problem);
  return serve_on(path, service);
}

std::string words_of(const Error& error) {
  return error.message + " (" + error.id + ")";
}

}  // namespace

class DraDriver::Service final : public wire::DRAPlugin::Service {
 public:
  Service(const DraSettings& settings, const Devices& devices, Claims& claims)
      : settings_(settings), devices_(devices), claims_(claims) {}

  grpc::Status NodePrepareResources(grpc::ServerContext* context,
                                    const wire::NodePrepareResourcesRequest* request,
                                    wire::NodePrepareResourcesResponse* response) override {
    const auto is_given_up = [context] { return context->IsCancelled(); };
    const ApiClient api(settings_.api, is_given_up);
    const auto units = devices_.units();
    for (const wire::Claim& one : request->claims()) {
      if (is_given_up()) return grpc::Status::CANCELLED;
      auto& out = (*response->mutable_claims())[one.uid()];
      const auto entry = claims_.prepare(
          one.uid(), units, [&] { return fetch(api, one); }, is_given_up);
      if (!entry) {
        log("not_prepared", {{"claim", one.namespace_() + "/" + one.name()},
                             {"error", entry.error().message},
                             {"id", entry.error().id}});
        out.set_error(words_of(entry.error()));
        continue;
      }
      fill(*entry, out);
      log("prepared", {{"claim", one.namespace_() + "/" + one.name()}, {"uid", one.uid()}});
    }
    return grpc::Status::OK;
  }

  grpc::Status NodeUnprepareResources(grpc::ServerContext*,
                                      const wire::NodeUnprepareResourcesRequest* request,
                                      wire::NodeUnprepareResourcesResponse* response) override {
    for (const wire::Claim& one : request->claims()) {
      auto& out = (*response->mutable_claims())[one.uid()];
      const auto done = claims_.unprepare(one.uid());
      if (!done) out.set_error(words_of(done.error()));
      log(done ? "unprepared" : "not_unprepared",
          {{"claim", one.namespace_() + "/" + one.name()}, {"uid", one.uid()}});
    }
    return grpc::Status::OK;
  }

  std::unique_ptr<grpc::Server> server;

 private:
  [[nodiscard]] Result<engines::Claim> fetch(const ApiClient& api, const wire::Claim& one) const {
    const auto answer =
        api.call("GET", "/apis/resource.k8s.io/v1/namespaces/" + percent_encoded(one.namespace_()) +
                            "/resourceclaims/" + percent_encoded(one.name()));
    if (!answer) return answer.error();
    if (answer->status != 200)
      return Error{ErrorCode::kNotFound, "E1031",
                   text("the API server did not return the claim {}: HTTP status {}", one.name(),
                        answer->status),
                   "kubectl get resourceclaims"};
    return engines::claim_in(answer->body, one.uid(), settings_.node);
  }

  /// Each container of the claim gets all of the claim's devices. So it is enough to list the CDI
  /// names with the first device of each request.
  static void fill(const engines::JournalledClaim& entry, wire::NodePrepareResourceResponse& out) {
    std::set<std::string> requests;
    for (const engines::ClaimDevice& device : entry.claim.devices) {
      auto* one = out.add_devices();
      one->add_request_names(device.request);
      one->set_pool_name(device.pool);
      one->set_device_name(device.device);
      if (!device.share.empty()) one->set_share_id(device.share);
      if (requests.insert(device.request).second)
        for (const std::string& name : entry.cdi) one->add_cdi_device_ids(name);
    }
  }

  const DraSettings& settings_;
  const Devices& devices_;
  Claims& claims_;
};

class DraDriver::Registration final : public pluginregistration::Registration::Service {
 public:
  Registration(const DraSettings& settings, Publisher& publisher)
      : settings_(settings), publisher_(publisher) {}

  grpc::Status GetInfo(grpc::ServerContext*, const pluginregistration::InfoRequest*,
                       pluginregistration::PluginInfo* info) override {
    info->set_type("DRAPlugin");
    info->set_name(engines::kDraDriver);
    info->set_endpoint(socket_of(settings_));
    info->add_supported_versions("v1.DRAPlugin");
    return grpc::Status::OK;
  }

  grpc::Status NotifyRegistrationStatus(grpc::ServerContext*,
                                        const pluginregistration::RegistrationStatus* status,
                                        pluginregistration::RegistrationStatusResponse*) override {
    if (status->plugin_registered())
      log("registered", {{"driver", engines::kDraDriver}});
    else
      log("not_registered", {{"error", status->error()}, {"id", "E1035"}});
    // The kubelet deletes the ResourceSlices when it starts, so publish them again.
    publisher_.look_again();
    return grpc::Status::OK;
  }

  std::unique_ptr<grpc::Server> server;

 private:
  const DraSettings& settings_;
  Publisher& publisher_;
};

DraDriver::DraDriver(const DraSettings& settings, const Devices& devices)
    : settings_(settings), devices_(devices), claims_(settings.folders, settings.config) {}

DraDriver::~DraDriver() {
  if (registration_) end_server(registration_->server, registration_of(settings_));
  if (service_) end_server(service_->server, socket_of(settings_));
}

Status DraDriver::start() {
  if (!publisher_) {
    if (auto opened = claims_.open(); !opened) return opened;
    if (claims_.count() > 0) log("claims_kept", {{"count", std::to_string(claims_.count())}});
    publisher_ = std::make_unique<Publisher>(settings_.api, settings_.node, settings_.config.shares,
                                             devices_, claims_, settings_.folders.state);
  }
  return listen();
}

Status DraDriver::listen() {
  if (registration_) end_server(registration_->server, registration_of(settings_));
  if (service_) end_server(service_->server, socket_of(settings_));
  service_ = std::make_unique<Service>(settings_, devices_, claims_);
  auto server = serve(socket_of(settings_), *service_);
  if (!server) return std::move(server).error();
  service_->server = *std::move(server);
  // Create the registration socket last: when the kubelet finds it, it calls the driver
  // immediately.
  registration_ = std::make_unique<Registration>(settings_, *publisher_);
  auto second = serve(registration_of(settings_), *registration_);
  if (!second) return std::move(second).error();
  registration_->server = *std::move(second);
  return Done{};
}

bool DraDriver::has_sockets() const {
  return is_socket(socket_of(settings_)) && is_socket(registration_of(settings_));
}

}  // namespace berth::kubelet
