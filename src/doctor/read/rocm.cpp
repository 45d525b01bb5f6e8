// Reads properties of AMD GPUs: memory, firmware release, and which of two runtimes PyTorch loads.
#include <algorithm>

#include "base/text_parts.hpp"
#include "doctor/read/rocm.hpp"

namespace berth::doctor {
namespace {

std::uint64_t bytes_in(const Tree& tree, const std::string& path) {
  const auto number = to_number(tree.line(path).value_or(""));
  return number && *number > 0 ? static_cast<std::uint64_t>(*number) : 0;
}

/// The date at the start of a version: "20251125" for "20251125.git…" and for "1:20251125-1".
std::string date_in(std::string_view version) {
  if (const auto colon = version.find(':'); colon != std::string_view::npos)
    version.remove_prefix(colon + 1);
  const auto end = std::min(version.find_first_not_of("0123456789"), version.size());
  return end == 8 && version.starts_with("20") ? std::string(version.substr(0, end)) : "";
}

std::string dpkg_version(const std::string& status, const std::string& package) {
  const std::string head = "Package: " + package + "\n";
  const std::size_t at = status.starts_with(head) ? 0 : status.find("\n" + head);
  if (at == std::string::npos) return "";
  const std::string_view paragraph =
      std::string_view(status).substr(at, status.find("\n\n", at + 1) - at);
  const auto version = paragraph.find("\nVersion: ");
  if (version == std::string_view::npos) return "";
  const std::string_view rest = paragraph.substr(version + 10);
  return std::string(rest.substr(0, rest.find('\n')));
}

}  // namespace

Fact<std::vector<AmdMemory>> collect_amd_memory(const Tree& tree) {
  const std::string bus = "/sys/bus/pci/devices";
  const auto addresses = tree.list(bus);
  if (addresses.is_unreadable()) return addresses.why();
  std::vector<AmdMemory> found;
  for (const std::string& address : addresses.value_or({})) {
    const std::string folder = bus + "/" + address;
    if (tree.line(folder + "/vendor").value_or("") != "0x1002") continue;
    const std::uint64_t own = bytes_in(tree, folder + "/mem_info_vram_total");
    const std::uint64_t machines = bytes_in(tree, folder + "/mem_info_gtt_total");
    if (machines > 0) found.push_back({address, own, machines});
  }
  return found;
}

Fact<std::string> collect_linux_firmware(const Tree& tree) {
  const auto status = tree.read("/var/lib/dpkg/status", 16 << 20);
  if (status.is_unreadable()) return status.why();
  const std::string text = status.value_or("");
  for (const char* package : {"firmware-amd-graphics", "linux-firmware"})
    if (const std::string date = date_in(dpkg_version(text, package)); !date.empty()) return date;
  // pacman has one folder per package, with the version in its name:
  // "linux-firmware-amdgpu-20251125-2".
  const auto names = tree.list("/var/lib/pacman/local");
  if (names.is_unreadable()) return names.why();
  for (const std::string begin : {"linux-firmware-amdgpu-", "linux-firmware-"})
    for (const std::string& name : names.value_or({}))
      if (name.starts_with(begin))
        if (const std::string date = date_in(std::string_view(name).substr(begin.size()));
            !date.empty())
          return date;
  return {};
}

Fact<std::string> collect_wsl_runtime(const Tree& tree) {
  return tree.read("/var/lib/dpkg/status", 16 << 20).map([](const std::string& text) {
    return dpkg_version(text, "hsa-runtime-rocr4wsl-amdgpu");
  });
}

Fact<std::string> collect_own_runtime(const Tree& tree, const PythonFacts& python) {
  if (python.path.is_unreadable()) return python.path.why();
  if (python.torch.is_unreadable()) return python.torch.why();
  if (!python.path || !python.torch || !python.torch->hip) return {};
  const std::string own =
      (*python.path)[python.torch->entry].folder + "/torch/lib/libhsa-runtime64.so";
  const auto node = tree.node(own);
  if (node.is_unreadable()) return node.why();
  if (!node) return {};
  // If the user followed AMD's guide, PyTorch's file is a link to the system's file or a copy of
  // it.
  if (tree.resolve(own).value_or(own).starts_with("/opt/rocm")) return {};
  for (const char* name :
       {"/opt/rocm/lib/libhsa-runtime64.so.1", "/opt/rocm/lib/libhsa-runtime64.so"})
    if (const auto machines = tree.node(name); machines && machines->size == node->size) return {};
  return own;
}

}  // namespace berth::doctor
