#include "doctor/recipe.hpp"

#include <algorithm>

#include "doctor/rules/sight.hpp"
#include "doctor/version.hpp"

namespace berth::doctor {
namespace {

bool driver_serves(const Compatibility& known, const TorchWish& wish, const std::string& cuda) {
  if (!wish.driver_cuda.empty() && !is_older(wish.driver_cuda, cuda)) return true;
  const std::string lowest = known.driver_for(cuda);
  if (!wish.driver.empty()) return !lowest.empty() && !is_older(wish.driver, lowest);
  return wish.driver_cuda.empty() ||
         (version_of(wish.driver_cuda)[0] == version_of(cuda)[0] && version_of(cuda)[0] >= 11);
}

bool gpus_served(const Compatibility& known, const TorchWish& wish, const TorchRelease& release,
                 const std::string& cuda) {
  return std::all_of(
      wish.capabilities.begin(), wish.capabilities.end(), [&](const std::string& capability) {
        return capability.empty() || torch_kernels(known, release.version, cuda, wish.aarch64,
                                                   capability) == Kernels::kHas;
      });
}

/// The newest CUDA that the driver was made for; else the oldest, which asks least of it.
std::optional<std::string> build_of(const Compatibility& known, const TorchWish& wish,
                                    const TorchRelease& release) {
  std::optional<std::string> best;
  for (const std::string& cuda : release.cuda) {
    if (!driver_serves(known, wish, cuda) || !gpus_served(known, wish, release, cuda)) continue;
    const bool made_for = !wish.driver_cuda.empty() && !is_older(wish.driver_cuda, cuda);
    const bool best_made_for =
        best && !wish.driver_cuda.empty() && !is_older(wish.driver_cuda, *best);
    const bool better = !best || (made_for && !best_made_for) ||
                        (made_for == best_made_for && is_older(*best, cuda) == made_for);
    if (better) best = cuda;
  }
  return best;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += " " + pasted(word);
  return out;
}

std::string program_of(const PythonFacts& python) {
  return pasted(python.interpreter.value_or("python3"));
}

}  // namespace

std::optional<TorchRecipe> torch_for(const Compatibility& known, const TorchWish& wish) {
  std::optional<TorchRecipe> best;
  for (const TorchRelease& release : known.torch) {
    if (!wish.python.empty() && !in_range(wish.python, release.python)) continue;
    const bool kept = !wish.keep.empty() && in_range(wish.keep, release.version);
    if (best && !kept) continue;
    if (const auto cuda = build_of(known, wish, release))
      best = TorchRecipe{release.version, *cuda, &release == &known.torch.front()};
    if (best && (kept || wish.keep.empty())) break;
  }
  return best;
}

std::string install_command(const PythonFacts& python, const std::vector<std::string>& words) {
  const std::string interpreter = program_of(python);
  if (python.is_externally_managed)
    return interpreter + " -m venv ~/gpu && ~/gpu/bin/pip install" + joined(words);
  if (python.has_uv) return "uv pip install --python " + interpreter + joined(words);
  return interpreter + " -m pip install" + joined(words);
}

std::string uninstall_command(const PythonFacts& python, const std::vector<std::string>& words) {
  const std::string interpreter = program_of(python);
  if (python.has_uv) return "uv pip uninstall --python " + interpreter + joined(words);
  return interpreter + " -m pip uninstall -y" + joined(words);
}

std::string install_torch_command(const PythonFacts& python, const TorchRecipe& recipe) {
  std::vector<std::string> words;
  if (!python.is_externally_managed)
    words.emplace_back(python.has_uv ? "--reinstall" : "--force-reinstall");
  words.push_back(recipe.newest ? "torch" : "torch==" + recipe.release + ".*");
  for (const char* more : {"torchvision", "torchaudio"})
    if (python.distribution(more)) words.emplace_back(more);
  words.emplace_back("--index-url");
  words.push_back("https://download.pytorch.org/whl/" + tag_of_cuda(recipe.cuda));
  return install_command(python, words);
}

}  // namespace berth::doctor
