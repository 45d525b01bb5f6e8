// Three kinds of YAML, by their lines and how far they are indented.
#include <algorithm>

#include "base/file.hpp"
#include "doctor/contains_any.hpp"
#include "doctor/source/shell.hpp"

namespace berth::doctor::source {
namespace {

using Lines = std::vector<Line>;

bool any(std::span<const Line> lines, std::span<const std::string_view> parts) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const Line& line) { return contains_any(line.text, parts); });
}

constexpr std::string_view kGpuImages[] = {"nvidia/cuda:", "pytorch/pytorch:", "nvcr.io/nvidia/"};

const Line* gpu_image(std::span<const Line> lines) {
  const auto found = std::find_if(lines.begin(), lines.end(), [](const Line& line) {
    return contains(line.text, "image:") &&
           (contains_any(line.text, kGpuImages) ||
            (contains(line.text, "tensorflow/tensorflow:") && contains(line.text, "-gpu")));
  });
  return found == lines.end() ? nullptr : &*found;
}

/// "pytorch", whatever quotes it.
std::string_view unquoted(std::string_view word) {
  word = trim(word);
  const bool quoted = word.size() > 1 && (word.front() == '"' || word.front() == '\'') &&
                      word.back() == word.front();
  return quoted ? word.substr(1, word.size() - 2) : word;
}

/// The items of "[a, b]".
std::vector<std::string_view> flow_items(std::string_view list) {
  std::vector<std::string_view> items;
  if (!list.starts_with('[') || !list.ends_with(']')) return items;
  for (const std::string_view item : split(list.substr(1, list.size() - 2), ','))
    items.push_back(unquoted(item));
  return items;
}

/// Wherever the section stands, and in either way of writing a list.
bool has_pytorch_channel(const Lines& lines) {
  std::string_view section;
  for (const Line& line : lines) {
    if (!line.text.starts_with('-')) section = line.text;
    if (!section.starts_with("channels:")) continue;
    if (section == "channels:" && line.text.starts_with("- ") &&
        unquoted(line.text.substr(2)) == "pytorch")
      return true;
    for (const std::string_view item : flow_items(trim(section.substr(9))))
      if (item == "pytorch") return true;
  }
  return false;
}

void conda_mark(Marks& marks, int line, std::string_view item, bool from_channel) {
  const bool named = item.starts_with("pytorch::");
  const std::string_view package = named ? item.substr(9) : item;
  if ((from_channel || named) &&
      (package.starts_with("cudatoolkit") || package.starts_with("pytorch-cuda")))
    marks.push_back({line, "conda_pytorch", std::string(item), 0, {}, {}, wheel_tag_for(package)});
}

void conda_marks(Marks& marks, const Lines& lines) {
  const bool from_channel = has_pytorch_channel(lines);
  std::size_t pip = std::string_view::npos;  // the indent of its list
  for (const Line& line : lines) {
    if (line.indent <= pip) pip = std::string_view::npos;
    const bool listed = line.text.starts_with("- ");
    const std::string_view item = unquoted(listed ? line.text.substr(2) : line.text);
    if (listed && pip != std::string_view::npos) requirement_mark(marks, line.number, item);
    if (item == "pip:") pip = line.indent;
    if (listed) conda_mark(marks, line.number, item, from_channel);
    if (line.text.starts_with("dependencies:"))
      for (const std::string_view one : flow_items(trim(line.text.substr(13))))
        conda_mark(marks, line.number, one, from_channel);
  }
}

/// `CUDA_VISIBLE_DEVICES: "0, 1"`, `- CUDA_VISIBLE_DEVICES=0, 1`.
void setting_marks(Marks& marks, const Lines& lines) {
  CommandMarks commands(marks);
  constexpr std::string_view kName = "CUDA_VISIBLE_DEVICES";
  for (const Line& line : lines) {
    std::string_view text = line.text;
    if (text.starts_with("- ")) text = unquoted(text.substr(2));
    if (!text.starts_with(kName)) continue;
    text.remove_prefix(kName.size());
    if (text.starts_with(':') || text.starts_with('='))
      commands.add_setting(line.number, kName, unquoted(text.substr(1)));
  }
}

void compose_marks(Marks& marks, const Lines& lines) {
  setting_marks(marks, lines);
  constexpr std::string_view given[] = {
      "runtime:", "driver:",     "gpus:", "capabilities:", "devices:", "extends:",
      "<<:",      "nvidia.com/", "*"};
  const auto services = std::find_if(lines.begin(), lines.end(), [](const Line& line) {
    return line.indent == 0 && line.text == "services:";
  });
  for (auto at = services; at != lines.end();) {
    if (++at == lines.end() || at->indent == 0) return;
    const std::size_t indent = at->indent;
    auto end = at + 1;
    while (end != lines.end() && end->indent > indent) ++end;
    const std::span<const Line> service(at, end);
    const Line* image = gpu_image(service);
    if (image != nullptr && !any(service, given))
      marks.push_back({image->number, "service_without_gpu", {}, 0, {}, {}, {}});
    at = end - 1;
  }
}

void kubernetes_marks(Marks& marks, std::span<const Line> document) {
  constexpr std::string_view given[] = {"nvidia.com/", "resourceClaims", "runtimeClassName",
                                        "amd.com/"};
  constexpr std::string_view limit[] = {"nvidia.com/gpu"};
  constexpr std::string_view training[] = {"train.py", "torchrun", "accelerate launch",
                                           "deepspeed"};
  constexpr std::string_view kinds[] = {"kind: Deployment", "kind: Pod", "kind: Job",
                                        "kind: StatefulSet"};
  const auto kind = std::find_if(document.begin(), document.end(), [&](const Line& line) {
    return line.indent == 0 &&
           std::find(std::begin(kinds), std::end(kinds), line.text) != std::end(kinds);
  });
  if (kind == document.end()) return;
  const Line* image = gpu_image(document);
  if (image != nullptr && !any(document, given))
    marks.push_back({image->number, "pod_without_gpu", {}, 0, {}, {}, {}});
  if (kind->text == "kind: Deployment" && any(document, limit) && any(document, training))
    marks.push_back({kind->number, "training_deployment", {}, 0, {}, {}, {}});
}

}  // namespace

Marks yaml_marks(std::string_view text) {
  Marks marks;
  if (contains(text, "{{")) return marks;  // a template says nothing before it is filled in
  const Lines lines = lines_of(text);
  const auto top = [&](std::string_view name) {
    return std::any_of(lines.begin(), lines.end(), [&](const Line& line) {
      return line.indent == 0 && line.text.starts_with(name);
    });
  };
  if (top("dependencies:")) conda_marks(marks, lines);
  if (top("services:")) compose_marks(marks, lines);
  if (!top("kind:")) return marks;
  for (auto at = lines.begin(); at != lines.end();) {
    const auto end =
        std::find_if(at, lines.end(), [](const Line& line) { return line.text == "---"; });
    kubernetes_marks(marks, {at, end});
    at = end == lines.end() ? end : end + 1;
  }
  return marks;
}

}  // namespace berth::doctor::source
