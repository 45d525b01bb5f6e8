#include "doctor/read/python_packages.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/json.hpp"
#include "base/text_parts.hpp"
#include "doctor/knowledge/python_text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/read/elf.hpp"
#include "doctor/read/fatbin.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kMostDistributions = 20'000;

/// Whether to read the requirements of this package, because rules compare them.
bool is_pinned(std::string_view name) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"torch", "torchvision", "torchaudio", "xformers", "jax",
                                       "jaxlib", "vllm", "torchtext", "torch-tensorrt", "numba"});
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// Whether the file name of this package's wheel shows for which PyTorch it was built. Its version
/// does not show this.
bool is_built_for_torch(std::string_view name) {
  return name == "flash-attn" || name == "causal-conv1d" || name == "mamba-ssm";
}

std::string install_url(const Tree& tree, const std::string& folder) {
  const auto document =
      nlohmann::json::parse(tree.read(folder + "/direct_url.json").value_or("{}"), nullptr, false);
  if (!document.is_object() || !document.contains("url") || !document["url"].is_string()) return "";
  return printable(document["url"].get<std::string>());
}

void read_details(const Tree& tree, Distribution& one) {
  if (is_built_for_torch(one.name)) one.url = install_url(tree, one.path);
  if (!is_pinned(one.name) && !one.version.empty()) return;
  const bool is_folder = tree.node(one.path).value_or({}).type == NodeType::kFolder;
  const std::string file =
      !is_folder ? one.path
                 : one.path + (one.path.ends_with(".egg-info") ? "/PKG-INFO" : "/METADATA");
  Metadata metadata = parse_metadata(tree.read(file, 1 << 18).value_or(""));
  one.needs = std::move(metadata.needs);
  if (!metadata.version.empty()) one.version = metadata.version;
}

/// Reads which packages require NVIDIA's wheels. This is only done if such wheels are installed.
void read_needs_of_nvidia(const Tree& tree, std::vector<Distribution>& all) {
  constexpr std::size_t kMost = 2'000;
  const auto is_nvidia = [](const std::string& name) { return name.starts_with("nvidia-"); };
  if (std::none_of(all.begin(), all.end(),
                   [&](const Distribution& one) { return is_nvidia(one.name); }))
    return;
  std::size_t asked = 0;
  for (Distribution& one : all) {
    if (is_nvidia(one.name) || is_pinned(one.name) || ++asked > kMost) continue;
    for (std::string& row : parse_metadata(tree.read(one.path + "/METADATA").value_or("")).needs)
      if (is_nvidia(parse_requirement(row).name)) one.needs.push_back(std::move(row));
  }
}

Fact<std::vector<Distribution>> read_distributions(const Tree& tree,
                                                   const std::vector<PathEntry>& path) {
  std::vector<Distribution> found;
  for (std::size_t entry = 0; entry < path.size(); ++entry) {
    const auto names = tree.list(path[entry].folder);
    if (names.is_unreadable()) return names.why();
    for (const std::string& file : names.value_or({})) {
      auto [name, version] = parse_info_name(file);
      if (name.empty() || found.size() >= kMostDistributions) continue;
      Distribution one;
      one.name = std::move(name);
      one.version = std::move(version);
      one.path = path[entry].folder + "/" + file;
      one.entry = entry;
      read_details(tree, one);
      found.push_back(std::move(one));
    }
  }
  read_needs_of_nvidia(tree, found);
  return found;
}

Fact<std::vector<CondaPackage>> read_conda(const Tree& tree, const std::string& prefix) {
  const std::string folder = prefix + "/conda-meta";
  return tree.list(folder).map([&](const std::vector<std::string>& names) {
    std::vector<CondaPackage> found;
    for (const std::string& file : names) {  // files are called NAME-VERSION-BUILD.json
      if (!file.ends_with(".json")) continue;
      const std::string stem = file.substr(0, file.size() - 5);
      const std::size_t build = stem.rfind('-');
      const std::size_t version =
          build == std::string::npos || build == 0 ? build : stem.rfind('-', build - 1);
      if (version == std::string::npos || version == 0) continue;
      found.push_back({normal_name(stem.substr(0, version)),
                       printable(stem.substr(version + 1, build - version - 1)),
                       printable(stem.substr(build + 1)), folder + "/" + file});
    }
    return found;
  });
}

/// If version.py is missing, uses the distribution's version.
Fact<TorchBuild> torch_by_name(const Distribution& torch) {
  TorchBuild build;
  build.path = torch.path;
  build.entry = torch.entry;
  build.version = torch.version;
  const std::string tag(local_part(torch.version));
  const Unreadable unknown{torch.path, ENOENT};
  build.cuda = build.hip = build.xpu = unknown;
  if (tag == "cpu" || tag == "xpu" || tag.starts_with("rocm") || tag.starts_with("cu")) {
    build.cuda = build.hip = build.xpu = Fact<std::string>();
    if (const std::string cuda = cuda_of_tag(tag); !cuda.empty()) build.cuda = cuda;
    if (tag.starts_with("rocm")) build.hip = tag.substr(4);
    if (tag == "xpu") build.xpu = tag;
    return build;
  }
  // Wheels of PyTorch from PyPI have no tag such as "+cu126" in their version. Since PyTorch 2.0,
  // their requirements name the CUDA libraries, which show the CUDA version.
  if (torch.needs.empty() || is_older(torch.version, "2.0")) return build;
  build.cuda = build.hip = build.xpu = Fact<std::string>();
  for (const std::string& row : torch.needs)
    if (const Requirement need = parse_requirement(row);
        need.name.starts_with("nvidia-cuda-runtime"))
      build.cuda = beginning(need.exact);
  return build;
}

Fact<TorchBuild> read_torch(const Tree& tree, const PythonFacts& facts) {
  for (std::size_t entry = 0; entry < facts.path->size(); ++entry) {
    const std::string file = (*facts.path)[entry].folder + "/torch/version.py";
    const auto text = tree.read(file);
    if (text.is_unreadable()) return text.why();
    if (!text) continue;
    TorchBuild build = parse_torch_version(*text);
    build.path = file;
    build.entry = entry;
    return build;
  }
  const auto torch = facts.distribution("torch");
  if (torch.is_unreadable()) return torch.why();
  return torch ? torch_by_name(*torch) : Fact<TorchBuild>();
}

/// Converts a capability: 87 → "8.7", 120 → "12.0".
std::string capability_of(unsigned number) {
  return std::to_string(number / 10) + "." + std::to_string(number % 10);
}

Fact<TorchCode> torch_code_in(const Tree& tree, const std::string& path) {
  const auto file = tree.open_file(path);
  if (file.is_unreadable()) return file.why();
  if (!file) return {};
  const auto code = gpu_code([&file](std::uint64_t offset, void* into, std::size_t size) {
    return file->read_at(offset, into, size);
  });
  if (!code) return Unreadable{path + " (.nv_fatbin)", code.is_absent() ? 0 : E2BIG};
  TorchCode found{path, {}, ""};
  for (const unsigned one : code->sass) found.sass.push_back(capability_of(one));
  if (!code->ptx.empty()) found.ptx = capability_of(code->ptx.front());
  return found;
}

/// Reads the code in PyTorch's libraries, for builds that are not in the tables: from conda-forge,
/// NVIDIA and others.
Fact<TorchCode> read_torch_code(const Tree& tree, const PythonFacts& facts) {
  if (!facts.torch || !facts.torch->cuda || facts.has_pytorchs_own_build()) return {};
  // In PyTorch 1.9 to 1.12, most of the GPU code is in libtorch_cuda_cu.so. conda-forge puts both
  // libraries into the lib folder of the environment.
  for (const char* name : {"/libtorch_cuda_cu.so", "/libtorch_cuda.so"})
    for (const std::string& folder :
         {(*facts.path)[facts.torch->entry].folder + "/torch/lib", facts.prefix + "/lib"}) {
      auto found = torch_code_in(tree, folder + name);
      if (!found.is_absent()) return found;
    }
  return Unreadable{facts.torch->path, ENOENT};
}

Fact<std::vector<std::string>> read_cudnn_listed(const Tree& tree, const PythonFacts& facts) {
  std::vector<std::string> files;
  for (const Distribution& one : facts.distributions.value_or({})) {
    if (!one.name.starts_with("nvidia-cudnn") || !one.path.ends_with("-info")) continue;
    const auto list = tree.read(one.path + "/RECORD", 1 << 20);
    if (!list) return list.map([](const std::string&) { return std::vector<std::string>(); });
    for (std::string_view row : split(*list, '\n')) {
      row = row.substr(0, row.find(','));
      row = row.substr(row.rfind('/') + 1);
      if (row.starts_with("libcudnn")) files.emplace_back(row);
    }
  }
  return files.empty() ? Fact<std::vector<std::string>>() : files;
}

Fact<std::vector<std::string>> read_bitsandbytes(const Tree& tree, const PythonFacts& facts) {
  const auto package = facts.distribution("bitsandbytes");
  if (package.is_unreadable()) return package.why();
  if (!package) return {};
  std::vector<std::string> binaries;
  const auto names = tree.list((*facts.path)[package->entry].folder + "/bitsandbytes");
  if (!names) return Unreadable{package->path, ENOENT};
  for (const std::string& name : *names)
    if (name.starts_with("libbitsandbytes_")) binaries.push_back(name);
  return binaries;
}

/// Searches every folder that any variable names, as bitsandbytes before 0.38 did.
Fact<std::string> read_bitsandbytes_runtime(const Tree& tree, const Fact<Environment>& environment,
                                            const PythonFacts& facts) {
  if (!facts.bitsandbytes) return {};
  std::vector<std::string> folders{"/usr/local/cuda/lib64"};
  for (const auto& [name, value] : environment.value_or({})) {
    if (name == "CONDA_PREFIX") folders.push_back(value + "/lib");
    for (const std::string_view folder : split(value, ':'))
      if (folder.starts_with('/')) folders.emplace_back(folder);
  }
  for (const std::string& folder : folders)
    if (tree.exists(folder + "/libcudart.so")) return folder;
  return {};
}

/// Since llama-cpp-python 0.3, each backend is a separate library.
Fact<std::vector<std::string>> read_llama_cpp(const Tree& tree, const PythonFacts& facts) {
  const auto package = facts.distribution("llama-cpp-python");
  if (package.is_unreadable()) return package.why();
  if (!package) return {};
  const std::string folder = (*facts.path)[package->entry].folder + "/llama_cpp/lib";
  const auto names = tree.list(folder, 200);
  if (!names && facts.llama_cpp_links) return {};
  return names ? names : Unreadable{folder, ENOENT};
}

/// Before llama-cpp-python 0.3, a single library links to its backend.
Fact<std::vector<std::string>> read_llama_cpp_links(const Tree& tree, const PythonFacts& facts) {
  const auto package = facts.distribution("llama-cpp-python");
  if (package.is_unreadable()) return package.why();
  if (!package || !is_older(package->version, "0.3")) return {};
  for (const char* name : {"/llama_cpp/libllama.so", "/llama_cpp/lib/libllama.so"}) {
    const auto file = tree.open_file((*facts.path)[package->entry].folder + name);
    if (!file) continue;
    const auto elf = parse_elf([&](std::uint64_t offset, void* into, std::size_t size) {
      return file->read_at(offset, into, size);
    });
    if (elf) return elf->needed;
  }
  return {};
}

}  // namespace

Fact<Distribution> PythonFacts::distribution(std::string_view name) const {
  if (distributions.is_unreadable()) return distributions.why();
  Fact<Distribution> found;
  if (distributions)
    for (const Distribution& one : *distributions)
      if (one.name == name) {
        found = one;
        break;
      }
  found.doubt(distributions);
  return found;
}

bool PythonFacts::has_pytorchs_own_build() const {
  for (const CondaPackage& one : conda.value_or({}))
    if (one.name == "pytorch" &&
        !(one.build.starts_with("py") && one.build.find("_cuda") != std::string::npos))
      return false;
  const std::string built = torch ? torch->version : std::string();
  return built.find("a0") == std::string::npos && built.find(".nv") == std::string::npos &&
         built.find("git") == std::string::npos;
}

void read_packages(const Tree& tree, const Fact<Environment>& environment, PythonFacts& facts) {
  facts.distributions = tree.watched([&] { return read_distributions(tree, *facts.path); });
  facts.distributions.doubt(facts.path);
  facts.conda = read_conda(tree, facts.prefix);
  facts.torch = tree.watched([&] { return read_torch(tree, facts); });
  if (facts.torch)
    facts.torch_modules = tree.list((*facts.path)[facts.torch->entry].folder + "/torch")
                              .map([](const std::vector<std::string>& names) {
                                std::vector<std::string> found;
                                for (const std::string& name : names)
                                  if (name.starts_with("_C.")) found.push_back(name);
                                return found;
                              });
  if (facts.torch)
    facts.torch_libraries =
        tree.list((*facts.path)[facts.torch->entry].folder + "/torch/lib", 5000);
  facts.torch_code = tree.watched([&] { return read_torch_code(tree, facts); });
  facts.torch_code.doubt(facts.path);
  facts.cudnn_listed = tree.watched([&] { return read_cudnn_listed(tree, facts); });
  facts.cudnn_listed.doubt(facts.distributions);
  facts.bitsandbytes = tree.watched([&] { return read_bitsandbytes(tree, facts); });
  facts.llama_cpp_links = tree.watched([&] { return read_llama_cpp_links(tree, facts); });
  facts.llama_cpp_links.doubt(facts.path);
  facts.llama_cpp = tree.watched([&] { return read_llama_cpp(tree, facts); });
  facts.torch.doubt(facts.path);
  facts.bitsandbytes.doubt(facts.path);
  facts.bitsandbytes_runtime =
      tree.watched([&] { return read_bitsandbytes_runtime(tree, environment, facts); });
  facts.bitsandbytes_runtime.doubt(environment);
  facts.bitsandbytes_runtime.doubt(facts.bitsandbytes);
  facts.llama_cpp.doubt(facts.path);
  read_cuda_files(tree, environment, facts);
  read_openmp(tree, facts);
}

}  // namespace berth::doctor
