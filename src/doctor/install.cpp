#include "doctor/install.hpp"

#include <algorithm>

namespace berth::doctor {
namespace {

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+~:=%,";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string install_command(const PythonFacts& python, const std::string& packages) {
  const std::string interpreter = quoted(python.interpreter.value_or("python3"));
  if (python.is_externally_managed)
    return interpreter + " -m venv ~/gpu && ~/gpu/bin/pip install " + packages;
  if (python.has_uv) return "uv pip install --python " + interpreter + " " + packages;
  return interpreter + " -m pip install " + packages;
}

IndexChoice index_of(const Build& build, const PackageIndex& configured,
                     const std::string& torch_index) {
  if (build.tag.empty()) return {};
  if (!torch_index.empty()) return {torch_index + "/" + build.tag};
  if (configured.is_mirror()) {
    const auto tags = configured.tags();
    if (build.on_pypi || std::find(tags.begin(), tags.end(), build.tag) != tags.end()) return {};
    return {"${TORCH_INDEX:?" + std::string(kTorchIndex) + "}/" + build.tag, true};
  }
  // PyPI's build for the CPU is that for CUDA, which is larger.
  if (build.on_pypi && build.tag != "cpu") return {};
  return {std::string(kTorchIndex) + "/" + build.tag};
}

void keep_to(const PackageIndex& configured, Wish& wish) {
  wish.pypi_only = configured.is_mirror();
  wish.tags = configured.tags();
}

std::string shell_words(const Recipe& recipe, const IndexChoice& index) {
  std::string words;
  for (const std::string& package : recipe.packages)
    words += (words.empty() ? "'" : " '") + package + "'";
  if (index.url.empty()) return words;
  return words + " --index-url " + (index.is_unknown ? "\"" + index.url + "\"" : quoted(index.url));
}

}  // namespace berth::doctor
