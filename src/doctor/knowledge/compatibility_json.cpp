// Fills the typed tables from the JSON that scripts/toml_to_json.py generates from data/*.toml at
// build time.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "base/text_parts.hpp"
#include "doctor/knowledge/compatibility.hpp"
#include "doctor/knowledge/version.hpp"

// The symbol names that berth_embed() in CMake generates.
extern "C" {
extern const unsigned char berth_compatibility[];
extern const unsigned char berth_compatibility_end[];
}

namespace berth::doctor {
namespace {

using nlohmann::json;

std::string word(const json& row, const char* key) {
  const auto found = row.is_object() ? row.find(key) : row.end();
  return row.is_object() && found != row.end() && found->is_string() ? found->get<std::string>()
                                                                     : "";
}

int number(const json& row, const char* key) {
  const auto found = row.is_object() ? row.find(key) : row.end();
  return row.is_object() && found != row.end() && found->is_number_integer() ? found->get<int>()
                                                                             : 0;
}

bool is_true(const json& row, const char* key) {
  const auto found = row.is_object() ? row.find(key) : row.end();
  return row.is_object() && found != row.end() && *found == json(true);
}

std::vector<std::string> words(const json& row, const char* key) {
  std::vector<std::string> out;
  if (!row.is_object() || !row.contains(key) || !row[key].is_array()) return out;
  for (const json& one : row[key])
    if (one.is_string()) out.push_back(one.get<std::string>());
  return out;
}

/// The value at a path such as "a/b/c". Returns null if the path does not exist; a loop over null
/// does nothing.
const json& at(const json& document, std::string_view path) {
  static const json nothing;
  const json* here = &document;
  for (const std::string_view part : split(path, '/')) {
    const auto found = here->is_object() ? here->find(std::string(part)) : here->end();
    if (!here->is_object() || found == here->end()) return nothing;
    here = &*found;
  }
  return *here;
}

void read_toolkits(const json& document, Compatibility& known) {
  for (const char* table : {"compat/cuda_driver/rows", "compat/cuda_driver/newer/rows",
                            "compat/cuda_driver/older/rows"})
    for (const json& row : at(document, table))
      known.toolkit_drivers.push_back({word(row, "cuda"), word(row, "linux")});
  for (const ToolkitDriver& row : known.toolkit_drivers)
    if (const Version version = version_of(row.driver); !version.empty())
      known.branches.push_back({version[0], beginning(row.cuda)});
  for (const json& row : at(document, "compat/cuda_driver/without_toolkit/rows"))
    known.branches.push_back({number(row, "branch"), word(row, "cuda")});
  std::sort(known.branches.begin(), known.branches.end(),
            [](const BranchCuda& one, const BranchCuda& other) {
              return one.branch != other.branch ? one.branch < other.branch
                                                : is_older(one.cuda, other.cuda);
            });
  for (const json& row : at(document, "compat/cuda_minor_compat/rows"))
    known.major_drivers.push_back({number(row, "major"), word(row, "linux_min")});
  for (const json& row : at(document, "compat/arch/rows"))
    known.archs.push_back({word(row, "cc"), word(row, "name"), word(row, "toolkit_min"),
                           word(row, "toolkit_max"), number(row, "last_branch")});
  for (const json& row : at(document, "compat/cudnn/soname"))
    known.cudnn.push_back({number(row, "major"), words(row, "libs"), words(row, "newer")});
  for (const json& row : at(document, "compat/cudnn/rows"))
    known.cudnn_releases.push_back({word(row, "cudnn"), word(row, "cuda"), words(row, "cc")});
}

void read_torch(const json& document, Compatibility& known) {
  for (const json& row : at(document, "compat/pytorch/rows")) {
    TorchRelease release{word(row, "v"),    word(row, "python"), words(row, "cuda"),
                         word(row, "rocm"), word(row, "pypi"),   {}};
    if (row.is_object() && row.contains("cudnn") && row["cudnn"].is_object())
      for (const auto& [build, version] : row["cudnn"].items())
        if (version.is_string()) release.cudnn[build] = version.get<std::string>();
    for (std::string& more : words(row, "experimental")) release.cuda.push_back(std::move(more));
    known.torch.push_back(std::move(release));
  }
  const auto archs = [&](std::string_view table, std::vector<WheelArch>& into) {
    for (const json& row : at(document, table))
      into.push_back({word(row, "v"), word(row, "cu"), table.ends_with("aarch64"),
                      words(row, "arch"), word(row, "ptx")});
  };
  archs("compat/pytorch_arch/rows", known.torch_archs);
  archs("compat/pytorch_arch/aarch64", known.torch_archs);
  archs("compat/pytorch_arch/conda_forge", known.conda_archs);
  archs("compat/tensorflow/wheels/rows", known.tensorflow_archs);
  archs("compat/onnxruntime/wheels/archs", known.onnx_archs);
}

JaxPlugin jax_plugin(const json& row, int cuda_major) {
  const auto bound = [&](const char* key) {
    const std::string text = word(row, key);
    const std::size_t digit = text.find_first_of("0123456789");
    return digit == std::string::npos ? std::string() : beginning(text.substr(digit));
  };
  return {cuda_major, bound("needs"), bound("cudnn"),
          number(row, "driver_min") == 0 ? "" : std::to_string(number(row, "driver_min")),
          word(row, "cc_min")};
}

void read_frameworks(const json& document, Compatibility& known) {
  for (const json& row : at(document, "compat/tensorflow/rows"))
    known.tensorflow.push_back(
        {word(row, "v"), word(row, "python"), word(row, "cuda"), word(row, "cudnn")});
  known.tensorflow_with_pins = word(at(document, "compat/tensorflow"), "exact");
  for (const int major : {12, 13})
    if (const json& row = at(document, "compat/jax/cuda" + std::to_string(major)); row.is_object())
      known.jax.push_back(jax_plugin(row, major));
  for (const json& row : at(document, "compat/jax/rows")) {
    JaxRelease release{word(row, "v"), word(row, "python"), {}, words(row, "built")};
    for (const json& major : row.is_object() && row.contains("cuda") ? row["cuda"] : json::array())
      if (major.is_number_integer()) release.majors.push_back(major.get<int>());
    if (release.majors.size() == release.built.size())
      known.jax_releases.push_back(std::move(release));
  }
  for (const auto& [list, into] : {std::pair{"compat/jax/conda", &known.conda_jaxlibs},
                                   std::pair{"compat/jax/wheels", &known.jaxlib_wheels}})
    for (const json& row : at(document, list))
      into->push_back(
          {word(row, "v"), word(row, "build"), word(row, "cudnn"), word(row, "source")});
  for (const json& row : at(document, "compat/cupy/wheels"))
    known.cupy.push_back({word(row, "v"), word(row, "python"), word(row, "package"),
                          word(row, "built"), !row.contains("ctk") || is_true(row, "ctk")});
  for (const json& row : at(document, "compat/docker/rows"))
    known.images.push_back({word(row, "python"), word(row, "image")});
  for (const json& row : at(document, "compat/onnxruntime/rows"))
    known.onnx.push_back({word(row, "v"), word(row, "cuda"), word(row, "cudnn")});
  for (const json& row : at(document, "compat/onnxruntime/wheels/rows"))
    known.onnx_wheels.push_back({word(row, "v"), word(row, "python"), word(row, "built")});
}

void read_packages(const json& document, Compatibility& known) {
  for (const json& row : at(document, "compat/known_bad/rows"))
    known.known_bad.push_back({word(row, "package"), word(row, "version"), word(row, "what"),
                               word(row, "use"), word(row, "source")});
  for (const json& row : at(document, "compat/amd_firmware/rows"))
    known.amd_firmware.push_back(
        {word(row, "release"), word(row, "what"), word(row, "source"), words(row, "gfx")});
  for (const json& row : at(document, "compat/successors/rows"))
    known.successors.push_back({word(row, "package"), word(row, "use"), word(row, "source")});
  for (const json& row : at(document, "compat/pairs/rows"))
    known.pairs.push_back({word(row, "package"), word(row, "v"), word(row, "with"),
                           word(row, "bad"), word(row, "good"), word(row, "what"), word(row, "use"),
                           word(row, "source"), word(row, "same"), word(row, "unless")});
  for (const json& row : at(document, "compat/opens/rows"))
    known.opens.push_back({word(row, "package"), word(row, "v"), words(row, "libs"),
                           word(row, "use"), word(row, "with"), word(row, "source"),
                           word(row, "cuda"), is_true(row, "without_number"),
                           is_true(row, "x86_only")});
  for (const json& row : at(document, "compat/wheel_search/rows"))
    known.wheel_searchers.push_back(
        {word(row, "package"), word(row, "v"), word(row, "call"), word(row, "source")});
  for (const json& row : at(document, "compat/cpu_builds/rows"))
    known.cpu_builds.push_back({word(row, "package"), word(row, "v"), word(row, "use"),
                                word(row, "source"), is_true(row, "beside"),
                                is_true(row, "quiet")});
  for (const json& row : at(document, "compat/memory_users/rows"))
    known.memory_users.push_back({word(row, "package"), word(row, "v"), words(row, "where"),
                                  word(row, "use"), word(row, "set"), word(row, "source")});
  for (const json& row : at(document, "compat/ptx_users/rows"))
    known.ptx_users.push_back({word(row, "package"), word(row, "v"), word(row, "source")});
  for (const json& row : at(document, "compat/torch_symbols/rows"))
    known.torch_symbols.push_back({word(row, "symbol"), word(row, "lacks"), word(row, "source")});
  for (const json& row : at(document, "compat/cpu_needs/rows"))
    known.cpu_needs.push_back({word(row, "package"), word(row, "v"), words(row, "needs"),
                               word(row, "source"), word(row, "tag")});
  for (const json& row : at(document, "compat/package_gpus/rows"))
    known.package_gpus.push_back({word(row, "package"), word(row, "v"), word(row, "cc_min"),
                                  word(row, "source"), word(row, "tag"), words(row, "arch"),
                                  word(row, "ptx"), is_true(row, "warn"), word(row, "cc_max"),
                                  word(row, "below"), word(row, "what"), word(row, "use")});
  for (const json& row : at(document, "compat/executable_stack/rows"))
    known.executable_stacks.push_back({word(row, "package"), word(row, "v"), word(row, "tag"),
                                       word(row, "use"), word(row, "source")});
  for (const json& row : at(document, "compat/system_libc/rows"))
    known.system_libcs.push_back(
        {word(row, "system"), word(row, "release"), word(row, "kernel"), word(row, "libc")});
  for (const json& row : at(document, "compat/amd_kernel_faults/rows"))
    known.amd_kernel_faults.push_back({words(row, "gfx"), word(row, "kernel"), word(row, "what"),
                                       word(row, "set"), word(row, "source"), is_true(row, "info"),
                                       word(row, "mended")});
  for (const json& row : at(document, "compat/system_packages/rows"))
    known.system_packages.push_back({word(row, "package"), word(row, "v"), word(row, "when"),
                                     word(row, "what"), word(row, "use"), word(row, "source")});
}

void read_others(const json& document, Compatibility& known) {
  for (const json& row : at(document, "compat/podman_cdi/rows"))
    known.podman_cdi.push_back({word(row, "podman"), word(row, "format")});
  for (const json& row : at(document, "compat/jetson/rows"))
    known.jetsons.push_back({number(row, "l4t"), word(row, "cuda"), word(row, "python"),
                             word(row, "page"), words(row, "torch")});
  for (const json& row : at(document, "kernel_lines/line"))
    known.kernel_lines.push_back({word(row, "driver"), word(row, "kind"), words(row, "words"),
                                  word(row, "cause"), word(row, "action"), word(row, "command"),
                                  word(row, "source"), word(row, "task"), word(row, "value")});
  for (const json& row : at(document, "variables/variable"))
    known.variables.push_back({word(row, "name"), word(row, "reader"), word(row, "bad"),
                               word(row, "effect"), word(row, "cause"), word(row, "source"),
                               word(row, "below_cc"), word(row, "unless"), word(row, "without"),
                               word(row, "instead"), is_true(row, "no_infiniband")});
  for (const json& row : at(document, "compat/rocm_driver/rows"))
    known.rocm_drivers.push_back({word(row, "driver"), word(row, "rocm")});
  for (const json& row : at(document, "compat/pytorch_rocm_arch/rows"))
    known.rocm_wheels.push_back({word(row, "rocm"), words(row, "gfx")});
  for (const json& row : at(document, "gpu_families/families/rows"))
    known.families.push_back(
        {word(row, "begins"), word(row, "cc"), number(row, "digits"), is_true(row, "aarch64")});
  for (const json& row : at(document, "gpu_families/others/rows"))
    known.other_gpus[word(row, "maker")] = words(row, "begins");
  for (const json& row : at(document, "gpu_families/several/rows"))
    known.several_gpus[word(row, "said")] = words(row, "means");
  for (const json& row : at(document, "compat/triton_ptxas/rows"))
    known.triton_ptxas.push_back({word(row, "v"), word(row, "cuda"), word(row, "source")});
  for (const auto& [key, into] :
       {std::pair{"first", &known.first_branches}, std::pair{"last", &known.last_branches}})
    for (const json& row : at(document, fmt::format("gpu_families/nvidia_branches/{}", key)))
      into->push_back({number(row, "from"), number(row, "to"), number(row, "branch")});
  for (const auto& [table, into] :
       {std::pair{"intel_kernel", &known.intel_kernels},
        std::pair{"amd_kernel", &known.amd_kernels},
        std::pair{"intel_runtime", &known.intel_runtimes},
        std::pair{"intel_legacy", &known.intel_legacy}, std::pair{"torch_xpu", &known.torch_xpu}})
    for (const json& row : at(document, fmt::format("gpu_families/{}/rows", table)))
      into->push_back(
          {word(row, "begins"), word(row, "name"), word(row, "kernel"), word(row, "source")});
  known.rocm_devices = words(at(document, "gpu_families/rocm"), "devices");
}

void read_systems(const json& document, Compatibility& known) {
  for (const json& row : at(document, "systems/system")) {
    SystemCommands system{words(row, "ids"), word(row, "from"), is_true(row, "image"), {}};
    for (const json& task : at(row, "task"))
      system.tasks.push_back({word(task, "name"), word(task, "command"), word(task, "action")});
    for (const SystemCommands& like : known.systems)
      if (std::find(like.ids.begin(), like.ids.end(), word(row, "like")) != like.ids.end())
        for (const SystemTask& task : like.tasks)
          if (system.task(task.name) == nullptr) system.tasks.push_back(task);
    known.systems.push_back(std::move(system));
  }
  for (const json& row : at(document, "systems/what"))
    known.system_wishes.push_back({word(row, "task"), word(row, "short")});
}

}  // namespace

Compatibility compatibility_from(std::string_view text) {
  const json document = json::parse(text, nullptr, false);
  Compatibility known;
  read_toolkits(document, known);
  read_torch(document, known);
  read_frameworks(document, known);
  read_packages(document, known);
  read_others(document, known);
  read_systems(document, known);
  return known;
}

const Compatibility& shipped_compatibility() {
  static const Compatibility known =
      compatibility_from({reinterpret_cast<const char*>(berth_compatibility),
                          static_cast<std::size_t>(berth_compatibility_end - berth_compatibility)});
  return known;
}

}  // namespace berth::doctor
