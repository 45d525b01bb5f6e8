#include "doctor/facts/imports.hpp"
#include "doctor/read/collectors.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <set>

#include "base/text_parts.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/read/fatbin.hpp"
#include "doctor/read/loader.hpp"

namespace berth::doctor {
namespace {

/// A library whose symbols differ between its releases, and a prefix that these symbols have.
struct Provider {
  std::string_view library, beginning;
};
constexpr auto kProviders = std::to_array<Provider>({
    {"libnvJitLink.so", "__nvJitLink"},
    {"libnvJitLink.so", "nvJitLink"},
    {"libnccl.so", "nccl"},
    {"libcudnn.so", "cudnn"},
    {"libcusparse.so", "cusparse"},
    {"libcublas.so", "cublas"},
    {"libc10.so", "_ZN3c10"},
    {"libc10.so", "_ZNK3c10"},
    {"libc10_cuda.so", "_ZN3c104cuda"},
    {"libmkl_core.so", "iJIT_"},
});

constexpr auto kCuda = std::to_array<std::string_view>(
    {"libcudart.so", "libcublas", "libcudnn", "libnvJitLink.so", "libcufft.so", "libcurand.so",
     "libcusolver.so", "libcusparse.so", "libnccl.so", "libnvrtc.so"});

/// Libraries that are never reported as missing. A recording may lack those of glibc, compilers and
/// the interpreter. Other rules check the driver's libraries and PyTorch's own.
constexpr auto kNotMissed = std::to_array<std::string_view>(
    {"ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libutil.so",
     "libstdc++.so", "libgcc_s.so", "libgomp.so", "libatomic.so", "libpython", "libz.so",
     "linux-vdso", "libcuda.so", "libnvidia-", "libtorch", "libc10"});

bool begins(std::string_view name, std::span<const std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view one) { return name.starts_with(one); });
}

/// A file that Python loads when a package is imported or first uses the GPU.
struct Root {
  std::string file;
  std::string package;    // the package that contains the file: "torch", "cupy"
  bool of_torch = false;  // the file is compiled against PyTorch
};

/// A folder in which a package has CUDA files, and the prefix of their names.
struct Part {
  std::string_view package, folder, begins;
};
constexpr auto kParts = std::to_array<Part>({
    {"torch", "/torch/lib", "libtorch_global_deps.so"},
    {"torch", "/torch/lib", "libtorch_cuda.so"},
    {"torch", "/torch/lib", "libtorch_hip.so"},
    {"torch", "/torch/lib", "libtorch_cpu.so"},
    {"torch", "/torch/lib", "libtorch_python.so"},
    {"flash-attn", "", "flash_attn_2_cuda"},
    {"causal-conv1d", "", "causal_conv1d_cuda"},
    {"mamba-ssm", "", "selective_scan_cuda"},
    {"onnxruntime-gpu", "/onnxruntime/capi", "libonnxruntime_providers_cuda.so"},
    {"ctranslate2", "/ctranslate2", "_ext."},
    {"cupy", "/cupy_backends/cuda/libs", "cublas."},
    {"llama-cpp-python", "/llama_cpp/lib", "libggml-cuda.so"},
    {"faiss", "/faiss", "_swigfaiss."},
    {"xgboost", "/xgboost/lib", "libxgboost.so"},
    {"lightgbm", "/lightgbm/lib", "lib_lightgbm.so"},
    {"dgl", "/dgl", "libdgl.so"},
    {"mxnet", "/mxnet", "libmxnet.so"},
    {"paddlepaddle-gpu", "/paddle/base", "libpaddle.so"},
});

/// Whether to skip this package: other functions check its files, or none of its files links to a
/// CUDA library.
bool is_no_extension(std::string_view folder) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"torch",         "tensorflow",   "tensorflow_core",
                                       "nvidia",        "numpy",        "scipy",
                                       "pandas",        "jaxlib",       "jax_plugins",
                                       "onnxruntime",   "ctranslate2",  "cupy",
                                       "cupy_backends", "bitsandbytes", "triton",
                                       "sklearn",       "PIL",          "matplotlib",
                                       "llvmlite",      "numba",        "pyarrow",
                                       "cv2",           "grpc"});
  return folder.starts_with('.') || folder.starts_with("__") || folder.ends_with("-info") ||
         folder.ends_with(".libs") ||
         std::find(kNames.begin(), kNames.end(), folder) != kNames.end();
}

/// Whether PyTorch's build tools create files with names like these:
/// "_C.cpython-310-x86_64-linux-gnu.so", "_C.abi3.so", "_ext.so", "_scatter_cuda.so".
bool is_extension_file(std::string_view name) {
  return name.ends_with(".so") &&
         (name.starts_with("_C.") || name.starts_with("_C_") || name.starts_with("_ext.") ||
          name.find("cuda") != std::string_view::npos ||
          name.find("_ext.") != std::string_view::npos);
}

/// Adds the extensions for PyTorch and CUDA that any package may have: in `folder`, and in its
/// direct subfolders.
void add_extensions(const Tree& tree, const std::string& folder, std::vector<Root>& roots) {
  constexpr std::size_t kMost = 60, kMostFolders = 1'000;
  std::size_t folders = 0;
  const auto add = [&](const std::string& file, const std::string& package) {
    if (roots.size() >= kMost ||
        std::any_of(roots.begin(), roots.end(), [&](const Root& one) { return one.file == file; }))
      return;
    roots.push_back({file, package, true});
  };
  for (const std::string& name : tree.list(folder).value_or({})) {
    if (is_extension_file(name)) add(folder + "/" + name, name.substr(0, name.find('.')));
    // A folder whose name contains a dot is not a package: "torch-2.4.0.dist-info".
    if (name.find('.') != std::string::npos || is_no_extension(name) || ++folders > kMostFolders)
      continue;
    for (const std::string& file : tree.list(folder + "/" + name, 2'000).value_or({}))
      if (is_extension_file(file)) add(folder + "/" + name + "/" + file, name);
  }
}

/// Files such as "_scatter_cpu.so" in a package without "_scatter_cuda.so". PyG's packages are in
/// this state if they were compiled without nvcc.
std::vector<std::string> processor_halves_in(const Tree& tree, const std::string& folder) {
  std::vector<std::string> found;
  for (const char* package :
       {"torch_scatter", "torch_sparse", "torch_cluster", "torch_spline_conv"}) {
    const auto names = tree.list(folder + "/" + package, 2'000).value_or({});
    const auto with = [&](std::string_view word) {
      return std::find_if(names.begin(), names.end(), [&](const std::string& name) {
        return name.ends_with(".so") && name.find(word) != std::string::npos;
      });
    };
    const auto cpu = with("_cpu.");
    if (cpu != names.end() && with("_cuda.") == names.end())
      found.push_back(folder + "/" + package + "/" + *cpu);
  }
  return found;
}

/// The file that bitsandbytes loads. bitsandbytes has one file for each CUDA version, and loads the
/// one for PyTorch's version.
std::string bitsandbytes_file(const PythonFacts& python) {
  if (!python.torch || !python.torch->cuda) return "";
  return "libbitsandbytes_cuda" + tag_of_cuda(*python.torch->cuda).substr(2) + ".so";
}

std::vector<Root> roots_in(const Tree& tree, const std::string& folder, const PythonFacts& python) {
  std::vector<Root> roots;
  for (const Part& part : kParts) {
    const std::string place = folder + std::string(part.folder);
    for (const std::string& name : tree.list(place).value_or({}))
      if (name.starts_with(part.begins) && name.ends_with(".so"))
        roots.push_back({place + "/" + name, std::string(part.package), part.folder.empty()});
  }
  if (const std::string name = bitsandbytes_file(python); !name.empty())
    if (const std::string file = folder + "/bitsandbytes/" + name; tree.exists(file))
      roots.push_back({file, "bitsandbytes"});
  if (python.torch && python.torch->cuda) add_extensions(tree, folder, roots);
  return roots;
}

/// A file of JAX or another package whose code opens CUDA libraries by name.
Root opener_in(const Tree& tree, const std::string& folder) {
  for (const char* name :
       {"/jax_plugins/xla_cuda12/xla_cuda_plugin.so", "/jax_plugins/xla_cuda13/xla_cuda_plugin.so",
        "/jaxlib/xla_extension.so"})
    if (tree.exists(folder + name)) return {folder + name, "jax"};
  for (const char* name : {"/tensorflow/libtensorflow_framework.so.2",
                           "/tensorflow_core/libtensorflow_framework.so.1"})
    if (tree.exists(folder + name)) return {folder + name, "tensorflow"};
  return {};
}

class Imports {
 public:
  Imports(const Tree& tree, const Environment& environment, const PythonFacts& python)
      : tree_(tree), python_(python), loader_(tree, environment) {}

  bool load() {
    loader_.start(python_.interpreter.value_or(""));
    if (loader_.objects().empty()) {
      for (const char* program : {"/bin/sh", "/usr/bin/env"})
        if (loader_.objects().empty()) loader_.start(program);
    }
    for (const PathEntry& entry : *python_.path) {
      for (const Root& root : roots_in(tree_, entry.folder, python_)) {
        open(root);
        if (char first = 0; root.of_torch && !reader(root.file)(0, &first, 1))
          unrecorded_ = Unreadable{root.file, 0};
      }
      if (const Root opener = opener_in(tree_, entry.folder); !opener.file.empty())
        open_by_name(open(opener));
    }
    return !loader_.objects().empty();
  }

  /// Set if a PyTorch extension exists whose content was not recorded.
  [[nodiscard]] const std::optional<Unreadable>& unrecorded() const { return unrecorded_; }

  std::vector<LinkedLibrary> missing_libraries() const {
    std::vector<LinkedLibrary> found;
    for (const LoadedObject& one : loader_.objects()) {
      if (!one.path.empty() || one.loader < 0 || begins(one.name, kNotMissed)) continue;
      // A library that is only opened by name may be optional. It is required if a file links to
      // it.
      const LoadedObject& by = loader_.objects()[static_cast<std::size_t>(one.loader)];
      const auto& needed = by.elf.needed;
      if (std::find(needed.begin(), needed.end(), one.name) != needed.end())
        found.push_back({one.name, by.path, package_of(one.loader), wheel_with(one.name)});
    }
    return found;
  }

  std::vector<LinkedLibrary> links() const {
    std::vector<LinkedLibrary> found;
    for (std::size_t i = 0; i < loader_.objects().size() && found.size() < kMost; ++i) {
      const LoadedObject& one = loader_.objects()[i];
      const std::string package = package_of(static_cast<int>(i));
      if (one.path.empty() || package.empty() || package == "torch" ||
          begins(file_name(one), kCuda))
        continue;
      for (const std::string& name : one.elf.needed)
        if (begins(name, kCuda)) found.push_back({name, one.path, package, wheel_with(name)});
    }
    return found;
  }

  std::vector<MissingSymbol> missing_symbols() const {
    std::vector<MissingSymbol> found;
    for (const LoadedObject& one : loader_.objects()) {
      if (one.path.empty() || found.size() >= kMost) continue;
      for (const Provider& row : kProviders) {
        const LoadedObject* provider = loaded(row.library);
        if (provider == nullptr || provider == &one || !links_to(one, row.library)) continue;
        // PyTorch's own libraries come from one wheel, so they match each other. Only extensions
        // can fail to match.
        if (row.library.starts_with("libc10") && one.path.find("/torch/lib/") != std::string::npos)
          continue;
        const std::array<std::string_view, 1> beginning{row.beginning};
        for (const std::string& symbol : undefined_symbols(reader(one.path), beginning)) {
          if (defined_somewhere(symbol, *provider) != Found::kNo) continue;
          found.push_back({symbol, one.path, provider->name, provider->path,
                           words_for(provider->by), other_with(*provider, symbol)});
          // One missing symbol is enough to report these two files.
          break;
        }
      }
    }
    return found;
  }

  std::vector<LinkedLibrary> torch_links() const {
    std::vector<LinkedLibrary> found;
    for (const auto& [index, package] : packages_) {
      const LoadedObject& one = loader_.objects()[static_cast<std::size_t>(index)];
      if (one.path.empty() || package == "torch") continue;
      for (const std::string& name : one.elf.needed)
        if (found.size() < kMostSymbols &&
            (name.starts_with("libtorch") || name.starts_with("libc10")))
          found.push_back({name, one.path, package, ""});
    }
    return found;
  }

  std::vector<std::string> processor_halves() const {
    std::vector<std::string> found;
    for (const PathEntry& entry : *python_.path)
      for (std::string& file : processor_halves_in(tree_, entry.folder))
        found.push_back(std::move(file));
    return found;
  }

  std::vector<WantedSymbol> torch_symbols() const {
    constexpr std::array<std::string_view, 2> kBegin{"_ZN3c10", "_ZNK3c10"};
    std::vector<WantedSymbol> found;
    for (const auto& [index, package] : packages_) {
      const LoadedObject& one = loader_.objects()[static_cast<std::size_t>(index)];
      if (one.path.empty() || package == "torch") continue;
      for (std::string& symbol : undefined_symbols(reader(one.path), kBegin)) {
        if (found.size() >= kMostSymbols) return found;
        found.push_back({printable(symbol), one.path, package});
      }
    }
    return found;
  }

  /// The GPU code in the libraries that a package loads. NVIDIA's own libraries are skipped,
  /// because the GPUs that they support may differ from those of the package.
  std::vector<PackageCode> codes() const {
    std::vector<PackageCode> found;
    const auto written = [](unsigned number) {
      return std::to_string(number / 10) + "." + std::to_string(number % 10);
    };
    for (std::size_t i = 0; i < loader_.objects().size() && found.size() < kMost * 3; ++i) {
      const LoadedObject& one = loader_.objects()[i];
      const std::string package = package_of(static_cast<int>(i));
      if (one.path.empty() || package.empty() || package == "torch" ||
          one.path.find("/torch/lib/") != std::string::npos || begins(file_name(one), kCuda))
        continue;
      const auto code = gpu_code(reader(one.path));
      if (!code) continue;
      PackageCode row{package, one.path, {}, ""};
      for (const unsigned number : code->sass) row.sass.push_back(written(number));
      if (!code->ptx.empty()) row.ptx = written(code->ptx.front());
      found.push_back(std::move(row));
    }
    return found;
  }

  std::vector<StackFile> executable_stacks() const {
    std::vector<StackFile> found;
    for (std::size_t i = 0; i < loader_.objects().size() && found.size() < kMost; ++i) {
      const LoadedObject& one = loader_.objects()[i];
      if (const std::string package = package_of(static_cast<int>(i));
          one.elf.executable_stack && !one.path.empty() && !package.empty())
        found.push_back({package, one.path});
    }
    return found;
  }

  Fact<std::string> libc() const {
    const LoadedObject* library = loaded("libc.so.6");
    std::string newest;
    for (const std::string& version :
         library == nullptr ? std::vector<std::string>{} : library->elf.defined_versions)
      if (version.starts_with("GLIBC_2.") &&
          (newest.empty() || is_older(newest, version.substr(6))))
        newest = version.substr(6);
    return newest.empty() ? Fact<std::string>() : Fact<std::string>(std::move(newest));
  }

  std::vector<MissingVersion> missing_versions() const {
    std::vector<MissingVersion> found;
    std::set<std::string> told;
    for (const LoadedObject& one : loader_.objects())
      for (const NeededVersions& need : one.elf.needed_versions) {
        if (need.file != "libc.so.6" && need.file != "libstdc++.so.6") continue;
        const LoadedObject* library = loaded(need.file);
        if (library == nullptr || library->elf.defined_versions.empty()) continue;
        const auto& has = library->elf.defined_versions;
        for (const std::string& version : need.versions)
          if (version.starts_with("GLIBC") && version != "GLIBC_PRIVATE" &&
              std::find(has.begin(), has.end(), version) == has.end() &&
              told.insert(version).second && found.size() < kMost)
            found.push_back({version, one.path, library->path, words_for(library->by)});
      }
    return found;
  }

 private:
  enum class Found : unsigned char { kYes, kNo, kUnknown };
  static constexpr std::size_t kMost = 20, kMostSymbols = 5'000;

  [[nodiscard]] int first() const { return loader_.objects().empty() ? -1 : 0; }

  int open(const Root& root) {
    const int index = loader_.open(root.file, first());
    if (index >= 0) packages_.emplace(index, root.package);
    return index;
  }

  void open_by_name(int opener) {
    if (opener < 0) return;
    for (const char* name : {"libcudnn.so.8", "libcudnn_cnn_infer.so.8", "libcusolver.so.11"})
      loader_.open(name, opener);
  }

  [[nodiscard]] ReadAt reader(const std::string& path) const {
    const auto file = tree_.open_file(path);
    return [file](std::uint64_t offset, void* into, std::size_t size) {
      return file.has_value() && file->read_at(offset, into, size);
    };
  }

  [[nodiscard]] const LoadedObject* loaded(std::string_view begin) const {
    for (const LoadedObject& one : loader_.objects())
      if (!one.path.empty() && file_name(one).starts_with(begin)) return &one;
    return nullptr;
  }

  [[nodiscard]] static bool links_to(const LoadedObject& one, std::string_view begin) {
    return std::any_of(one.elf.needed.begin(), one.elf.needed.end(),
                       [&](const std::string& name) { return name.starts_with(begin); });
  }

  /// Searches all loaded objects for a definition of the symbol, as the loader does.
  [[nodiscard]] Found defined_somewhere(const std::string& symbol,
                                        const LoadedObject& provider) const {
    const auto first = defines_symbol(reader(provider.path), symbol);
    if (!first) return Found::kUnknown;
    if (*first) return Found::kYes;
    for (const LoadedObject& one : loader_.objects())
      if (!one.path.empty() && &one != &provider &&
          defines_symbol(reader(one.path), symbol).value_or(false))
        return Found::kYes;
    return Found::kNo;
  }

  [[nodiscard]] static std::string file_name(const LoadedObject& one) {
    return one.name.substr(one.name.rfind('/') + 1);
  }

  /// The package whose Python module loads this object, directly or through other libraries.
  [[nodiscard]] std::string package_of(int index) const {
    for (; index >= 0; index = loader_.objects()[static_cast<std::size_t>(index)].loader)
      if (const auto found = packages_.find(index); found != packages_.end()) return found->second;
    return "";
  }

  [[nodiscard]] std::string wheel_with(const std::string& name) const {
    for (const CudaLibrary& one : python_.libraries.value_or({}))
      if (one.name == name && one.from == CudaLibrary::From::kWheel) return one.folder;
    return "";
  }

  [[nodiscard]] std::string other_with(const LoadedObject& taken, const std::string& symbol) const {
    const std::string name = file_name(taken);
    for (const CudaLibrary& one : python_.libraries.value_or({})) {
      std::string path = one.folder + "/" + one.name;
      if (one.name == name && path != taken.path &&
          defines_symbol(reader(path), symbol).value_or(false))
        return path;
    }
    return "";
  }

  const Tree& tree_;
  const PythonFacts& python_;
  Loader loader_;
  /// Key: index of an object that a package opens directly; value: that package.
  std::map<int, std::string> packages_;
  std::optional<Unreadable> unrecorded_;
};

}  // namespace

ImportFacts collect_imports(const Tree& tree, const Fact<Environment>& environment,
                            const PythonFacts& python) {
  ImportFacts facts;
  if (python.path.is_unreadable() || environment.is_unreadable()) {
    const Unreadable why = python.path.is_unreadable() ? python.path.why() : environment.why();
    facts.libraries = why;
    facts.links = why;
    facts.symbols = why;
    facts.torch_symbols = why;
    facts.torch_links = why;
    facts.torch_extensions = why;
    facts.processor_halves = why;
    facts.versions = why;
    facts.codes = why;
    facts.executable_stacks = why;
    facts.libc = why;
    return facts;
  }
  if (!python.path) return facts;
  std::optional<Unreadable> unrecorded;
  const auto seen = tree.watched([&] {
    Imports imports(tree, environment.value_or({}), python);
    const bool any = imports.load();
    unrecorded = imports.unrecorded();
    if (!any) return Fact(false);
    facts.libraries = imports.missing_libraries();
    facts.links = imports.links();
    facts.symbols = imports.missing_symbols();
    facts.torch_symbols = imports.torch_symbols();
    facts.torch_links = imports.torch_links();
    facts.processor_halves = imports.processor_halves();
    facts.versions = imports.missing_versions();
    facts.codes = imports.codes();
    facts.executable_stacks = imports.executable_stacks();
    facts.libc = imports.libc();
    return Fact(true);
  });
  if (unrecorded) facts.torch_extensions = *unrecorded;
  const auto doubted = [&](auto& fact) {
    fact.doubt(seen);
    fact.doubt(python.path);
  };
  doubted(facts.libraries);
  doubted(facts.links);
  // If `python.libraries` is incomplete, a missing library may still be in a wheel.
  facts.libraries.doubt(python.libraries);
  facts.links.doubt(python.libraries);
  doubted(facts.symbols);
  doubted(facts.torch_symbols);
  doubted(facts.torch_links);
  doubted(facts.processor_halves);
  doubted(facts.versions);
  doubted(facts.codes);
  doubted(facts.executable_stacks);
  return facts;
}

}  // namespace berth::doctor
