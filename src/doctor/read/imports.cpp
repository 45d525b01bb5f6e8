#include "doctor/facts/imports.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "base/file.hpp"
#include "doctor/loader/loader.hpp"

namespace berth::doctor {
namespace {

/// Whose symbols differ from release to release, and how they begin.
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
});

constexpr auto kCuda = std::to_array<std::string_view>(
    {"libcudart.so", "libcublas", "libcudnn", "libnvJitLink.so", "libcufft.so", "libcurand.so",
     "libcusolver.so", "libcusparse.so", "libnccl.so", "libnvrtc.so"});

bool begins(std::string_view name, std::span<const std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view one) { return name.starts_with(one); });
}

/// Files that an import loads first, where their packages are installed.
std::vector<std::string> roots_in(const Tree& tree, const std::string& folder) {
  std::vector<std::string> roots;
  for (const char* name : {"libtorch_global_deps.so", "libtorch_cuda.so", "libtorch_python.so"})
    if (const std::string file = folder + "/torch/lib/" + name; tree.exists(file))
      roots.push_back(file);
  constexpr auto kExtensions = std::to_array<std::string_view>(
      {"flash_attn_2_cuda", "causal_conv1d_cuda", "selective_scan_cuda"});
  for (const std::string& name : tree.list(folder).value_or({}))
    if (name.ends_with(".so") && begins(name, kExtensions)) roots.push_back(folder + "/" + name);
  return roots;
}

/// Files whose code opens CUDA's libraries by their names.
std::string opener_in(const Tree& tree, const std::string& folder) {
  for (const char* name :
       {"/jax_plugins/xla_cuda12/xla_cuda_plugin.so", "/jax_plugins/xla_cuda13/xla_cuda_plugin.so",
        "/jaxlib/xla_extension.so", "/tensorflow/libtensorflow_framework.so.2",
        "/tensorflow_core/libtensorflow_framework.so.1"})
    if (tree.exists(folder + name)) return folder + name;
  return "";
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
      for (const std::string& root : roots_in(tree_, entry.folder)) loader_.open(root, first());
      if (const std::string opener = opener_in(tree_, entry.folder); !opener.empty())
        open_by_name(loader_.open(opener, first()));
    }
    return !loader_.objects().empty();
  }

  std::vector<MissingLibrary> missing_libraries() const {
    std::vector<MissingLibrary> found;
    for (const LoadedObject& one : loader_.objects()) {
      if (!one.path.empty() || one.loader < 0 || !begins(one.name, kCuda)) continue;
      // Opened by name, and possibly not needed at all: only what another file links to counts.
      const LoadedObject& by = loader_.objects()[static_cast<std::size_t>(one.loader)];
      const auto& needed = by.elf.needed;
      if (std::find(needed.begin(), needed.end(), one.name) == needed.end() || in_wheel(one.name))
        continue;
      found.push_back({one.name, by.path});
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
        // PyTorch's own libraries come in one wheel: only extensions can be of another.
        if (row.library == "libc10.so" && one.path.find("/torch/lib/") != std::string::npos)
          continue;
        const std::array<std::string_view, 1> beginning{row.beginning};
        for (const std::string& symbol : undefined_symbols(reader(one.path), beginning)) {
          if (defined_somewhere(symbol, *provider) != Found::kNo) continue;
          found.push_back({symbol, one.path, provider->name, provider->path,
                           words_for(provider->by), other_with(*provider, symbol)});
          break;  // one tells enough of this pair
        }
      }
    }
    return found;
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
  static constexpr std::size_t kMost = 20;

  [[nodiscard]] int first() const { return loader_.objects().empty() ? -1 : 0; }

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
      if (!one.path.empty() && one.name.substr(one.name.rfind('/') + 1).starts_with(begin))
        return &one;
    return nullptr;
  }

  [[nodiscard]] static bool links_to(const LoadedObject& one, std::string_view begin) {
    return std::any_of(one.elf.needed.begin(), one.elf.needed.end(),
                       [&](const std::string& name) { return name.starts_with(begin); });
  }

  /// Any loaded object will do, as for the loader.
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

  [[nodiscard]] bool in_wheel(const std::string& name) const {
    const auto& all = python_.libraries;
    return all && std::any_of(all->begin(), all->end(), [&](const CudaLibrary& one) {
             return one.name == name && one.from == CudaLibrary::From::kWheel;
           });
  }

  [[nodiscard]] std::string other_with(const LoadedObject& taken, const std::string& symbol) const {
    const std::string name = taken.name.substr(taken.name.rfind('/') + 1);
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
};

}  // namespace

ImportFacts collect_imports(const Tree& tree, const Fact<Environment>& environment,
                            const PythonFacts& python) {
  ImportFacts facts;
  if (python.path.is_unreadable() || environment.is_unreadable()) {
    const Unreadable why = python.path.is_unreadable() ? python.path.why() : environment.why();
    facts.libraries = why;
    facts.symbols = why;
    facts.versions = why;
    return facts;
  }
  if (!python.path) return facts;
  const auto seen = tree.watched([&] {
    Imports imports(tree, environment.value_or({}), python);
    if (!imports.load()) return Fact(false);
    facts.libraries = imports.missing_libraries();
    facts.symbols = imports.missing_symbols();
    facts.versions = imports.missing_versions();
    return Fact(true);
  });
  const auto doubted = [&](auto& fact) {
    fact.doubt(seen);
    fact.doubt(python.path);
  };
  doubted(facts.libraries);
  doubted(facts.symbols);
  doubted(facts.versions);
  return facts;
}

}  // namespace berth::doctor
