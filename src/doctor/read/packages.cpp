// Finds packages whose installation dpkg has started but not finished, and versions of installed
// packages.
#include <algorithm>
#include <array>

#include "base/text_parts.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/read/collectors.hpp"

namespace berth::doctor {
namespace {

/// Whether this is a package of the driver or of the kernel. Kernel packages count because their
/// installation includes the build of the driver's module by DKMS.
bool is_asked_for(std::string_view package) {
  constexpr auto kBegins = std::to_array<std::string_view>(
      {"nvidia-", "libnvidia-", "libcuda1", "linux-modules-nvidia", "linux-objects-nvidia",
       "linux-signatures-nvidia", "linux-headers-", "linux-image-", "cuda-drivers",
       "xserver-xorg-video-nvidia"});
  return std::any_of(kBegins.begin(), kBegins.end(),
                     [&](std::string_view begin) { return package.starts_with(begin); });
}

/// The value of a field, such as "\nStatus: ", in a paragraph of dpkg's status file.
std::string_view field(std::string_view paragraph, std::string_view name) {
  const auto at = paragraph.find(name);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = paragraph.substr(at + name.size());
  return trim(rest.substr(0, rest.find('\n')));
}

/// The state of an unfinished package: "half-configured" for "install ok half-configured"; "" if
/// the package is complete or is to be removed.
std::string_view unfinished_state(std::string_view status) {
  const auto words = split(status, ' ');
  if (words.size() != 3 || (words[0] != "install" && words[0] != "hold")) return {};
  if (words[1] == "reinstreq") return words[1];
  return words[2] == "half-configured" || words[2] == "half-installed" || words[2] == "unpacked"
             ? words[2]
             : std::string_view();
}

/// Whether rules need the version of this package: packages of the driver and of other vendors.
bool is_read(std::string_view package) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"podman", "amdgpu-dkms", "firmware-amd-graphics", "linux-firmware",
       "hsa-runtime-rocr4wsl-amdgpu", "docker-ce", "docker.io", "nvidia-container-toolkit",
       "libnvidia-container1", "enroot"});
  return package.starts_with("nvidia-fabricmanager") ||
         std::find(kNames.begin(), kNames.end(), package) != kNames.end();
}

}  // namespace

std::string selected_packages(std::string_view all) {
  std::string told;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find("\n\n", at), all.size());
    const std::string_view paragraph = all.substr(at, end - at);
    at = end + 2;
    const std::string_view name = field(paragraph, "Package: ");
    if (!paragraph.starts_with("Package: ")) continue;
    if (!is_read(name) &&
        (!is_asked_for(name) || unfinished_state(field(paragraph, "\nStatus: ")).empty()))
      continue;
    told += "Package: " + std::string(name) + "\n";
    for (const std::string key : {"Status: ", "Version: ", "Architecture: "})
      if (const auto value = field(paragraph, "\n" + key); !value.empty())
        told += key + std::string(value) + "\n";
    told += "\n";
  }
  return told;
}

Fact<std::vector<UnfinishedPackage>> collect_unfinished(const Tree& tree) {
  return tree.read(std::string(kPackagesFile), 16 << 20).map([](const std::string& text) {
    std::vector<UnfinishedPackage> found;
    const std::string_view all = text;
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = std::min(all.find("\n\n", at), all.size());
      const std::string_view paragraph = all.substr(at, end - at);
      at = end + 2;
      if (!paragraph.starts_with("Package: ")) continue;
      const std::string_view name = field(paragraph, "Package: ");
      const std::string_view state = unfinished_state(field(paragraph, "\nStatus: "));
      if (!state.empty() && is_asked_for(name))
        found.push_back({std::string(name), std::string(state)});
    }
    return found;
  });
}

}  // namespace berth::doctor
