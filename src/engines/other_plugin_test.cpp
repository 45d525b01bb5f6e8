#include "engines/other_plugin.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <optional>

#include "base/descriptor.hpp"
#include "engines/machines_for_tests.hpp"

namespace berth::engines {
namespace {

using Part = OtherPlugins::Part;

/// A kubelet's folder, with sockets of programs that run or have been killed.
struct Kubelet {
  Kubelet() {
    path = ::mkdtemp(name);
    std::filesystem::create_directory(path + "/device-plugins");
    std::filesystem::create_directory(path + "/plugins_registry");
  }
  ~Kubelet() { std::filesystem::remove_all(path); }
  Kubelet(const Kubelet&) = delete;
  Kubelet& operator=(const Kubelet&) = delete;

  [[nodiscard]] Descriptor listen(const std::string& file) const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (path + "/" + file).c_str());
    Descriptor end(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(end.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(end.get(), 1) == 0);
    return end;
  }
  [[nodiscard]] OtherPlugins seen_by(Part part) const {
    return {path, path + "/device-plugins", part};
  }
  char name[32] = "/tmp/berth-kubelet-XXXXXX";
  std::string path;
};

TEST_CASE("beside NVIDIA's device plugin no unit is healthy, and without it all are") {
  const Kubelet kubelet;
  const auto others = kubelet.seen_by(Part::kDevicePlugin);
  auto units = two_units();
  others.apply(units);
  CHECK(units[0].healthy);
  for (const char* name : {"nvidia-gpu.sock", "nvidia-mig-1g.10gb.sock", "nvidiaGPU-17.sock"}) {
    {
      const auto plugin = kubelet.listen(std::string("device-plugins/") + name);
      others.apply(units = two_units());
      CHECK_MESSAGE(!units[0].healthy, name);
      CHECK(units[1].fault == kOtherPluginFault);
      CHECK(units[1].why.find("nvidia.com/gpu") != std::string::npos);
    }
    // The program was killed and its socket is still there.
    others.apply(units = two_units());
    CHECK_MESSAGE(units[0].healthy, name);
  }
}

TEST_CASE("drivers for claims and Berth's two parts do not offer a GPU twice") {
  const Kubelet kubelet;
  std::optional<Descriptor> other = kubelet.listen("plugins_registry/gpu.nvidia.com-1-reg.sock");
  CHECK(kubelet.seen_by(Part::kDriver).running().size() == 1);
  CHECK(kubelet.seen_by(Part::kDevicePlugin).running().size() == 1);
  other = kubelet.listen("device-plugins/berth-gpu-share.sock");
  CHECK(kubelet.seen_by(Part::kDriver).running().size() == 1);
  CHECK_MESSAGE(kubelet.seen_by(Part::kDevicePlugin).running().empty(), "it is its own socket");
  const auto channels = kubelet.listen("plugins_registry/compute-domain.nvidia.com-reg.sock");
  CHECK_MESSAGE(kubelet.seen_by(Part::kDevicePlugin).running().empty(), "it gives no GPU");
}

TEST_CASE("a GPU that a pod has from the other plugin stays closed after that plugin's end") {
  auto units = two_units();
  mark_held_elsewhere(units, {{"GPU-b::3", "default/train"}, {"GPU-c", "default/x"}});
  CHECK(units[0].healthy);
  CHECK_FALSE(units[1].healthy);
  CHECK(units[1].why.find("default/train") != std::string::npos);
}

}  // namespace
}  // namespace berth::engines
