// Reads YAML files of three kinds (conda, Docker Compose, Kubernetes) by lines and indentation.
#include <algorithm>

#include "base/text_parts.hpp"
#include "doctor/knowledge/contains_any.hpp"
#include "doctor/source/shell.hpp"

namespace berth::doctor::source {
namespace {

using Lines = std::vector<Line>;

bool any(std::span<const Line> lines, std::span<const std::string_view> parts) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const Line& line) { return contains_any(line.text, parts); });
}

constexpr std::string_view kGpuImages[] = {
    "nvidia/cuda:",     "pytorch/pytorch:", "nvcr.io/nvidia/",
    "vllm/vllm-openai", "lmsysorg/sglang",  "huggingface/text-generation-inference"};

const Line* gpu_image(std::span<const Line> lines) {
  const auto found = std::find_if(lines.begin(), lines.end(), [](const Line& line) {
    return contains(line.text, "image:") &&
           (contains_any(line.text, kGpuImages) ||
            (contains(line.text, "tensorflow/tensorflow:") && contains(line.text, "-gpu")));
  });
  return found == lines.end() ? nullptr : &*found;
}

/// The line in which a service selects GPUs with NVIDIA_VISIBLE_DEVICES; nullptr if there is none.
const Line* gpu_setting(std::span<const Line> lines) {
  const auto found = std::find_if(lines.begin(), lines.end(), [](const Line& line) {
    const std::size_t at = line.text.find("NVIDIA_VISIBLE_DEVICES");
    if (at == std::string_view::npos) return false;
    std::string_view value = line.text.substr(at + 22);
    value.remove_prefix(std::min(value.find_first_not_of(" :=\"'"), value.size()));
    return !value.empty() && !value.starts_with("none") && !value.starts_with("void");
  });
  return found == lines.end() ? nullptr : &*found;
}

/// The word without single or double quotes.
std::string_view unquoted(std::string_view word) {
  word = trim(word);
  const bool quoted = word.size() > 1 && (word.front() == '"' || word.front() == '\'') &&
                      word.back() == word.front();
  return quoted ? word.substr(1, word.size() - 2) : word;
}

/// The items of a list in brackets: "[a, b]".
std::vector<std::string_view> flow_items(std::string_view list) {
  std::vector<std::string_view> items;
  if (!list.starts_with('[') || !list.ends_with(']')) return items;
  for (const std::string_view item : split(list.substr(1, list.size() - 2), ','))
    items.push_back(unquoted(item));
  return items;
}

/// Whether the file has the channel pytorch, at any position and in either syntax of a list.
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
    marks.push_back({line, "conda_pytorch_listed", std::string(item), 0, {}, {}, {}});
}

/// Checks settings of variables: `NAME: "value"`, `- NAME=value`, `environment: {NAME: "value"}`.
void setting_marks(Marks& marks, const Lines& lines) {
  CommandMarks commands(marks);
  const auto add = [&](int number, std::string_view text) {
    const std::size_t end = text.find_first_of(":=");
    if (end == std::string_view::npos) return;
    commands.add_setting(number, unquoted(text.substr(0, end)), unquoted(text.substr(end + 1)));
  };
  for (const Line& line : lines) {
    std::string_view text = line.text;
    if (text.starts_with("- ")) text = unquoted(text.substr(2));
    const std::size_t flow = text.find('{');
    const bool is_map = (text.starts_with("environment:") || text.starts_with("variables:")) &&
                        flow != std::string_view::npos && text.ends_with('}');
    if (!is_map) {
      add(line.number, text);
      continue;
    }
    text = text.substr(flow + 1, text.size() - flow - 2);
    std::size_t begin = 0;
    char quote = '\0';
    for (std::size_t at = 0; at <= text.size(); ++at) {
      const char c = at < text.size() ? text[at] : ',';
      if (quote != '\0') {
        quote = c == quote ? '\0' : quote;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == ',') {
        add(line.number, trim(text.substr(begin, at - begin)));
        begin = at + 1;
      }
    }
  }
}

void conda_marks(Marks& marks, const Lines& lines) {
  const bool from_channel = has_pytorch_channel(lines);
  setting_marks(marks, lines);
  std::size_t pip = std::string_view::npos;  // indentation of the list of pip's packages
  Mark index{0, "extra_index_listed", {}, 0, {}, {}, {}};
  bool exact = false;
  Pins pins;
  for (const Line& line : lines) {
    if (line.indent <= pip) pip = std::string_view::npos;
    const bool listed = line.text.starts_with("- ");
    const std::string_view item = unquoted(listed ? line.text.substr(2) : line.text);
    if (listed && pip != std::string_view::npos) {
      pins.add(line.number, item);
      requirement_mark(marks, line.number, item);
      exact = exact || names_torch_build(item);
      constexpr std::string_view kOption = "--extra-index-url";
      if (item.starts_with(kOption) && is_wheel_index(item)) {
        index.line = line.number;
        index.value = trim(item.substr(kOption.size() + 1));
        index.meant = wheel_tag(index.value);
      }
    }
    if (item == "pip:") pip = line.indent;
    if (listed) conda_mark(marks, line.number, item, from_channel);
    if (line.text.starts_with("dependencies:"))
      for (const std::string_view one : flow_items(trim(line.text.substr(13))))
        conda_mark(marks, line.number, one, from_channel);
  }
  pins.finish(marks);
  if (index.line != 0 && !exact) marks.push_back(std::move(index));
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
    else if (const Line* setting = gpu_setting(service);
             image == nullptr && setting != nullptr && !any(service, given))
      marks.push_back({setting->number, "setting_without_gpu", {}, 0, {}, {}, {}});
    at = end - 1;
  }
}

/// The line of the first GPU resource in each section of a manifest; 0: none.
struct GpuLines {
  int limit = 0;
  int request = 0;
  int node = 0;  // line of a node selector, affinity or toleration, which provides no GPU
};

/// The name of the section that contains a line: "limits" for a line below `limits:`, and for
/// `limits: {nvidia.com/gpu: 1}`; "key" in a toleration or an affinity.
std::string_view section_of(std::span<const Line> document, std::size_t at) {
  const std::size_t indent = document[at].indent;
  const std::string_view text = document[at].text;
  for (const std::string_view name : {"limits:", "requests:", "nodeSelector:", "key:"})
    if (contains(text, name)) return name.substr(0, name.size() - 1);
  while (at-- > 0) {
    if (document[at].indent >= indent) continue;
    std::string_view parent = document[at].text;
    if (parent.starts_with("- ")) parent = trim(parent.substr(2));
    return unquoted(parent.substr(0, parent.find(':')));
  }
  return {};
}

GpuLines gpu_lines(std::span<const Line> document) {
  GpuLines found;
  constexpr std::string_view names[] = {"nvidia.com/", "amd.com/gpu", "gpu.intel.com/"};
  for (std::size_t i = 0; i < document.size(); ++i) {
    if (!contains_any(document[i].text, names)) continue;
    const std::string_view section = section_of(document, i);
    int unused = 1;  // for lines in other sections, such as annotations, which have no effect
    int& line = section == "limits"                             ? found.limit
                : section == "requests"                         ? found.request
                : section == "nodeSelector" || section == "key" ? found.node
                                                                : unused;
    if (line == 0) line = document[i].number;
  }
  return found;
}

/// The line with a command or variable that only makes sense with a GPU; nullptr if there is none.
const Line* gpu_program(std::span<const Line> document) {
  constexpr std::string_view words[] = {"vllm serve",
                                        "vllm.entrypoints",
                                        "--gpu-memory-utilization",
                                        "--tensor-parallel-size",
                                        "--tensor_parallel_size",
                                        "--n-gpu-layers",
                                        "nvidia-smi"};
  constexpr std::string_view none[] = {"", "none", "void", "-1"};
  for (std::size_t i = 0; i < document.size(); ++i) {
    const std::string_view text = document[i].text;
    if (contains_any(text, words)) return &document[i];
    const bool is_variable = text.ends_with("name: NVIDIA_VISIBLE_DEVICES") ||
                             text.ends_with("name: CUDA_VISIBLE_DEVICES");
    if (!is_variable || i + 1 == document.size() || !document[i + 1].text.starts_with("value:"))
      continue;
    const std::string_view value = unquoted(document[i + 1].text.substr(6));
    if (std::find(std::begin(none), std::end(none), value) == std::end(none)) return &document[i];
  }
  return nullptr;
}

void kubernetes_marks(Marks& marks, std::span<const Line> document) {
  // Signs that the manifest gets a GPU in another way, or refers to settings elsewhere ("*gpu").
  constexpr std::string_view given[] = {"resourceClaims", "runtimeClassName", ": *", "<<:"};
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
  const GpuLines gpus = gpu_lines(document);
  const auto add = [&](int line, const char* what) {
    marks.push_back({line, what, {}, 0, {}, {}, {}});
  };
  if (gpus.limit == 0 && !any(document, given)) {
    if (gpus.request != 0)
      add(gpus.request, "request_without_limit");
    else if (image != nullptr)
      add(image->number, "pod_without_gpu");
    else if (gpus.node != 0)
      add(gpus.node, "node_without_gpu");
    else if (const Line* program = gpu_program(document); program != nullptr)
      add(program->number, "program_without_gpu");
  }
  if (kind->text == "kind: Deployment" && gpus.limit != 0 && any(document, training))
    marks.push_back({kind->number, "training_deployment", {}, 0, {}, {}, {}});
}

}  // namespace

Marks yaml_marks(std::string_view text) {
  Marks marks;
  if (contains(text, "{{")) return marks;  // the file is a template, whose values are unknown
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
