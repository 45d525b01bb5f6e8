#include "doctor/facts/package_builds.hpp"
#include "doctor/read/collectors.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>

#include "base/text_parts.hpp"
#include "doctor/knowledge/version.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kLargestFile = std::size_t{64} << 10;

struct OwnWords {
  std::string_view package, file;
};
constexpr auto kFiles = std::to_array<OwnWords>({
    {"tensorflow", "/tensorflow/python/platform/build_info.py"},
    {"tensorflow", "/tensorflow_core/python/platform/build_info.py"},
    {"onnxruntime", "/onnxruntime/capi/build_and_package_info.py"},
    {"xformers", "/xformers/cpp_lib.json"},
    {"paddlepaddle", "/paddle/version/__init__.py"},
});

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// The value after a key, up to the end of the line or the closing bracket: "'11.2'", "True",
/// "['sm_35', 'compute_86']". Works for Python assignments, pairs and JSON. "" if the key is
/// missing.
std::string_view behind(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const std::size_t end = at + key.size();
    if ((at > 0 && is_name_char(text[at - 1])) || (end < text.size() && is_name_char(text[end])))
      continue;
    std::size_t value = end;
    while (value < text.size() &&
           std::string_view("'\" \t\n\r:=,").find(text[value]) != std::string_view::npos &&
           !(value > end && (text[value] == '\'' || text[value] == '"')))
      ++value;
    text = text.substr(value);
    const bool is_list = text.starts_with('[');
    const bool is_quoted = text.starts_with('\'') || text.starts_with('"');
    const std::size_t stop = is_list     ? text.find(']')
                             : is_quoted ? text.find(text.front(), 1)
                                         : text.find_first_of(",)}\n#");
    return text.substr(0, stop);
  }
  return {};
}

/// The value after a key, without quotes. "" for None and False, and if the key is missing.
std::string word_behind(std::string_view text, std::string_view key) {
  std::string_view value = trim(behind(text, key));
  while (!value.empty() && (value.front() == '\'' || value.front() == '"')) value.remove_prefix(1);
  if (value == "None" || value == "False" || value == "null" || value == "True") return "";
  return printable(value.substr(0, 60));
}

Fact<bool> truth_behind(std::string_view text, std::string_view key) {
  const std::string_view value = trim(behind(text, key));
  if (value.starts_with("True") || value.starts_with("true")) return true;
  if (value.starts_with("False") || value.starts_with("false")) return false;
  return {};
}

/// The compute capability in a word that starts with `begin`: "8.6" for "sm_86", "12.0" for
/// "compute_120"; "" for other words.
std::string capability_in(std::string_view word, std::string_view begin) {
  if (!word.starts_with(begin)) return "";
  word.remove_prefix(begin.size());
  const std::size_t end = word.find_first_not_of("0123456789");
  const std::string_view digits = word.substr(0, end);
  if (digits.size() < 2 || digits.size() > 3) return "";
  return std::string(digits.substr(0, digits.size() - 1)) + "." + digits.back();
}

/// Reads a list such as ['sm_60', 'compute_80'], or "3.5,7.0" as TensorFlow wrote it before 2.5.
void read_capabilities(std::string_view list, PackageBuild& build) {
  for (std::string_view word : split(list, ',')) {
    while (!word.empty() &&
           std::string_view("[]'\" \n\t").find(word.front()) != std::string_view::npos)
      word.remove_prefix(1);
    while (!word.empty() &&
           std::string_view("[]'\" \n\t").find(word.back()) != std::string_view::npos)
      word.remove_suffix(1);
    if (const std::string sass = capability_in(word, "sm_"); !sass.empty())
      build.sass.push_back(sass);
    if (const std::string ptx = capability_in(word, "compute_");
        !ptx.empty() && (build.ptx.empty() || is_older(build.ptx, ptx)))
      build.ptx = ptx;
  }
  std::sort(build.sass.begin(), build.sass.end(),
            [](const std::string& a, const std::string& b) { return is_older(a, b); });
}

/// Converts CUDA's version number: "12.1" for 1201.
std::string cuda_of_number(std::string_view digits) {
  const auto number = to_number(digits);
  if (!number || *number < 800 || *number > 9999) return "";
  return fmt::format("{}.{}", *number / 100, *number % 100);
}

}  // namespace

bool is_package_build(std::string_view path) {
  return std::any_of(kFiles.begin(), kFiles.end(),
                     [&](const OwnWords& row) { return path.ends_with(row.file); });
}

PackageBuild parse_package_build(std::string_view package, std::string_view text) {
  PackageBuild build;
  build.package = package;
  if (package == "tensorflow") {
    build.for_cuda = truth_behind(text, "is_cuda_build");
    build.cuda = word_behind(text, "cuda_version");
    if (build.cuda.empty()) build.cuda = word_behind(text, "cuda_version_number");
    build.cudnn = word_behind(text, "cudnn_version");
    if (build.cudnn.empty()) build.cudnn = word_behind(text, "cudnn_version_number");
    read_capabilities(behind(text, "cuda_compute_capabilities"), build);
  } else if (package == "onnxruntime") {
    build.package = word_behind(text, "package_name");
    build.cuda = word_behind(text, "cuda_version");
    build.for_cuda = !build.cuda.empty() || build.package.find("gpu") != std::string::npos;
  } else if (package == "xformers") {
    build.cuda = cuda_of_number(word_behind(text, "cuda"));
    build.torch = word_behind(text, "torch");
  } else if (package == "paddlepaddle") {
    build.cuda = word_behind(text, "cuda_version");
    build.cudnn = word_behind(text, "cudnn_version");
    if (!behind(text, "cuda_version").empty()) build.for_cuda = !build.cuda.empty();
    if (build.for_cuda.value_or(false)) build.package = "paddlepaddle-gpu";
  }
  if (version_of(build.cuda).empty()) build.cuda.clear();
  if (version_of(build.cudnn).empty()) build.cudnn.clear();
  return build;
}

Fact<std::vector<PackageBuild>> collect_package_builds(const Tree& tree,
                                                       const PythonFacts& python) {
  if (python.path.is_unreadable()) return python.path.why();
  if (!python.path) return {};
  auto found = tree.watched([&] {
    std::vector<PackageBuild> builds;
    for (const PathEntry& entry : *python.path)
      for (const OwnWords& row : kFiles) {
        const auto text = tree.read(entry.folder + std::string(row.file), kLargestFile);
        if (!text) continue;
        PackageBuild build = parse_package_build(row.package, *text);
        build.path = entry.folder + std::string(row.file);
        // Skip further copies of a package, because Python imports the first one in sys.path.
        if (std::none_of(builds.begin(), builds.end(),
                         [&](const PackageBuild& other) { return other.package == build.package; }))
          builds.push_back(std::move(build));
      }
    return Fact(std::move(builds));
  });
  found.doubt(python.path);
  return found;
}

}  // namespace berth::doctor
