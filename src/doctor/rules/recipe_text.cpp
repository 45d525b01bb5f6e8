#include "doctor/rules/recipe_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"

namespace berth::doctor {
namespace {

std::string comments(const std::vector<std::string>& sentences) {
  std::string out;
  for (const std::string& sentence : sentences) out += "# " + printable(sentence) + "\n";
  return out;
}

using Orders = std::vector<RecipeOrder>;

std::string for_pip(const RecipeOrder& order) {
  return comments(order.reasons) +
         install_command(order.target, {}, shell_words(order.recipe, order.choice)) + "\n";
}

std::vector<std::string> reasons_of(const Orders& orders) {
  std::vector<std::string> all;
  for (const RecipeOrder& order : orders)
    for (const std::string& reason : order.reasons)
      if (std::find(all.begin(), all.end(), reason) == all.end()) all.push_back(reason);
  return all;
}

/// The frameworks in a name: "torch-jax".
std::string words_of(const Orders& orders) {
  std::string all;
  for (const RecipeOrder& order : orders)
    all += (all.empty() ? "" : "-") + std::string(word_of(order.framework));
  return all;
}

/// A string in double quotes. YAML, JSON and TOML interpret \" and \\ in the same way, and the text
/// is printable.
std::string in_quotes(const std::string& text) {
  std::string out = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string for_conda(const Orders& orders) {
  const RecipeOrder& first = orders.front();
  std::vector<std::string> reasons = reasons_of(orders);
  reasons.push_back(
      text("conda installs only Python; pip installs the framework's wheel that is listed in "
           "Berth's tables"));
  if (!first.channels.channels.empty())
    reasons.push_back(text("conda channels as configured in {} ({})", first.channels.from,
                           fmt::format("{}", fmt::join(first.channels.channels, ", "))));
  reasons.push_back("conda env create -f environment.yml");
  std::string out = comments(reasons);
  out += fmt::format("name: berth-{}\n", words_of(orders));
  if (first.channels.channels.empty()) out += "channels:\n  - conda-forge\n  - nodefaults\n";
  out += "dependencies:\n";
  out += first.python.empty() ? "  - python\n" : fmt::format("  - python={}\n", first.python);
  out += "  - pip\n  - pip:\n";
  // pip uses one list of indices for all packages. PyTorch's own index has no other packages, so it
  // must be an extra index if there are other frameworks.
  const char* option = orders.size() == 1 ? "--index-url " : "--extra-index-url ";
  for (const RecipeOrder& order : orders)
    if (!order.choice.url.empty())
      out += fmt::format("      - {}\n", in_quotes(option + order.choice.url));
  for (const RecipeOrder& order : orders)
    for (const std::string& package : order.recipe.packages)
      out += fmt::format("      - {}\n", in_quotes(package));
  return out;
}

bool has_gpu(const Orders& orders) {
  return std::any_of(orders.begin(), orders.end(),
                     [](const RecipeOrder& one) { return !one.recipe.build.cuda.empty(); });
}

/// The options of `docker run` that give the container its GPUs.
std::string device_options(const Orders& orders) {
  if (has_gpu(orders)) return " --gpus all";
  const std::string& tag = orders.front().recipe.build.tag;
  if (tag.starts_with("rocm")) return " --device /dev/kfd --device /dev/dri";
  return tag == "xpu" ? " --device /dev/dri" : "";
}

/// The arguments for one `pip install` per index: first the packages from PyTorch's own index, then
/// all packages from the other index. The second step keeps what the first one has installed.
std::vector<std::string> pip_words(const Orders& orders) {
  std::vector<std::string> steps;
  std::string rest;
  bool has_rest = false;
  for (const RecipeOrder& order : orders) {
    if (!order.choice.url.empty()) steps.push_back(shell_words(order.recipe, order.choice));
    has_rest = has_rest || order.choice.url.empty();
    rest += (rest.empty() ? "" : " ") + shell_words(order.recipe, {});
  }
  if (has_rest) steps.push_back(rest);
  return steps;
}

std::string for_docker(const Orders& orders) {
  const RecipeOrder& first = orders.front();
  std::vector<std::string> reasons = reasons_of(orders);
  if (has_gpu(orders))
    reasons.push_back(
        text("the wheels contain CUDA; the host must provide the driver and NVIDIA's container "
             "toolkit"));
  // An image is built without the host's settings, so the Dockerfile contains the address of the
  // index. If the address is unknown or has a password, a build secret provides it.
  const bool mirror = first.index.is_mirror() &&
                      std::any_of(orders.begin(), orders.end(),
                                  [](const RecipeOrder& one) { return one.choice.url.empty(); });
  const bool by_file = mirror && (!first.index.main || first.index.main->has_secret);
  std::string build = "docker build";
  if (by_file) build += " --secret id=pip,src=PIP.CONF";
  const std::string name = "berth-" + words_of(orders);
  reasons.push_back(build + fmt::format(" -t {} . && docker run{} {} python …", name,
                                        device_options(orders), name));
  if (by_file)
    reasons.push_back(
        text("PIP.CONF is a pip.conf with your index; the file does not stay in the image"));
  std::string out = comments(reasons) + "FROM " + first.image + "\n";
  if (has_gpu(orders)) out += "ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility\n";
  if (mirror && !by_file) out += "ARG PIP_INDEX_URL=" + printable(first.index.main->url) + "\n";
  for (const std::string& words : pip_words(orders)) {
    out += "RUN ";
    if (by_file) out += "--mount=type=secret,id=pip,target=/etc/pip.conf ";
    out += "pip install --no-cache-dir " + words + "\n";
  }
  return out;
}

/// The text of a devcontainer.json. This format allows comments.
std::string for_devcontainer(const Orders& orders) {
  const RecipeOrder& first = orders.front();
  std::string out;
  for (const std::string& reason : reasons_of(orders)) out += "// " + printable(reason) + "\n";
  out += "// .devcontainer/devcontainer.json\n{\n";
  out += "  \"name\": " + in_quotes("berth-" + words_of(orders)) + ",\n";
  out += "  \"image\": " + in_quotes(first.image) + ",\n";
  if (const std::string options = device_options(orders); !options.empty()) {
    std::string list;
    for (const std::string_view word : split(std::string_view(options).substr(1), ' '))
      list += (list.empty() ? "" : ", ") + in_quotes(std::string(word));
    out += "  \"runArgs\": [" + list + "],\n";
  }
  std::string environment;
  if (has_gpu(orders)) environment = "\"NVIDIA_DRIVER_CAPABILITIES\": \"compute,utility\"";
  if (first.index.is_mirror() && first.index.main && !first.index.main->has_secret)
    environment += (environment.empty() ? "" : ", ") + std::string("\"PIP_INDEX_URL\": ") +
                   in_quotes(first.index.main->url);
  if (!environment.empty()) out += "  \"containerEnv\": {" + environment + "},\n";
  std::string command;
  for (const std::string& words : pip_words(orders))
    command += (command.empty() ? "" : " && ") + std::string("pip install ") + words;
  return out + "  \"postCreateCommand\": " + in_quotes(command) + "\n}\n";
}

/// The range for one Python version: ">=3.12,<3.13" for "3.12".
std::string requires_python(const std::string& python) {
  const Version version = version_of(python);
  if (version.size() < 2) return "";
  return fmt::format(">={}.{},<{}.{}", version[0], version[1], version[0], version[1] + 1);
}

/// Lists the dependencies in the standard table. The standard has no field for package indices, so
/// the indices are in uv's own tables.
std::string for_pyproject(const Orders& orders) {
  const RecipeOrder& first = orders.front();
  std::vector<std::string> reasons = reasons_of(orders);
  std::string indices, sources;
  for (const RecipeOrder& order : orders) {
    if (order.choice.url.empty()) continue;
    const std::string name = "berth-" + std::string(word_of(order.framework));
    indices += "\n[[tool.uv.index]]\nname = " + in_quotes(name) +
               "\nurl = " + in_quotes(order.choice.url) + "\nexplicit = true\n";
    sources += std::string(word_of(order.framework)) + " = {index = " + in_quotes(name) + "}\n";
    reasons.push_back(text("pip does not read [tool.uv]; with pip, run: {}",
                           "pip install --extra-index-url " + order.choice.url + " ."));
  }
  if (first.index.is_mirror() && first.index.main && !first.index.main->has_secret)
    indices +=
        "\n[[tool.uv.index]]\nurl = " + in_quotes(first.index.main->url) + "\ndefault = true\n";
  std::string out = comments(reasons) +
                    "[project]\nname = " + in_quotes("berth-" + words_of(orders)) +
                    "\nversion = \"0.1.0\"\n";
  if (const std::string range = requires_python(first.python); !range.empty())
    out += "requires-python = " + in_quotes(range) + "\n";
  out += "dependencies = [\n";
  for (const RecipeOrder& order : orders)
    for (const std::string& package : order.recipe.packages)
      out += "  " + in_quotes(package) + ",\n";
  out += "]\n";
  if (!sources.empty()) out += "\n[tool.uv.sources]\n" + sources;
  return out + indices;
}

}  // namespace

std::optional<RecipeFormat> recipe_format_of(std::string_view word) {
  if (word == "pip") return RecipeFormat::kPip;
  if (word == "conda") return RecipeFormat::kConda;
  if (word == "dockerfile") return RecipeFormat::kDockerfile;
  return std::nullopt;
}

std::optional<RecipeFormat> setup_format_of(std::string_view word) {
  if (word == "dockerfile") return RecipeFormat::kDockerfile;
  if (word == "devcontainer") return RecipeFormat::kDevcontainer;
  if (word == "environment.yml") return RecipeFormat::kConda;
  if (word == "pyproject") return RecipeFormat::kPyproject;
  return std::nullopt;
}

std::string recipe_text(RecipeFormat format, const std::vector<RecipeOrder>& orders) {
  switch (format) {
    case RecipeFormat::kPip:
      break;
    case RecipeFormat::kConda:
      return for_conda(orders);
    case RecipeFormat::kDockerfile:
      return for_docker(orders);
    case RecipeFormat::kDevcontainer:
      return for_devcontainer(orders);
    case RecipeFormat::kPyproject:
      return for_pyproject(orders);
  }
  std::string out;
  for (const RecipeOrder& order : orders) out += for_pip(order);
  return out;
}

std::string recipe_text(RecipeFormat format, const RecipeOrder& order) {
  return recipe_text(format, std::vector{order});
}

}  // namespace berth::doctor
