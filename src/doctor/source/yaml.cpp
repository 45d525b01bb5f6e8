// Three kinds of YAML, by their lines and how far they are indented.
#include <algorithm>

#include "base/file.hpp"
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

void conda_marks(Marks& marks, const Lines& lines) {
  std::string_view section;
  bool from_channel = false;
  std::size_t pip = std::string_view::npos;  // the indent of its list
  for (const Line& line : lines) {
    if (!line.text.starts_with('-')) section = line.text;
    if (section == "channels:" && line.text == "- pytorch") from_channel = true;
    if (line.indent <= pip) pip = std::string_view::npos;
    const bool listed = line.text.starts_with("- ");
    const std::string_view item = listed ? trim(line.text.substr(2)) : line.text;
    if (listed && pip != std::string_view::npos) requirement_mark(marks, line.number, item);
    if (item == "pip:") pip = line.indent;
    if (from_channel && (item.starts_with("cudatoolkit") || item.starts_with("pytorch-cuda")))
      marks.push_back({line.number, "conda_pytorch", std::string(item), 0, {}, {}});
  }
}

void compose_marks(Marks& marks, const Lines& lines) {
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
      marks.push_back({image->number, "service_without_gpu", {}, 0, {}, {}});
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
    marks.push_back({image->number, "pod_without_gpu", {}, 0, {}, {}});
  if (kind->text == "kind: Deployment" && any(document, limit) && any(document, training))
    marks.push_back({kind->number, "training_deployment", {}, 0, {}, {}});
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
