#include "doctor/facts/toolchain.hpp"
#include "base/json.hpp"
#include "doctor/read/collectors.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text_parts.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/read/loader.hpp"
#include "doctor/read/place.hpp"

namespace berth::doctor {
namespace {

/// The path of the first program named `name` in PATH; empty if there is none.
std::string program(const Tree& tree, const Fact<Environment>& environment, std::string_view name) {
  if (name.starts_with('/')) return tree.exists(std::string(name)) ? std::string(name) : "";
  std::string path = variable(environment, "PATH");
  if (path.empty()) path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string_view folder : split(path, ':')) {
    std::string file = std::string(folder) + "/" + std::string(name);
    if (folder.starts_with('/') && tree.exists(file)) return file;
  }
  return "";
}

/// The toolkit's version, from its file with {"cuda": {"version": "12.5.82"}} or "CUDA Version
/// 10.1.243", or from the folder's name "cuda-12.5".
std::string version_of_toolkit(const Tree& tree, const std::string& folder) {
  const auto document =
      nlohmann::json::parse(tree.read(folder + "/version.json").value_or(""), nullptr, false);
  if (document.is_object() && document.contains("cuda") && document["cuda"].is_object())
    if (const auto version = document["cuda"].find("version");
        version != document["cuda"].end() && version->is_string())
      return printable(version->get<std::string>());
  constexpr std::string_view kBegin = "CUDA Version ";
  if (const auto line = tree.line(folder + "/version.txt"); line && line->starts_with(kBegin))
    return printable(line->substr(kBegin.size()));
  const std::string real = tree.resolve(folder).value_or(folder);
  const std::size_t dash = real.rfind("/cuda-");
  return dash == std::string::npos || version_of(real.substr(dash + 6)).empty()
             ? ""
             : real.substr(dash + 6);
}

bool has_nvvm_library(const Tree& tree, const std::string& folder) {
  const auto names = tree.list(folder).value_or({});
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.starts_with("libnvvm.so"); });
}

std::string version_of_package(const PythonFacts& python, std::string_view name) {
  if (!python.distributions) return "";
  for (const Distribution& one : *python.distributions)
    if (one.name == name) return one.version;
  return "";
}

std::string version_in_conda(const PythonFacts& python) {
  if (!python.conda) return "";
  for (const char* name : {"cuda-nvvm-impl", "cuda-nvcc-impl", "cuda-nvcc", "cudatoolkit"})
    for (const CondaPackage& one : *python.conda)
      if (one.name == name) return one.version;
  return "";
}

std::vector<Toolkit> nvvm_toolkits(const Tree& tree, const Fact<Environment>& environment,
                                   const PythonFacts& python) {
  using From = Toolkit::From;
  std::vector<Toolkit> found;
  if (python.is_conda)
    for (const std::string& folder : {python.prefix + "/lib", python.prefix + "/nvvm/lib64"})
      if (has_nvvm_library(tree, folder)) {
        found.push_back({From::kConda, python.prefix, version_in_conda(python)});
        break;
      }
  if (python.path)
    for (const PathEntry& entry : *python.path) {
      const std::string wheel = entry.folder + "/nvidia/cuda_nvcc";
      if (has_nvvm_library(tree, wheel + "/nvvm/lib64"))
        found.push_back({From::kWheel, wheel, version_of_package(python, "nvidia-cuda-nvcc-cu12")});
    }
  std::string home = variable(environment, "CUDA_HOME");
  if (home.empty()) home = variable(environment, "CUDA_PATH");
  if (home.starts_with('/') && tree.exists(home + "/nvvm"))
    found.push_back({From::kVariable, home, version_of_toolkit(tree, home)});
  if (tree.exists("/usr/local/cuda/nvvm"))
    found.push_back(
        {From::kSystem, "/usr/local/cuda", version_of_toolkit(tree, "/usr/local/cuda")});
  return found;
}

/// The folder of the toolkit that PyTorch extensions and most build scripts use.
std::string toolkit_for_building(const Tree& tree, const Fact<Environment>& environment) {
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string home = variable(environment, name);
        home.starts_with('/') && tree.exists(home + "/bin/nvcc"))
      return tree.resolve(home).value_or(home);
  if (const std::string nvcc = program(tree, environment, "nvcc"); !nvcc.empty())
    return parent(parent(tree.resolve(nvcc).value_or(nvcc)));
  return tree.exists("/usr/local/cuda/bin/nvcc") ? tree.resolve("/usr/local/cuda").value_or("")
                                                 : "";
}

Fact<Toolkit> toolkit_for(const Tree& tree, const Fact<Environment>& environment,
                          const PythonFacts& python) {
  std::string folder = toolkit_for_building(tree, environment);
  if (folder.empty() && tree.exists(python.prefix + "/bin/nvcc")) folder = python.prefix;
  if (!folder.empty())
    return Toolkit{
        Toolkit::From::kSystem, folder,
        folder == python.prefix ? version_in_conda(python) : version_of_toolkit(tree, folder)};
  if (tree.exists("/bin/sh") || tree.exists("/usr/bin/env")) return {};
  return Unreadable{"nvcc", 0};
}

Fact<Toolkit> ptxas_of_path(const Tree& tree, const Fact<Environment>& environment,
                            const PythonFacts& python) {
  const std::string found = program(tree, environment, "ptxas");
  if (found.empty()) return {};
  const std::string folder = parent(parent(tree.resolve(found).value_or(found)));
  return Toolkit{
      Toolkit::From::kSystem, folder,
      folder == python.prefix ? version_in_conda(python) : version_of_toolkit(tree, folder)};
}

Fact<std::vector<std::string>> other_ptxas(const Tree& tree, const Fact<Environment>& environment,
                                           const PythonFacts& python) {
  std::vector<std::string> folders{python.prefix};
  for (const PathEntry& entry : python.path.value_or({}))
    for (const char* wheel :
         {"/nvidia/cuda_nvcc", "/nvidia/cu13", "/nvidia/cu12", "/triton/backends/nvidia"})
      folders.push_back(entry.folder + wheel);
  for (const std::string& name : tree.list("/usr/local").value_or({}))
    if (name.starts_with("cuda")) folders.push_back("/usr/local/" + name);
  const std::string flags = variable(environment, "XLA_FLAGS");
  constexpr std::string_view kFlag = "--xla_gpu_cuda_data_dir=";
  for (const std::string_view flag : split(flags, ' '))
    if (flag.starts_with(kFlag)) folders.emplace_back(flag.substr(kFlag.size()));
  std::vector<std::string> found;
  for (const std::string& folder : folders)
    if (folder.starts_with('/') && tree.exists(folder + "/bin/ptxas"))
      found.push_back(folder + "/bin/ptxas");
  // If the tree has no programs, they were not recorded. The interpreter also counts: if it exists,
  // the programs in its folder were recorded.
  if (found.empty() && !tree.exists("/bin/sh") && !tree.exists("/usr/bin/env") &&
      !tree.exists(python.prefix + "/bin/python3"))
    return Unreadable{"ptxas", 0};
  return found;
}

/// The number in "… unsupported GNU version! gcc versions later than 12 are not supported! …".
int newest_gcc_in(std::string_view header) {
  constexpr std::string_view kWords = "gcc versions later than ";
  const std::size_t at = header.find(kWords);
  if (at == std::string_view::npos) return 0;
  const Version version = version_of(header.substr(at + kWords.size(), 8));
  return version.empty() ? 0 : version.front();
}

Fact<CompilerLimit> compiler_limit(const Tree& tree, const Fact<Environment>& environment) {
  // No limit applies if the user has chosen the host compiler.
  if (!variable(environment, "NVCC_CCBIN").empty() ||
      variable(environment, "NVCC_PREPEND_FLAGS").find("ccbin") != std::string::npos ||
      variable(environment, "NVCC_APPEND_FLAGS").find("ccbin") != std::string::npos)
    return {};
  const std::string toolkit = toolkit_for_building(tree, environment);
  // A distribution's nvcc has a suitable host compiler in its nvcc.profile.
  if (toolkit.empty() || toolkit == "/usr" || toolkit.starts_with("/usr/lib/")) return {};
  for (const char* below : {"/include", "/targets/x86_64-linux/include",
                            "/targets/sbsa-linux/include", "/targets/aarch64-linux/include"}) {
    const std::string header = toolkit + below + "/crt/host_config.h";
    if (const auto text = tree.read(header))
      if (const int newest = newest_gcc_in(*text); newest > 0) return CompilerLimit{header, newest};
  }
  return {};
}

/// Finds a declaration in CUDA's header that clashes with glibc's: cospi and sinpi since glibc
/// 2.41, rsqrt since 2.42. There is no clash if "noexcept (true)" or a macro follows its
/// parameters.
Fact<HeaderClash> header_clash(const Tree& tree, const Fact<Environment>& environment,
                               const PythonFacts& python, const std::string& compiler) {
  const std::string toolkit = toolkit_for_building(tree, environment);
  // conda's compilers use the headers of an older C library. Distributions patch CUDA's headers.
  if (toolkit.empty() || toolkit == "/usr" || toolkit.starts_with("/usr/lib/") ||
      toolkit == python.prefix || compiler.find("conda") != std::string::npos ||
      !variable(environment, "CONDA_BUILD_SYSROOT").empty())
    return {};
  std::string libc_header, libc;
  for (const char* folder :
       {"/usr/include/x86_64-linux-gnu", "/usr/include/aarch64-linux-gnu", "/usr/include"}) {
    libc_header = std::string(folder) + "/bits/mathcalls.h";
    if (libc = tree.read(libc_header, 1 << 20).value_or(""); !libc.empty()) break;
  }
  if (libc.find("(cospi,") == std::string::npos) return {};
  for (const char* below : {"/include", "/targets/x86_64-linux/include",
                            "/targets/sbsa-linux/include", "/targets/aarch64-linux/include"}) {
    const std::string header = toolkit + below + "/crt/math_functions.h";
    const std::string cuda = tree.read(header, 1 << 20).value_or("");
    for (const std::string function : {"cospi", "sinpi", "rsqrt"})
      if (libc.find("(" + function + ",") != std::string::npos &&
          cuda.find(" " + function + "(double x);") != std::string::npos)
        return HeaderClash{header, libc_header, function};
    if (!cuda.empty()) break;
  }
  return {};
}

/// GCC's major version: 13 for "x86_64-linux-gnu-gcc-13". If the name has no number, reads it from
/// the folders lib/gcc/TRIPLE/VERSION next to the bin folder, if they agree.
int version_of_gcc(const Tree& tree, const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name.find("gcc") == std::string::npos && name.find("g++") == std::string::npos) return 0;
  const std::size_t dash = name.rfind('-');
  if (dash != std::string::npos)
    if (const Version version = version_of(name.substr(dash + 1)); !version.empty())
      return version.front();
  int found = 0;
  const std::string folder = parent(parent(path)) + "/lib/gcc";
  for (const std::string& triple : tree.list(folder, 50).value_or({})) {
    if (triple.find("linux") == std::string::npos) continue;
    for (const std::string& version : tree.list(folder + "/" + triple, 50).value_or({})) {
      const Version numbers = version_of(version);
      if (numbers.empty()) continue;
      if (found != 0 && found != numbers.front())
        return 0;  // several versions, so it is unknown which one is used
      found = numbers.front();
    }
  }
  return found;
}

Fact<HostCompiler> host_compiler(const Tree& tree, const Fact<Environment>& environment) {
  const std::string chosen = variable(environment, "CC");
  const std::string name(trim(chosen).substr(0, trim(chosen).find(' ')));
  const std::string path = program(tree, environment, name.empty() ? "gcc" : name);
  if (path.empty()) return {};
  const std::string real = tree.resolve(path).value_or(path);
  return HostCompiler{real, version_of_gcc(tree, real)};
}

/// Whether the mount that contains the folder is noexec: "36 35 98:0 / /tmp rw,noexec - tmpfs tmpfs
/// rw".
bool is_noexec(const std::string& mounts, const std::string& folder) {
  std::string_view nearest, options;
  for (const std::string_view line : split(mounts, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() < 6) continue;
    const std::string_view at = words[4];
    const bool above =
        at == "/" || folder == at ||
        (folder.starts_with(at) && folder.size() > at.size() && folder[at.size()] == '/');
    if (!above || at.size() < nearest.size()) continue;
    nearest = at;
    options = words[5];
  }
  const auto all = split(options, ',');
  return std::find(all.begin(), all.end(), "noexec") != all.end();
}

/// A cache folder of Triton that is on a noexec file system. Under torch.compile, Triton's cache is
/// in the cache folder of torch.compile.
Fact<std::string> cache_without_exec(const Tree& tree, const Fact<Environment>& environment) {
  const auto mounts = tree.read("/proc/self/mountinfo", 1 << 20);
  if (mounts.is_unreadable()) return mounts.why();
  std::vector<std::string> folders;
  if (std::string own = variable(environment, "TRITON_CACHE_DIR"); !own.empty())
    folders.push_back(std::move(own));
  else if (const std::string home = variable(environment, "HOME"); !home.empty())
    folders.push_back(home + "/.triton/cache");
  std::string compiled = variable(environment, "TORCHINDUCTOR_CACHE_DIR");
  if (compiled.empty()) compiled = variable(environment, "TMPDIR");
  folders.push_back(compiled.empty() ? "/tmp" : compiled);
  for (const std::string& folder : folders)
    if (folder.starts_with('/') && is_noexec(mounts.value_or(""), folder)) return folder;
  return {};
}

Fact<bool> any_compiler(const Tree& tree, const Fact<Environment>& environment) {
  if (!variable(environment, "CC").empty()) return true;
  const std::string path = variable(environment, "PATH");
  for (const char* name : {"gcc", "clang", "cc"}) {
    if (!program(tree, environment, name).empty()) return true;
    for (const std::string_view folder : split(path, ':'))
      if (const auto file = tree.node(std::string(folder) + "/" + name); file.is_unreadable())
        return file.why();
  }
  // If the tree has no programs, they were not recorded. A missing compiler then proves nothing.
  if (tree.exists("/bin/sh") || tree.exists("/usr/bin/env")) return false;
  return Unreadable{"gcc", 0};
}

void read_python_header(const Tree& tree, const PythonFacts& python, ToolchainFacts& facts) {
  const std::string version = python.version.value_or("");
  const auto there = [&](const std::string& folder) { return tree.exists(python.base + folder); };
  // For a virtual environment, pyvenv.cfg names the folder of the base Python.
  const auto settings = tree.read(python.prefix + "/pyvenv.cfg");
  if (version.empty() || python.base.empty() || settings.is_unreadable() ||
      !(there("/lib/python" + version) || there("/lib64/python" + version) ||
        there("/local/lib/python" + version) ||  // where Debian's pip installs packages
        there("/include"))) {
    facts.has_python_header = Unreadable{"Python.h", 0};
    return;
  }
  const std::string base = python.base == "/" ? "" : python.base;
  facts.python_header = base + "/include/python" + version + "/Python.h";
  const auto header = tree.node(*facts.python_header);
  facts.has_python_header = header.is_unreadable() ? Fact<bool>(header.why()) : header.has_value();
}

/// Paths of a library, as `ldconfig -p` lists them. Without the loader's cache (as in a bundle),
/// the paths that ldconfig would find.
std::vector<std::string> cached(const Tree& tree, const std::string& name) {
  std::vector<std::string> found;
  if (const auto bytes = tree.read("/etc/ld.so.cache", 16 << 20)) {
    const LoaderCache cache = parse_loader_cache(*bytes);
    if (const auto row = cache.find(name); row != cache.end())
      for (const std::string& path : row->second)
        if (tree.exists(path)) found.push_back(path);
    return found;
  }
  std::vector<std::string> folders = configured_folders(tree);
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/lib"})
    folders.emplace_back(folder);
  for (const std::string& folder : folders)
    if (tree.exists(folder + "/" + name)) found.push_back(folder + "/" + name);
  return found;
}

Fact<bool> links_cuda(const Tree& tree, const Fact<Environment>& environment,
                      const std::vector<std::string>& libraries) {
  // If there is neither a loader cache nor a linker, the linker's files were not recorded. A
  // missing file then proves nothing.
  if (!tree.exists("/etc/ld.so.cache") && program(tree, environment, "ld").empty())
    return Unreadable{"/etc/ld.so.cache", 0};
  std::vector<std::string> folders{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                   "/usr/lib64", "/usr/lib", "/usr/local/lib"};
  for (const std::string& library : libraries) folders.push_back(parent(library));
  for (const char* name : {"LIBRARY_PATH", "LD_LIBRARY_PATH"}) {
    const std::string list = variable(environment, name);
    for (const std::string_view folder : split(list, ':')) folders.emplace_back(folder);
  }
  return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
    return folder.starts_with('/') && tree.exists(folder + "/libcuda.so");
  });
}

}  // namespace

ToolchainFacts collect_toolchain(const Tree& tree, const Fact<Environment>& environment,
                                 const PythonFacts& python) {
  ToolchainFacts facts;
  facts.nvvm = tree.watched([&] { return Fact(nvvm_toolkits(tree, environment, python)); });
  facts.nvvm.doubt(python.conda);
  facts.compiler = tree.watched([&] { return host_compiler(tree, environment); });
  facts.building = tree.watched([&] { return toolkit_for(tree, environment, python); });
  facts.nvcc = tree.watched([&] { return compiler_limit(tree, environment); });
  const std::string compiler = facts.compiler ? facts.compiler->path : "";
  facts.clash = tree.watched([&] { return header_clash(tree, environment, python, compiler); });
  facts.ptxas = tree.watched([&] { return ptxas_of_path(tree, environment, python); });
  facts.other_ptxas = tree.watched([&] { return other_ptxas(tree, environment, python); });
  facts.other_ptxas.doubt(python.path);
  facts.any_compiler = tree.watched([&] { return any_compiler(tree, environment); });
  facts.cache_without_exec = tree.watched([&] { return cache_without_exec(tree, environment); });
  const auto header = tree.watched([&] {
    read_python_header(tree, python, facts);
    return Fact(true);
  });
  if (!header.is_whole()) facts.has_python_header.doubt(header.why());
  facts.cached_cuda = tree.watched([&] { return Fact(cached(tree, "libcuda.so.1")); });
  facts.links_cuda =
      tree.watched([&] { return links_cuda(tree, environment, facts.cached_cuda.value_or({})); });
  if (!environment.is_unreadable()) return facts;
  facts.nvvm.doubt(environment.why());
  facts.compiler.doubt(environment.why());
  facts.building.doubt(environment.why());
  facts.nvcc.doubt(environment.why());
  facts.clash.doubt(environment.why());
  facts.ptxas.doubt(environment.why());
  facts.other_ptxas.doubt(environment.why());
  facts.any_compiler.doubt(environment.why());
  facts.cache_without_exec.doubt(environment.why());
  facts.links_cuda.doubt(environment.why());
  return facts;
}

}  // namespace berth::doctor
