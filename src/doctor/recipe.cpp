#include "doctor/recipe.hpp"

#include <algorithm>

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

std::string quoted(const std::string& path) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+~";
  if (path.find_first_not_of(kPlain) == std::string::npos) return path;
  std::string out = "'";
  for (const char c : path) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
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

std::string install_command(const PythonFacts& python, const std::string& packages) {
  const std::string interpreter = quoted(python.interpreter.value_or("python3"));
  if (python.is_externally_managed)
    return interpreter + " -m venv ~/gpu && ~/gpu/bin/pip install " + packages;
  if (python.has_uv) return "uv pip install --python " + interpreter + " " + packages;
  return interpreter + " -m pip install " + packages;
}

std::string install_command(const PythonFacts& python, const TorchRecipe& recipe) {
  std::string packages = recipe.newest ? "torch" : "'torch==" + recipe.release + ".*'";
  for (const char* more : {"torchvision", "torchaudio"})
    if (python.distribution(more)) packages += std::string(" ") + more;
  const char* again = python.is_externally_managed ? ""
                      : python.has_uv              ? "--reinstall "
                                                   : "--force-reinstall ";
  return install_command(python, again + packages +
                                     " --index-url https://download.pytorch.org/whl/" +
                                     tag_of_cuda(recipe.cuda));
}

}  // namespace berth::doctor
