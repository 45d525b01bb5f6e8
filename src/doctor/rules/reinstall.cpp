#include "doctor/rules/reinstall.hpp"

#include "base/text.hpp"
#include "doctor/knowledge/python_text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/queries.hpp"

namespace berth::doctor {
namespace {

std::vector<std::string> before(const PythonFacts& python, Framework framework) {
  if (framework != Framework::kTorch) return {"-U"};
  std::vector<std::string> words;
  if (!python.is_externally_managed)
    words.emplace_back(python.has_uv ? "--reinstall" : "--force-reinstall");
  for (const char* more : {"torchvision", "torchaudio"})
    if (python.distribution(more)) words.emplace_back(more);
  return words;
}

std::string joined(const std::string& one, const std::string& other) {
  return one.empty() ? other : one + "; " + other;
}

std::string unknown_mirror(const PackageIndex& configured) {
  return text(
      "first set TORCH_INDEX to your mirror of {}: the configured index, {}, is not such a mirror",
      kTorchIndex, configured.named());
}

/// The installed packages that would stop working, because they require another release of PyTorch:
/// "vllm 0.8.5 (torch==2.6.0)".
std::string left_behind(const PythonFacts& python, const std::string& release) {
  std::string names;
  for (const Distribution& one : python.distributions.value_or({})) {
    if (one.name == "torchvision" || one.name == "torchaudio") continue;
    for (const std::string& row : one.needs)
      if (const Requirement need = parse_requirement(row);
          need.name == "torch" && !need.exact.empty() && beginning(need.exact) != release) {
        names += fmt::format("{}{} {} (torch=={})", names.empty() ? "" : ", ", one.name,
                             one.version, need.exact);
        break;
      }
  }
  return names;
}

/// Whether the installed PyTorch is from conda. If pip overwrites files of a conda package, the
/// next `conda install` breaks the package.
bool is_condas(Examination& look) {
  const CondaPackage* package = conda_package(look, "pytorch");
  const auto& torch = look.facts.python.torch;
  return package != nullptr && torch && package->version == torch->version;
}

void mind_the_others(Examination& look, model::Finding& finding, const std::string& release) {
  model::Fix& fix = finding.fix.back();
  if (is_condas(look)) {
    fix.command =
        fmt::format("conda remove -p {} pytorch\n", pasted(look.facts.python.prefix)) + fix.command;
    fix.says += "; " + text(
                           "conda has installed the current PyTorch: the first command removes it, "
                           "and conda's packages that depend on it");
  }
  if (const std::string names = left_behind(look.facts.python, release); !names.empty())
    fix.says +=
        "; " +
        text(
            "these packages were built for another PyTorch: {}; upgrade them to the release for {} "
            "with pip install -U (this may also replace PyTorch), or use a separate environment",
            names, release);
}

}  // namespace

Wish wish_of(Examination& look, Framework framework, const std::string& keep) {
  Wish wish;
  wish.framework = framework;
  wish.python = look.facts.python.version.value_or("");
  const SeenDriver driver = nvidia_driver(look);
  wish.driver = driver.version;
  wish.driver_cuda = driver.cuda;
  for (const SeenGpu& gpu : seen_gpus(look)) wish.capabilities.push_back(gpu.capability);
  wish.aarch64 = is_aarch64(look.facts);
  wish.keep = keep;
  keep_to(look.facts.packages.of(look.facts.python), wish);
  return wish;
}

std::optional<model::Fix> jetson_torch(const Compatibility& known, const Facts& facts) {
  if (!facts.machine.is_jetson) return std::nullopt;
  constexpr const char* kPage = "https://forums.developer.nvidia.com/t/pytorch-for-jetson/72048";
  const JetsonCuda* row = nullptr;
  for (const JetsonCuda& one : known.jetsons)
    if (one.l4t == facts.machine.l4t.value_or(0)) row = &one;
  const std::string python = facts.python.version.value_or("");
  if (row == nullptr || row->torch.empty())
    return model::Fix{"", text("install the PyTorch that NVIDIA builds for this JetPack: {}",
                               row == nullptr ? kPage : row->page)};
  if (!row->python.empty() && !python.empty() && python != row->python)
    return model::Fix{
        "", text("NVIDIA builds PyTorch for this JetPack's own Python {}, but the Python here is "
                 "{}: create an environment with JetPack's Python, then pip install {}",
                 row->python, python, fmt::join(row->torch, " "))};
  const char* again = facts.python.has_uv ? "--reinstall" : "--force-reinstall";
  std::vector<std::string> words{again};
  if (facts.python.is_externally_managed) words.clear();
  words.insert(words.end(), row->torch.begin(), row->torch.end());
  return model::Fix{install_command(facts.python, words),
                    text("the PyTorch that NVIDIA builds for this JetPack (Jetson Linux {}, CUDA "
                         "{}, Python {})",
                         row->l4t, row->cuda, row->python)};
}

bool add_reinstall(Examination& look, model::Finding& finding, const Wish& wish) {
  const PythonFacts& python = look.facts.python;
  if (wish.framework == Framework::kTorch)
    if (auto own = jetson_torch(look.knowledge.compatibility(), look.facts)) {
      finding.fix.push_back(*std::move(own));
      return true;
    }
  auto recipe = recipe_for(look.knowledge.compatibility(), wish);
  if (!recipe && wish.pypi_only) {
    Wish anywhere = wish;
    anywhere.pypi_only = false;
    recipe = recipe_for(look.knowledge.compatibility(), anywhere);
  }
  if (!recipe) return false;
  const IndexChoice index = index_of(recipe->build, look.facts.packages.of(python));
  std::string cost = text(
      "{} {} built with CUDA {}: runs on this driver and these GPUs; no root "
      "needed",
      name_of(wish.framework), recipe->build.release, recipe->build.cuda);
  if (index.is_unknown) cost = joined(cost, unknown_mirror(look.facts.packages.of(python)));
  finding.fix.push_back(
      {install_command(python, before(python, wish.framework), shell_words(*recipe, index)),
       std::move(cost)});
  if (wish.framework == Framework::kTorch) mind_the_others(look, finding, recipe->build.release);
  return true;
}

model::Fix torch_install(Examination& look, const std::vector<std::string>& words,
                         const std::string& tag, const std::string& says) {
  const PackageIndex& configured = look.facts.packages.of(look.facts.python);
  const IndexChoice index = index_of({"", "", "", "", tag, false}, configured);
  const std::string option = option_of(index);
  return {install_command(look.facts.python, words, option),
          index.is_unknown ? joined(says, unknown_mirror(configured)) : says};
}

}  // namespace berth::doctor
