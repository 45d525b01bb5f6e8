// The DRA driver gpu.berth.dev (dynamic resource allocation): registers with the kubelet, and
// prepares and unprepares claims.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "kubelet/api_client.hpp"
#include "kubelet/claims.hpp"
#include "kubelet/devices.hpp"
#include "kubelet/publisher.hpp"

namespace berth::kubelet {

struct DraSettings {
  std::string node;
  /// The driver's socket is gpu.berth.dev/dra.sock in this folder.
  std::string plugins = "/var/lib/kubelet/plugins";
  /// The kubelet watches this folder for registration sockets.
  std::string registry = "/var/lib/kubelet/plugins_registry";
  ClaimFolders folders;
  engines::KubeConfig config;
  ApiSettings api;
};

class DraDriver {
 public:
  DraDriver(const DraSettings& settings, const Devices& devices);
  ~DraDriver();
  DraDriver(const DraDriver&) = delete;
  DraDriver& operator=(const DraDriver&) = delete;

  /// Serves on both sockets, and publishes the devices. Fails with kUnavailable (E1034, E0520).
  [[nodiscard]] Status start();
  /// Whether both sockets still exist.
  [[nodiscard]] bool has_sockets() const;

 private:
  class Service;
  class Registration;
  [[nodiscard]] Status listen();
  const DraSettings settings_;
  const Devices& devices_;
  Claims claims_;
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Registration> registration_;
};

}  // namespace berth::kubelet
