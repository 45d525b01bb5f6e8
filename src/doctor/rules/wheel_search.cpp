#include "doctor/rules/wheel_search.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/queries.hpp"

namespace berth::doctor {
namespace {

bool is_of(const Distribution& one, std::string_view package) {
  return one.name == package || (package == "cupy" && one.name.starts_with("cupy-cuda"));
}

}  // namespace

SearchesWheels searches_wheels(Examination& look, std::string_view package,
                               std::string_view library) {
  // An installed PyTorch loads all CUDA libraries except NVRTC, which it loads only to compile
  // something.
  if (!library.starts_with("libnvrtc") && !torch_cuda(look).empty())
    return {WheelSearch::kAlways, "", ""};
  SearchesWheels best;
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr) return best;
  for (const WheelSearcher& row : look.knowledge.compatibility().wheel_searchers) {
    if (row.package != package) continue;
    for (const Distribution& one : *all)
      if (is_of(one, package) && in_range(one.version, row.versions))
        best = {row.call.empty() ? WheelSearch::kAlways : WheelSearch::kWhenCalled, row.call,
                row.source};
  }
  return best;
}

bool reaches(Examination& look, std::string_view package, const CudaLibrary& one) {
  return one.from != CudaLibrary::From::kWheel ||
         searches_wheels(look, package, one.name).how == WheelSearch::kAlways;
}

std::vector<CudaLibrary> libraries_named(Examination& look, std::string_view begin) {
  std::vector<CudaLibrary> found;
  if (const auto* all = look.see(look.facts.python.libraries))
    for (const CudaLibrary& one : *all)
      if (one.name.starts_with(begin)) found.push_back(one);
  return found;
}

model::Fix unset_library_path() {
  return {"unset LD_LIBRARY_PATH", text("wheels find their own libraries; a program that was "
                                        "compiled here may need LD_LIBRARY_PATH")};
}

model::Fix name_in_library_path(const std::vector<std::string>& folders) {
  const std::set<std::string> once(folders.begin(), folders.end());
  return {"export LD_LIBRARY_PATH=" + pasted(fmt::format("{}", fmt::join(once, ":"))) +
              "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
          text("run this before the program starts; other programs of this shell then use these "
               "libraries too")};
}

}  // namespace berth::doctor
