// Finds the OpenMP runtimes of a Python environment: in the wheels' library folders, and in the
// environment's lib folder.
#include <algorithm>
#include <array>

#include "doctor/read/python_packages.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kMostCopies = 50;

/// Matches names such as "libgomp-a34b3233.so.1", "libiomp5.so", "libomp-012c7c0c.so".
bool is_runtime(std::string_view name, std::string_view begin) {
  return name.starts_with(begin) && name.size() > begin.size() &&
         (name[begin.size()] == '.' || name[begin.size()] == '-') &&
         name.find(".so") != std::string_view::npos;
}

void add_from(const Tree& tree, const std::string& folder, std::vector<OpenMp>& into) {
  for (const std::string& name : tree.list(folder).value_or({})) {
    const bool gnu = is_runtime(name, "libgomp");
    if (!gnu && !is_runtime(name, "libiomp5") && !is_runtime(name, "libomp")) continue;
    const std::string real = tree.resolve(folder + "/" + name).value_or(folder + "/" + name);
    const bool known =
        std::any_of(into.begin(), into.end(), [&](const OpenMp& one) { return one.path == real; });
    if (!known && into.size() < kMostCopies) into.push_back({real, gnu});
  }
}

std::vector<OpenMp> find_openmp(const Tree& tree, const PythonFacts& facts) {
  std::vector<OpenMp> found;
  for (const PathEntry& entry : *facts.path) {
    add_from(tree, entry.folder + "/torch/lib", found);
    add_from(tree, entry.folder + "/paddle/libs", found);
    for (const std::string& name : tree.list(entry.folder).value_or({}))
      if (name.ends_with(".libs")) add_from(tree, entry.folder + "/" + name, found);
  }
  // Copies in the system's folders do not count, because all programs use them.
  if (facts.is_conda || facts.is_venv) add_from(tree, facts.prefix + "/lib", found);
  return found;
}

}  // namespace

void read_openmp(const Tree& tree, PythonFacts& facts) {
  facts.openmp = tree.watched([&] { return Fact(find_openmp(tree, facts)); });
  if (!facts.path.is_whole()) facts.openmp.doubt(facts.path.why());
  // If it is unknown whether this is a conda environment, it is also unknown whether the libraries
  // in its lib folder count.
  facts.openmp.doubt(facts.conda);
}

}  // namespace berth::doctor
