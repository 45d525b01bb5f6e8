#include "doctor/knowledge/recipe.hpp"

#include <algorithm>

#include "doctor/knowledge/version.hpp"

namespace berth::doctor {
namespace {

bool driver_serves(const Wish& wish, const Build& build, const Need& need) {
  if (wish.driver.empty() && wish.driver_cuda.empty()) return true;
  const bool made_for = !wish.driver_cuda.empty() && !is_older(wish.driver_cuda, build.cuda);
  if (wish.planned && !wish.driver.empty()) {
    if (need.last_branch != 0 && version_of(wish.driver)[0] > need.last_branch) return false;
    if (!need.to_exist.empty() && is_older(wish.driver, need.to_exist)) return false;
  }
  // Compare the CUDA version first. On WSL, the driver version is that of the Windows driver, which
  // cannot be compared.
  if (made_for) return true;
  if (!need.made_for.empty() && !wish.driver_cuda.empty()) return false;
  if (!wish.driver.empty()) return !is_older(wish.driver, need.driver);
  return version_of(wish.driver_cuda)[0] == version_of(build.cuda)[0] &&
         version_of(build.cuda)[0] >= 11;
}

/// The recipe for one build; nullopt if a GPU or the driver cannot run the build.
std::optional<Recipe> recipe_of(const Compatibility& known, const Wish& wish, const Build& build) {
  Recipe recipe{build, {build.package}, "", false};
  if (build.cuda.empty()) return recipe;
  // An empty capability means unknown. For it, only the build's own requirements are checked.
  std::vector<std::string> capabilities = wish.capabilities;
  if (capabilities.empty()) capabilities.emplace_back();
  for (const std::string& capability : capabilities) {
    const auto need = capability.empty()
                          ? std::optional<Need>({known.driver_for(build.cuda), "", "", 0})
                          : need_of(known, wish.framework, build, wish.aarch64, capability);
    if (!need || need->driver.empty() || !driver_serves(wish, build, *need)) return std::nullopt;
    std::string lowest = need->driver;
    if (wish.planned && is_older(lowest, need->to_exist)) lowest = need->to_exist;
    if (is_older(recipe.driver, lowest)) recipe.driver = lowest;
    recipe.by_ptx = recipe.by_ptx || !need->made_for.empty();
  }
  if (const std::string pin = cudnn_pin(known, wish.framework, build, wish.capabilities);
      !pin.empty())
    recipe.packages.push_back(pin);
  return recipe;
}

bool is_open_to(const Wish& wish, const Build& build) {
  return !(wish.no_toolkit && build.needs_toolkit) &&
         (wish.cuda_major == 0 || build.cuda.empty() ||
          version_of(build.cuda)[0] == wish.cuda_major) &&
         (wish.python.empty() || in_range(wish.python, build.python)) &&
         (!wish.pypi_only || (build.on_pypi && !wish.tags_only) ||
          std::find(wish.tags.begin(), wish.tags.end(), build.tag) != wish.tags.end());
}

/// Whether `cuda` is a better choice than `than`. If the driver supports only one of them, that one
/// is better. If it supports both, the newer one is better. If it supports neither, the older one
/// is better, because it needs an older driver.
bool is_better(const Wish& wish, const std::string& cuda, const std::string& than) {
  const auto made_for = [&](const std::string& one) {
    return !wish.driver_cuda.empty() && !is_older(wish.driver_cuda, one);
  };
  if (made_for(cuda) != made_for(than)) return made_for(cuda);
  return is_older(than, cuda) == made_for(cuda);
}

/// The CUDA version that the driver must support for this build. A build that uses an installed
/// toolkit only requires the major version.
std::string asked_of(const Build& build) {
  return build.needs_toolkit ? beginning(build.cuda, 1) + ".0" : build.cuda;
}

std::vector<std::string> known_pythons(const std::vector<Build>& builds) {
  std::vector<std::string> pythons;
  for (int minor = 30; minor >= 6; --minor) {
    const std::string python = "3." + std::to_string(minor);
    if (std::any_of(builds.begin(), builds.end(),
                    [&](const Build& one) { return in_range(python, one.python); }))
      pythons.push_back(python);
  }
  return pythons;
}

/// The lowest driver version that is enough for any build with this Python and these GPUs.
std::string lowest_driver(const Compatibility& known, Wish wish) {
  wish.driver = wish.driver_cuda = "";
  std::string lowest;
  for (const Build& build : builds_of(known, wish.framework, wish.platform, wish.aarch64))
    if (is_open_to(wish, build))
      if (const auto recipe = recipe_of(known, wish, build))
        if (lowest.empty() || is_older(recipe->driver, lowest)) lowest = recipe->driver;
  return lowest;
}

/// The cuDNN releases that a build accepts: `first` and newer, but older than `end`. If `first` is
/// "", every release is accepted.
struct CudnnRange {
  std::string first, end;
  bool exact = false;
};

CudnnRange cudnn_of(const Compatibility& known, Framework framework, const Build& build,
                    const std::vector<std::string>& capabilities) {
  const auto before_next = [](const std::string& version) {
    return version.empty() ? std::string() : std::to_string(version_of(version)[0] + 1);
  };
  CudnnRange range;
  if (framework == Framework::kTorch) {
    range.first = range.end = known.cudnn_of_torch(build.release, build.cuda);
    range.exact = true;
    return range;
  }
  if (framework == Framework::kTensorflow) {
    if (const TensorflowRelease* row = known.tensorflow_of(build.release)) {
      range.first = row->cudnn;
      range.exact = in_range(build.release, known.tensorflow_with_pins);
      range.end = range.exact ? row->cudnn : before_next(row->cudnn);
    }
  } else if (framework == Framework::kJax) {
    for (const JaxPlugin& row : known.jax)
      if (row.cuda_major == version_of(build.cuda)[0]) range.first = row.cudnn;
    range.end = before_next(range.first);
  }
  if (const std::string pin = cudnn_pin(known, framework, build, capabilities);
      !pin.empty() && !range.exact) {
    range.first = range.end = beginning(pin.substr(pin.find("==") + 2));
    range.exact = true;
  }
  return range;
}

bool share_a_cudnn(const CudnnRange& one, const CudnnRange& other) {
  if (one.first.empty() || other.first.empty()) return true;
  if (one.exact && other.exact) return may_be_same(one.first, other.first);
  if (one.exact != other.exact) {
    const CudnnRange& exact = one.exact ? one : other;
    const CudnnRange& range = one.exact ? other : one;
    return !is_older(exact.first, range.first) && is_older(exact.first, range.end);
  }
  return is_older(one.first, other.end) && is_older(other.first, one.end);
}

/// Whether the build requires exact versions of all CUDA packages, not only of cuDNN.
bool pins_all(const Compatibility& known, Framework framework, const Build& build) {
  if (framework == Framework::kTorch) return true;
  return framework == Framework::kTensorflow && in_range(build.release, known.tensorflow_with_pins);
}

int last_branch(const Compatibility& known, const Wish& wish) {
  int last = 0;
  for (const std::string& capability : wish.capabilities)
    if (const ArchToolkits* row = known.toolkits_of(capability); row && row->last_branch != 0)
      last = last == 0 ? row->last_branch : std::min(last, row->last_branch);
  return last;
}

}  // namespace

std::optional<Recipe> recipe_for(const Compatibility& known, const Wish& wish) {
  std::optional<Recipe> best;
  bool best_is_kept = false;
  for (const Build& build : builds_of(known, wish.framework, wish.platform, wish.aarch64)) {
    if (!is_open_to(wish, build)) continue;
    const bool kept = !wish.keep.empty() && in_range(wish.keep, build.release);
    const bool same_release = best && best->build.release == build.release;
    if (best && !same_release && (best_is_kept || !kept)) continue;
    if (same_release && !is_better(wish, asked_of(build), asked_of(best->build))) continue;
    if (auto recipe = recipe_of(known, wish, build)) {
      best = std::move(recipe);
      best_is_kept = kept;
    }
  }
  return best;
}

Clash clash_of(const Compatibility& known, Framework one, const Build& build, Framework other,
               const Build& others, const std::vector<std::string>& capabilities) {
  if (build.cuda.empty() || others.cuda.empty()) return Clash::kNone;
  if (version_of(build.cuda)[0] != version_of(others.cuda)[0]) return Clash::kCudaMajor;
  if (!share_a_cudnn(cudnn_of(known, one, build, capabilities),
                     cudnn_of(known, other, others, capabilities)))
    return Clash::kCudnn;
  return pins_all(known, one, build) && pins_all(known, other, others) ? Clash::kPins
                                                                       : Clash::kNone;
}

Changes changes_for(const Compatibility& known, const Wish& wish) {
  Changes changes;
  Wish other = wish;
  other.pypi_only = false;
  changes.another_index = wish.pypi_only && recipe_for(known, other).has_value();
  changes.last_branch = last_branch(known, wish);
  changes.driver_too_new = wish.planned && !wish.driver.empty() && changes.last_branch != 0 &&
                           version_of(wish.driver)[0] > changes.last_branch;
  const auto builds = builds_of(known, wish.framework, wish.platform, wish.aarch64);
  const auto pythons = known_pythons(builds);
  const auto ask_pythons = [&](Wish with) {
    std::vector<std::string> found;
    for (const std::string& python : pythons) {
      with.python = python;
      if (recipe_for(known, with)) found.push_back(python);
    }
    return found;
  };
  changes.driver = lowest_driver(known, wish);
  changes.pythons = ask_pythons(wish);
  if (!changes.driver.empty() || !changes.pythons.empty()) return changes;
  Wish free = wish;
  free.driver = free.driver_cuda = "";
  changes.pythons = ask_pythons(free);
  if (changes.pythons.empty()) return changes;
  changes.both = true;
  for (const std::string& python : changes.pythons) {
    free.python = python;
    const std::string lowest = lowest_driver(known, free);
    if (changes.driver.empty() || is_older(lowest, changes.driver)) changes.driver = lowest;
  }
  return changes;
}

}  // namespace berth::doctor
