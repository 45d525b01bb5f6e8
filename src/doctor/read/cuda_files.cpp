// Finds CUDA's libraries in wheels, conda, the toolkit and the system.
#include <algorithm>
#include <array>

#include "base/text_parts.hpp"
#include "doctor/read/python_packages.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {
namespace {

using From = CudaLibrary::From;

constexpr std::size_t kMostLibraries = 5'000;

bool matters(std::string_view name) {
  constexpr auto kBegin = std::to_array<std::string_view>(
      {"libcudart.so", "libcublas", "libcudnn", "libcusolver.so", "libcusparse.so", "libnvrtc.so",
       "libnccl.so", "libnvJitLink.so", "libcufft.so", "libcurand.so", "libnvinfer.so",
       "libnvdla_compiler.so", "libavutil.so", "libnvcuvid.so", "libnvidia-encode.so"});
  return name.find(".so") != std::string_view::npos &&
         std::any_of(kBegin.begin(), kBegin.end(),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

void read_folder(const Tree& tree, const std::string& folder, From from,
                 std::vector<CudaLibrary>& into) {
  for (const std::string& name : tree.list(folder).value_or({})) {
    if (!matters(name) || into.size() >= kMostLibraries) continue;
    CudaLibrary one{name, folder, "", from};
    const std::string real = tree.link(folder + "/" + name).value_or(name);
    if (const std::size_t at = real.rfind(".so."); at != std::string::npos)
      one.version = printable(real.substr(at + 4));
    into.push_back(std::move(one));
  }
}

std::vector<std::string> system_folders(const Tree& tree) {
  std::vector<std::string> folders;
  for (const std::string& file : tree.list("/etc/ld.so.conf.d", 200).value_or({})) {
    const std::string text = tree.read("/etc/ld.so.conf.d/" + file).value_or("");
    for (const std::string_view line : split(text, '\n'))
      if (trim(line).starts_with('/')) folders.emplace_back(trim(line));
  }
  for (const char* folder :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib/x86_64-linux-gnu",
        "/usr/lib64", "/usr/local/lib", "/usr/local/cuda/lib64"})
    folders.emplace_back(folder);
  return folders;
}

/// Toolkit folders in which XLA and other programs search.
std::vector<std::string> toolkits(const Tree& tree, const Fact<Environment>& environment,
                                  const PythonFacts& facts) {
  std::vector<std::string> folders;
  for (const PathEntry& entry : *facts.path)
    for (const char* wheel : {"/nvidia/cuda_nvcc", "/nvidia/cu13", "/nvidia/cu12"})
      folders.push_back(entry.folder + wheel);
  if (facts.is_conda) folders.insert(folders.end(), {facts.prefix, facts.prefix + "/lib"});
  for (const std::string& name : tree.list("/usr/local").value_or({}))
    if (name.starts_with("cuda")) folders.push_back("/usr/local/" + name);
  if (environment) {
    const auto flags = environment->find("XLA_FLAGS");
    constexpr std::string_view kFlag = "--xla_gpu_cuda_data_dir=";
    if (flags != environment->end())
      for (const std::string_view flag : split(flags->second, ' '))
        if (flag.starts_with(kFlag)) folders.emplace_back(flag.substr(kFlag.size()));
  }
  return folders;
}

std::vector<CudaLibrary> find_libraries(const Tree& tree, const Fact<Environment>& environment,
                                        const PythonFacts& facts) {
  std::vector<CudaLibrary> found;
  std::vector<std::string> seen;
  const auto look = [&](const std::string& folder, From from) {
    const std::string real = tree.resolve(folder).value_or("");
    if (real.empty() || std::find(seen.begin(), seen.end(), real) != seen.end()) return;
    seen.push_back(real);
    read_folder(tree, folder, from, found);
  };
  if (environment) {
    if (const auto list = environment->find("LD_LIBRARY_PATH"); list != environment->end())
      for (const std::string_view folder : split(list->second, ':'))
        if (folder.starts_with('/')) look(std::string(folder), From::kVariable);
  }
  for (const PathEntry& entry : *facts.path) {
    for (const std::string& name : tree.list(entry.folder + "/nvidia", 200).value_or({}))
      look(entry.folder + "/nvidia/" + name + "/lib", From::kWheel);
    look(entry.folder + "/torch/lib", From::kWheel);
  }
  if (facts.is_conda) look(facts.prefix + "/lib", From::kConda);
  for (const std::string& folder : system_folders(tree)) look(folder, From::kSystem);
  return found;
}

std::vector<std::string> find_libdevice(const Tree& tree, const Fact<Environment>& environment,
                                        const PythonFacts& facts) {
  std::vector<std::string> found;
  for (const std::string& folder : toolkits(tree, environment, facts))
    if (tree.exists(folder + "/nvvm/libdevice/libdevice.10.bc")) found.push_back(folder);
  // JAX's wheels also contain libdevice. Packages other than JAX may not find libdevice there.
  for (const PathEntry& entry : facts.path.value_or({}))
    for (const char* own : {"/jaxlib/cuda", "/jax_plugins/xla_cuda12/cuda"})
      if (tree.exists(entry.folder + own + "/nvvm/libdevice/libdevice.10.bc"))
        found.push_back(entry.folder + own);
  return found;
}

}  // namespace

void read_cuda_files(const Tree& tree, const Fact<Environment>& environment, PythonFacts& facts) {
  facts.libraries = tree.watched([&] { return Fact(find_libraries(tree, environment, facts)); });
  facts.libdevice = tree.watched([&] { return Fact(find_libdevice(tree, environment, facts)); });
  // If sys.path is only partly known, so are the libraries and toolkits in it.
  facts.libraries.doubt(facts.path);
  facts.libdevice.doubt(facts.path);
  // If conda's packages could not be read, these lists are incomplete.
  facts.libraries.doubt(facts.conda);
  facts.libdevice.doubt(facts.conda);
}

}  // namespace berth::doctor
