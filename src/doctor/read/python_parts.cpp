#include "doctor/facts/python_parts.hpp"
#include "base/json.hpp"
#include "doctor/read/collectors.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text_parts.hpp"
#include "doctor/read/place.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kMostNames = 5000;

using Folders = std::map<std::string, std::vector<std::string>, std::less<>>;

Fact<Folders> read_folders(const Tree& tree, const PythonFacts& python) {
  struct Part {
    const char* package;
    const char* folder;
  };
  constexpr auto kParts = std::to_array<Part>({{"mmcv", "mmcv"},
                                               {"mmcv-full", "mmcv"},
                                               {"dgl", "dgl/graphbolt"},
                                               {"dgl", "dgl/dgl_sparse"}});
  Folders found;
  for (const Part& part : kParts) {
    const auto package = python.distribution(part.package);
    if (!package) continue;
    const auto names =
        tree.list((*python.path)[package->entry].folder + "/" + part.folder, kMostNames);
    if (names.is_unreadable()) return names.why();
    if (names) found[part.folder] = *names;
  }
  return found;
}

/// A library that pip has installed, and its size.
struct Listed {
  std::string file;
  std::uint64_t size = 0;
};

/// The largest library that RECORD lists: "faiss/_swigfaiss.cpython-311….so,sha256=…,123".
std::optional<Listed> largest_library(const Tree& tree, const Distribution& one) {
  std::optional<Listed> largest;
  const std::string record = tree.read(one.path + "/RECORD", 1 << 20).value_or("");
  for (const std::string_view row : split(record, '\n')) {
    const auto words = split(trim(row), ',');
    if (words.size() != 3 || words[0].find(".so") == std::string_view::npos) continue;
    const auto size = to_number(words[2]);
    if (size && (!largest || static_cast<std::uint64_t>(*size) > largest->size))
      largest = {std::string(words[0]), static_cast<std::uint64_t>(*size)};
  }
  return largest;
}

std::optional<std::uint64_t> listed_size(const Tree& tree, const Distribution& one,
                                         const std::string& file) {
  const std::string record = tree.read(one.path + "/RECORD", 1 << 20).value_or("");
  for (const std::string_view row : split(record, '\n'))
    if (const auto words = split(trim(row), ','); words.size() == 3 && words[0] == file)
      if (const auto size = to_number(words[2])) return static_cast<std::uint64_t>(*size);
  return std::nullopt;
}

/// CPU packages that were installed over a GPU package. Both install the same files, and the size
/// shows whose file is in place.
Fact<std::vector<std::string>> read_over_gpu_build(const Tree& tree, const PythonFacts& python) {
  if (!python.distributions)
    return python.distributions.map([](const auto&) { return std::vector<std::string>(); });
  std::vector<std::string> found;
  for (const Distribution& one : *python.distributions) {
    if (one.name != "faiss-cpu") continue;
    for (const Distribution& other : *python.distributions) {
      if (!other.name.starts_with("faiss-gpu") || other.entry != one.entry) continue;
      const auto library = largest_library(tree, one);
      if (!library) continue;
      const auto node = tree.node((*python.path)[one.entry].folder + "/" + library->file);
      const auto others = listed_size(tree, other, library->file);
      if (node && node->size == library->size && others != library->size) found.push_back(one.name);
    }
  }
  return found;
}

/// Finds TORCH_EXTENSIONS_DIR/NAME/lock, or else ~/.cache/torch_extensions/py311_cu121/NAME/lock.
Fact<std::vector<std::string>> read_build_locks(const Tree& tree,
                                                const Fact<Environment>& environment) {
  std::vector<std::string> folders, found;
  if (std::string own = variable(environment, "TORCH_EXTENSIONS_DIR"); !own.empty()) {
    folders.push_back(std::move(own));
  } else {
    std::string cache = variable(environment, "XDG_CACHE_HOME");
    const std::string home = variable(environment, "HOME");
    if (cache.empty() && !home.empty()) cache = home + "/.cache";
    if (cache.empty()) return found;
    cache += "/torch_extensions";
    for (const std::string& build : tree.list(cache, 50).value_or({}))
      folders.push_back(cache + "/" + build);
  }
  for (const std::string& folder : folders)
    for (const std::string& name : tree.list(folder, 200).value_or({}))
      if (const std::string lock = folder + "/" + name + "/lock"; tree.exists(lock))
        found.push_back(lock);
  return found;
}

Fact<std::string> find_ninja(const Tree& tree, const Fact<Environment>& environment) {
  std::string path = variable(environment, "PATH");
  if (path.empty()) path = kUsualPath;
  for (const std::string_view folder : split(path, ':'))
    if (const std::string file = std::string(folder) + "/ninja";
        folder.starts_with('/') && tree.exists(file))
      return file;
  // If the tree has no programs, they were not recorded. A missing ninja then proves nothing.
  if (tree.exists("/bin/sh") || tree.exists("/usr/bin/env")) return {};
  return Unreadable{"ninja", 0};
}

Fact<std::vector<NotebookKernel>> read_kernels(const Tree& tree,
                                               const Fact<Environment>& environment,
                                               const PythonFacts& python) {
  std::vector<std::string> folders;
  if (std::string own = variable(environment, "JUPYTER_DATA_DIR"); !own.empty())
    folders.push_back(own + "/kernels");
  else if (const std::string home = variable(environment, "HOME"); !home.empty())
    folders.push_back(home + "/.local/share/jupyter/kernels");
  folders.push_back(python.prefix + "/share/jupyter/kernels");
  folders.emplace_back("/usr/local/share/jupyter/kernels");
  folders.emplace_back("/usr/share/jupyter/kernels");
  std::vector<NotebookKernel> found;
  const std::string own = tree.resolve(python.prefix).value_or(python.prefix);
  for (const std::string& folder : folders)
    for (const std::string& name : tree.list(folder, 100).value_or({})) {
      const std::string file = folder + "/" + name + "/kernel.json";
      const auto text = tree.read(file);
      if (!text) continue;
      const auto document = nlohmann::json::parse(*text, nullptr, false);
      if (!document.is_object() || !document.contains("argv") || !document["argv"].is_array() ||
          document["argv"].empty() || !document["argv"][0].is_string())
        continue;
      const std::string program = document["argv"][0].get<std::string>();
      // Skip relative names. The Jupyter server looks them up in its own PATH, which is unknown.
      if (!program.starts_with('/') ||
          program.find("python", program.rfind('/') + 1) == std::string::npos)
        continue;
      const auto node = tree.node(program);
      if (node.is_unreadable()) continue;
      const std::string prefix = parent(parent(program));
      const bool is_own = prefix == python.prefix || tree.resolve(prefix).value_or(prefix) == own;
      found.push_back({printable(name), file, printable(program), node.has_value(), is_own});
    }
  return found;
}

Fact<OpenClFiles> read_opencl(const Tree& tree, const Fact<Environment>& environment,
                              const PythonFacts& python) {
  OpenClFiles found;
  for (const char* folder :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"})
    if (const std::string path = std::string(folder) + "/libnvidia-opencl.so.1";
        found.library.empty() && tree.exists(path))
      found.library = path;
  if (found.library.empty()) return found;
  const std::string vendors = "/etc/OpenCL/vendors";
  for (const std::string& name : tree.list(vendors, 200).value_or({}))
    if (name.ends_with(".icd") &&
        tree.line(vendors + "/" + name).value_or("").find("nvidia") != std::string::npos)
      found.icds.push_back(vendors + "/" + name);
  if (python.is_conda) {
    found.conda_loader = tree.exists(python.prefix + "/lib/libOpenCL.so.1");
    found.conda_icds = tree.list(python.prefix + vendors, 200).value_or({});
  }
  const std::string path = variable(environment, "PATH");
  for (const std::string_view folder : split(path.empty() ? kUsualPath : path.c_str(), ':'))
    for (const char* name : {"clinfo", "hashcat", "darktable"})
      if (const std::string file = std::string(folder) + "/" + name;
          found.program.empty() && folder.starts_with('/') && tree.exists(file))
        found.program = file;
  return found;
}

/// Whether sys.path has a folder with this name, with or without package metadata.
Fact<bool> has_amdsmi(const Tree& tree, const PythonFacts& python) {
  if (python.torch.is_unreadable()) return python.torch.why();
  if (!python.torch || !python.torch->hip) return {};
  if (!python.path) return python.path.map([](const auto&) { return false; });
  return std::any_of(python.path->begin(), python.path->end(),
                     [&](const PathEntry& entry) { return tree.exists(entry.folder + "/amdsmi"); });
}

}  // namespace

PythonParts collect_python_parts(const Tree& tree, const Fact<Environment>& environment,
                                 const PythonFacts& python) {
  PythonParts parts;
  parts.folders = tree.watched([&] { return read_folders(tree, python); });
  parts.folders.doubt(python.distributions);
  parts.over_gpu_build = tree.watched([&] { return read_over_gpu_build(tree, python); });
  parts.over_gpu_build.doubt(python.distributions);
  parts.build_locks = tree.watched([&] { return read_build_locks(tree, environment); });
  parts.build_locks.doubt(environment);
  parts.ninja = tree.watched([&] { return find_ninja(tree, environment); });
  parts.ninja.doubt(environment);
  parts.opencl = tree.watched([&] { return read_opencl(tree, environment, python); });
  parts.opencl.doubt(environment);
  parts.kernels = tree.watched([&] { return read_kernels(tree, environment, python); });
  parts.kernels.doubt(environment);
  parts.amdsmi = tree.watched([&] { return has_amdsmi(tree, python); });
  return parts;
}

}  // namespace berth::doctor
