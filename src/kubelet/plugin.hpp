// One resource for the kubelet: its server with its own socket, and its registration.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "kubelet/devices.hpp"

namespace berth::kubelet {

struct PluginSettings {
  std::string folder = "/var/lib/kubelet/device-plugins";  // the kubelet's
  std::string kubelet = "/var/lib/kubelet";
  std::string state = "/var/lib/berth/kubernetes";  // the guard's files
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
  /// Whether the plugin serves, and its socket still exists. A kubelet that starts removes all
  /// sockets in its folder.
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
