// Finds nvidia.ko for each installed kernel, in the list modules.dep. If modules.dep has no entry
// because depmod did not run, searches the usual folders.
#include <algorithm>
#include <array>

#include "base/text_parts.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/read/collectors.hpp"

namespace berth::doctor {
namespace {

bool is_module_file(std::string_view name) {
  for (const std::string_view stem : {"nvidia.ko", "nvidia-current.ko"})
    if (name.starts_with(stem) && (name.size() == stem.size() || name[stem.size()] == '.'))
      return true;
  return false;
}

/// Whether the file ends with the text that the kernel appends to a signature.
Fact<bool> is_signed(const Tree& tree, const std::string& path) {
  constexpr std::string_view kMark = "~Module signature appended~\n";
  if (!path.ends_with(".ko")) return Unreadable{path, 0};
  return tree.read_end(path, kMark.size()).map([&](const std::string& end) {
    return end == kMark;
  });
}

Fact<std::string> from_list(const Tree& tree, const std::string& folder) {
  return tree.read(folder + "/modules.dep", 4 << 20).map([&](const std::string& text) {
    for (const std::string_view line : split(text, '\n')) {
      const std::string_view path = line.substr(0, line.find(':'));
      if (is_module_file(path.substr(path.rfind('/') + 1))) return folder + "/" + std::string(path);
    }
    return std::string();
  });
}

std::string from_folders(const Tree& tree, const std::string& folder) {
  std::vector<std::string> places{"updates/dkms",
                                  "updates",
                                  "extra",
                                  "extra/nvidia",
                                  "weak-updates/nvidia",
                                  "misc",
                                  "extramodules",
                                  "kernel/drivers/video",
                                  "kernel/drivers/video/nvidia"};
  for (const std::string& name : tree.list(folder + "/kernel").value_or({}))
    if (name.starts_with("nvidia")) places.push_back("kernel/" + name);
  for (const std::string& place : places)
    for (const std::string& name : tree.list(folder + "/" + place).value_or({}))
      if (is_module_file(name)) return folder + "/" + place + "/" + name;
  return "";
}

/// Whether a folder's name is a release of the driver or of the kernel. The parent folder also
/// contains links and build folders.
bool is_release(std::string_view name) {
  return !name.empty() && name.front() >= '0' && name.front() <= '9';
}

/// Adds modules that DKMS has built, installed or not: /var/lib/dkms/nvidia/VERSION/KERNEL.
void add_built(const Tree& tree, std::vector<ModuleFile>& found) {
  const std::string folder = "/var/lib/dkms/nvidia";
  for (const std::string& version : tree.list(folder, 50).value_or({})) {
    if (!is_release(version)) continue;
    for (const std::string& kernel : tree.list(folder + "/" + version, 50).value_or({})) {
      const bool known = std::any_of(found.begin(), found.end(),
                                     [&](const ModuleFile& file) { return file.kernel == kernel; });
      const std::string path = folder + "/" + version + "/" + kernel;
      if (is_release(kernel) && !known) found.push_back({kernel, path, Unreadable{path, 0}, {}});
    }
  }
}

/// Log files of module builds that may be for this kernel. DKMS writes the kernel's name into the
/// first line of a log. akmods writes it into the file's name.
std::vector<std::string> build_logs(const Tree& tree, const std::string& kernel) {
  std::vector<std::string> found;
  const std::string dkms = "/var/lib/dkms", akmods = "/var/cache/akmods";
  for (const std::string& module : tree.list(dkms, 100).value_or({})) {
    if (!module.starts_with("nvidia")) continue;
    for (const std::string& version : tree.list(dkms + "/" + module, 50).value_or({}))
      if (is_release(version))
        found.push_back(dkms + "/" + module + "/" + version + "/build/make.log");
  }
  for (const std::string& module : tree.list(akmods, 100).value_or({})) {
    if (!module.starts_with("nvidia")) continue;
    for (const std::string& name : tree.list(akmods + "/" + module, 200).value_or({}))
      if (name.ends_with(".failed.log") && name.find(kernel) != std::string::npos)
        found.push_back(akmods + "/" + module + "/" + name);
  }
  return found;
}

}  // namespace

Fact<std::vector<ModuleFile>> collect_module_files(const Tree& tree,
                                                   const Fact<std::vector<std::string>>& kernels) {
  if (kernels.is_unreadable()) return kernels.why();
  if (!kernels) return {};
  std::vector<ModuleFile> found;
  for (const std::string& kernel : *kernels) {
    const std::string folder = "/lib/modules/" + kernel;
    const auto listed = from_list(tree, folder);
    if (listed.is_unreadable()) return listed.why();
    std::string path = listed.value_or("");
    if (path.empty()) path = from_folders(tree, folder);
    if (!path.empty()) found.push_back({kernel, path, is_signed(tree, path), tree.changed(path)});
  }
  add_built(tree, found);
  return found;
}

std::string kernel_compiler(std::string_view version) {
  // "Linux version 6.5.0 (who@where) (gcc-12 (Ubuntu …) 12.3.0, GNU ld …) #13". The compiler is in
  // one pair of brackets. The name of the user who built the kernel can be any text.
  for (std::size_t begin = version.find('('); begin != std::string_view::npos;) {
    std::size_t end = begin;
    for (int depth = 0; end < version.size(); ++end) {
      depth += version[end] == '(' ? 1 : version[end] == ')' ? -1 : 0;
      if (depth == 0) break;
    }
    const std::string_view group = version.substr(begin + 1, end - begin - 1);
    const std::string_view first = group.substr(0, group.find_first_of(" ("));
    if (first.find('@') == std::string_view::npos &&
        (group.find("gcc") != std::string_view::npos ||
         group.find("clang") != std::string_view::npos))
      return std::string(
          trim(group.substr(0, std::min(group.find(", GNU ld"), group.find(", LLD")))));
    begin = version.find('(', std::min(end + 1, version.size()));
  }
  return "";
}

Fact<BuildLog> collect_build_log(const Tree& tree) {
  const auto kernel = tree.line("/proc/sys/kernel/osrelease");
  if (!kernel || kernel->empty()) return {};
  for (const std::string& path : build_logs(tree, *kernel)) {
    const auto text = tree.read(path, 1 << 20);
    if (text.is_unreadable()) return text.why();
    if (!text || text->substr(0, 256).find(*kernel) == std::string::npos) continue;
    BuildLog log{path, {}, kernel_compiler(tree.line("/proc/version").value_or(""))};
    for (const std::string_view line : split(*text, '\n'))
      if (!line.empty()) log.lines.emplace_back(line.substr(0, 1000));
    return log;
  }
  return {};
}

}  // namespace berth::doctor
