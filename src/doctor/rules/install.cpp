#include "doctor/rules/install.hpp"

#include <algorithm>

#include "doctor/rules/queries.hpp"

namespace berth::doctor {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += " " + pasted(word);
  return out;
}

std::string program_of(const PythonFacts& python) {
  return pasted(python.interpreter.value_or("python3"));
}

}  // namespace

std::string install_command(const PythonFacts& python, const std::vector<std::string>& words,
                            const std::string& shell_words) {
  const std::string interpreter = program_of(python);
  const std::string all = joined(words) + (shell_words.empty() ? "" : " " + shell_words);
  if (python.is_externally_managed)
    return interpreter + " -m venv ~/gpu && ~/gpu/bin/pip install" + all;
  if (python.has_uv) return "uv pip install --python " + interpreter + all;
  return interpreter + " -m pip install" + all;
}

std::string uninstall_command(const PythonFacts& python, const std::vector<std::string>& words) {
  const std::string interpreter = program_of(python);
  if (python.has_uv) return "uv pip uninstall --python " + interpreter + joined(words);
  return interpreter + " -m pip uninstall -y" + joined(words);
}

IndexChoice index_of(const Build& build, const PackageIndex& configured,
                     const std::string& torch_index) {
  if (build.tag.empty()) return {};
  if (!torch_index.empty()) return {torch_index + "/" + build.tag};
  if (const std::string all = configured.all_of_torch(); !all.empty())
    return {all + "/" + build.tag};
  if (configured.is_mirror()) {
    const auto tags = configured.tags();
    const bool on_pypi = build.on_pypi && !configured.has_torch_alone();
    if (on_pypi || std::find(tags.begin(), tags.end(), build.tag) != tags.end()) return {};
    return {"${TORCH_INDEX:?" + std::string(kTorchIndex) + "}/" + build.tag, true};
  }
  // PyPI's wheel of PyTorch contains CUDA. Take a CPU build from PyTorch's index, because it is
  // much smaller.
  if (build.on_pypi && build.tag != "cpu") return {};
  return {std::string(kTorchIndex) + "/" + build.tag};
}

std::string option_of(const IndexChoice& index) {
  if (index.url.empty()) return "";
  return "--index-url " + (index.is_unknown ? "\"" + index.url + "\"" : pasted(index.url));
}

void keep_to(const PackageIndex& configured, Wish& wish) {
  wish.tags = configured.tags();
  wish.tags_only = configured.has_torch_alone();
  wish.pypi_only = configured.is_mirror() &&
                   (wish.framework != Framework::kTorch || configured.all_of_torch().empty());
}

std::string shell_words(const Recipe& recipe, const IndexChoice& index) {
  std::string words;
  for (const std::string& package : recipe.packages)
    words += (words.empty() ? "'" : " '") + package + "'";
  return index.url.empty() ? words : words + " " + option_of(index);
}

}  // namespace berth::doctor
