// A device plugin for one resource: its server on its own socket, and its registration with the
// kubelet.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "kubelet/devices.hpp"

namespace berth::kubelet {

struct PluginSettings {
  /// The kubelet's folder for device plugins.
  std::string folder = "/var/lib/kubelet/device-plugins";
  std::string kubelet = "/var/lib/kubelet";
  std::string state = "/var/lib/berth/kubernetes";  // folder for the guard's files
  engines::KubeConfig config;
};

class Plugin {
 public:
  /// `resource`: "berth.dev/gpu".
  Plugin(const PluginSettings& settings, std::string resource, const Devices& devices);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  /// Serves on FOLDER/berth-NAME.sock. Fails with kUnavailable (E1034).
  [[nodiscard]] Status serve();
  /// Registers through FOLDER/kubelet.sock. Fails with kUnavailable (E1035).
  [[nodiscard]] Status register_here(std::chrono::milliseconds at_most);
  /// Whether the server runs and its socket still exists. The kubelet removes all sockets in its
  /// folder when it starts.
  [[nodiscard]] bool has_socket() const;
  void stop();
  [[nodiscard]] const std::string& resource() const { return resource_; }

 private:
  class Service;
  const PluginSettings settings_;
  const std::string resource_;
  const Devices& devices_;
  std::string socket_;  // name of the socket in the folder
  std::unique_ptr<Service> service_;
};

}  // namespace berth::kubelet
