#include "engines/other_plugin.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::engines {
namespace {

/// Whether a program listens on this socket. A full queue of connections also shows that a program
/// listens.
bool accepts(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const Descriptor end(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!end) return false;
  if (::connect(end.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return true;
  return errno == EAGAIN || errno == EACCES;
}

bool any_accepts(const std::string& folder, std::string_view begin, std::string_view end) {
  for (const std::string& name : list_folder(folder))
    if (name.starts_with(begin) && name.ends_with(end) && accepts(folder + "/" + name)) return true;
  return false;
}

void mark(KubeUnit& unit, const std::string& why) {
  unit.healthy = false;
  unit.fault = kOtherPluginFault;
  unit.why = why;
}

}  // namespace

std::vector<std::string> OtherPlugins::running() const {
  std::vector<std::string> all;
  // The sockets of NVIDIA's plugin are "nvidia-gpu.sock" and "nvidia-mig-1g.10gb.sock"; on Google's
  // nodes "nvidiaGPU-1700000000.sock".
  if (any_accepts(devices_, "nvidia", ".sock"))
    all.push_back(text("NVIDIA's device plugin offers the GPUs of this node as nvidia.com/gpu"));
  if (any_accepts(kubelet_ + "/plugins_registry", "gpu.nvidia.com", ".sock"))
    all.push_back(text("NVIDIA's driver gpu.nvidia.com offers the GPUs of this node"));
  if (own_ == Part::kDriver && any_accepts(devices_, "berth-", ".sock"))
    all.push_back(text("Berth's device plugin offers the GPUs of this node"));
  return all;
}

void OtherPlugins::apply(std::vector<KubeUnit>& units) const {
  const auto others = running();
  if (others.empty()) return;
  for (KubeUnit& unit : units) mark(unit, others.front());
}

void mark_held_elsewhere(std::vector<KubeUnit>& units,
                         const std::map<std::string, std::string>& pods) {
  for (const auto& [id, pod] : pods) {
    const std::string uuid = id.substr(0, id.find("::"));
    for (KubeUnit& unit : units)
      if (unit.uuid == uuid)
        mark(unit, text("the pod {} got the GPU from NVIDIA's device plugin", printable(pod)));
  }
}

}  // namespace berth::engines
