#include "doctor/facts/driver_files.hpp"
#include "doctor/read/collectors.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text_parts.hpp"

namespace berth::doctor {
namespace {

constexpr auto kOwnFolders = std::to_array<const char*>(
    {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib/x86_64-linux-gnu",
     "/lib/aarch64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib", "/lib"});

void add(std::vector<std::string>& folders, std::string_view folder) {
  if (!folder.starts_with('/')) return;
  if (std::find(folders.begin(), folders.end(), folder) == folders.end())
    folders.emplace_back(folder);
}

Fact<std::vector<std::string>> folders_of(const Tree& tree, const ProcessFacts& process) {
  std::vector<std::string> folders;
  const auto path = process.variable("LD_LIBRARY_PATH");
  if (path)
    for (const std::string_view folder : split(*path, ':')) add(folders, folder);
  const std::string snippets = "/etc/ld.so.conf.d";
  for (const std::string& name : tree.list(snippets, 200).value_or({})) {
    if (!name.ends_with(".conf")) continue;
    const auto text = tree.read(snippets + "/" + name);
    if (!text) continue;
    for (const std::string_view line : split(*text, '\n')) add(folders, trim(line));
  }
  for (const char* folder : kOwnFolders) add(folders, folder);
  Fact<std::vector<std::string>> all(std::move(folders));
  all.doubt(path);
  return all;
}

Fact<std::vector<LibraryFile>> find(const Tree& tree, const Fact<std::vector<std::string>>& folders,
                                    const std::string& name) {
  auto all = tree.watched([&]() -> Fact<std::vector<LibraryFile>> {
    std::vector<LibraryFile> found;
    for (const std::string& folder : *folders) {
      const std::string path = folder + "/" + name;
      const auto target = tree.resolve(path);
      if (target.is_unreadable() && target.why().error_number != EACCES) return target.why();
      if (target) found.push_back({path, *target});
    }
    return found;
  });
  all.doubt(folders);
  return all;
}

/// Whether one of the folders exists. If none does, libraries were not recorded.
bool has_libraries(const Tree& tree, const std::vector<std::string>& folders) {
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return tree.exists(folder); });
}

Fact<LibraryFile> find_compat(const Tree& tree) {
  return tree.watched([&]() -> Fact<LibraryFile> {
    for (const std::string& name : tree.list("/usr/local", 1000).value_or({})) {
      if (!name.starts_with("cuda")) continue;
      const std::string path = "/usr/local/" + name + "/compat/libcuda.so.1";
      if (const auto target = tree.resolve(path)) return LibraryFile{path, *target};
    }
    return {};
  });
}

Fact<std::string> kernel_module(const Tree& tree) {
  auto version = tree.line("/sys/module/nvidia/version");
  if (version) return version;
  const auto text = tree.line("/proc/driver/nvidia/version");
  if (text.is_unreadable()) return text.why();
  if (!text) return version;
  // The version is a word of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct
  // 19 …".
  for (const std::string_view word : split(*text, ' '))
    if (word.find('.') != std::string_view::npos &&
        word.find_first_not_of("0123456789.") == std::string_view::npos)
      return std::string(word);
  return version;
}

}  // namespace

std::string LibraryFile::version() const {
  const auto at = target.rfind(".so.");
  if (at == std::string::npos) return "";
  const std::string tail = target.substr(at + 4);
  return tail.find('.') == std::string::npos ? "" : tail;
}

DriverFiles collect_driver_files(const Tree& tree, const ProcessFacts& process) {
  DriverFiles files;
  files.folders = tree.watched([&] { return folders_of(tree, process); });
  files.kernel_module = kernel_module(tree);
  if (!has_libraries(tree, *files.folders)) {
    files.cuda = files.nvml = files.level_zero = files.intel_driver = Unreadable{"/usr/lib", 0};
    files.intel_legacy = files.sycl_adapter = Unreadable{"/usr/lib", 0};
    files.compat = Unreadable{"/usr/lib", 0};
    return files;
  }
  files.cuda = find(tree, files.folders, "libcuda.so.1");
  files.nvml = find(tree, files.folders, "libnvidia-ml.so.1");
  files.level_zero = find(tree, files.folders, "libze_loader.so.1");
  files.intel_driver = find(tree, files.folders, "libze_intel_gpu.so.1");
  files.intel_legacy = find(tree, files.folders, "libze_intel_gpu_legacy1.so.1");
  // The name depends on the release of oneAPI. Since 2024.2, the adapter is part of Unified
  // Runtime. Before that, it was part of the Plugin Interface.
  files.sycl_adapter = find(tree, files.folders, "libur_adapter_level_zero.so.0");
  if (files.sycl_adapter && files.sycl_adapter->empty())
    files.sycl_adapter = find(tree, files.folders, "libpi_level_zero.so");
  files.compat = find_compat(tree);
  return files;
}

}  // namespace berth::doctor
