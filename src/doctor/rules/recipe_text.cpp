#include "doctor/rules/recipe_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::doctor {
namespace {

std::string comments(const std::vector<std::string>& sentences) {
  std::string out;
  for (const std::string& sentence : sentences) out += "# " + printable(sentence) + "\n";
  return out;
}

std::string for_pip(const RecipeOrder& order) {
  return comments(order.reasons) +
         install_command(order.target, {}, shell_words(order.recipe, order.choice)) + "\n";
}

/// A double-quoted scalar: addresses and names here are printable, and YAML interprets \" and \\.
std::string yaml(const std::string& text) {
  std::string out = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string for_conda(const RecipeOrder& order) {
  std::vector<std::string> reasons = order.reasons;
  reasons.push_back(
      text("conda only installs Python; the framework's wheel is the one from the tables"));
  if (!order.channels.channels.empty())
    reasons.push_back(text("channels: those of {} ({})", order.channels.from,
                           fmt::format("{}", fmt::join(order.channels.channels, ", "))));
  reasons.push_back("conda env create -f environment.yml");
  std::string out = comments(reasons);
  out += fmt::format("name: berth-{}\n", word_of(order.framework));
  if (order.channels.channels.empty()) out += "channels:\n  - conda-forge\n  - nodefaults\n";
  out += "dependencies:\n";
  out += order.python.empty() ? "  - python\n" : fmt::format("  - python={}\n", order.python);
  out += "  - pip\n  - pip:\n";
  if (!order.choice.url.empty())
    out += fmt::format("      - {}\n", yaml("--index-url " + order.choice.url));
  for (const std::string& package : order.recipe.packages)
    out += fmt::format("      - {}\n", yaml(package));
  return out;
}

std::string for_docker(const RecipeOrder& order) {
  std::vector<std::string> reasons = order.reasons;
  const bool gpu = !order.recipe.build.cuda.empty();
  if (gpu)
    reasons.push_back(text(
        "the wheels contain CUDA; the host provides the driver and NVIDIA's container toolkit"));
  // A build does not see the host's settings. An address may be included, a password must not.
  const bool mirror = order.choice.url.empty() && order.index.is_mirror();
  const bool by_file = mirror && (!order.index.main || order.index.main->has_secret);
  std::string build = "docker build";
  if (by_file) build += " --secret id=pip,src=PIP.CONF";
  const std::string& tag = order.recipe.build.tag;
  const char* devices = gpu                       ? " --gpus all"
                        : tag.starts_with("rocm") ? " --device /dev/kfd --device /dev/dri"
                        : tag == "xpu"            ? " --device /dev/dri"
                                                  : "";
  reasons.push_back(build + fmt::format(" -t berth-{} . && docker run{} berth-{} python …",
                                        word_of(order.framework), devices,
                                        word_of(order.framework)));
  if (by_file)
    reasons.push_back(text("PIP.CONF: a pip.conf with your index; it does not stay in the image"));
  std::string out = comments(reasons) + "FROM " + order.image + "\n";
  if (gpu) out += "ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility\n";
  if (mirror && !by_file) out += "ARG PIP_INDEX_URL=" + printable(order.index.main->url) + "\n";
  out += "RUN ";
  if (by_file) out += "--mount=type=secret,id=pip,target=/etc/pip.conf ";
  out += "pip install --no-cache-dir " + shell_words(order.recipe, order.choice) + "\n";
  return out;
}

}  // namespace

std::optional<RecipeFormat> recipe_format_of(std::string_view word) {
  if (word == "pip") return RecipeFormat::kPip;
  if (word == "conda") return RecipeFormat::kConda;
  if (word == "dockerfile") return RecipeFormat::kDockerfile;
  return std::nullopt;
}

std::string recipe_text(RecipeFormat format, const RecipeOrder& order) {
  if (format == RecipeFormat::kConda) return for_conda(order);
  return format == RecipeFormat::kPip ? for_pip(order) : for_docker(order);
}

}  // namespace berth::doctor
