// Readers for line-based files: batch scripts, Dockerfiles, requirements. Lines that a reader does
// not understand are skipped.
#include <algorithm>
#include <map>
#include <optional>

#include "base/text_parts.hpp"
#include "doctor/knowledge/contains_any.hpp"
#include "doctor/knowledge/device_list.hpp"
#include "doctor/source/shell.hpp"

namespace berth::doctor::source {
namespace {

void add(Marks& marks, int line, const char* what, std::string_view value = {},
         std::string meant = {}) {
  marks.push_back({line, what, std::string(value), 0, {}, {}, std::move(meant)});
}

// ---- batch scripts

constexpr std::string_view kLaunchers[] = {"torchrun",
                                           "torch.distributed",
                                           "accelerate",
                                           "deepspeed",
                                           "mpirun",
                                           "mpiexec",
                                           "horovod",
                                           "nproc",
                                           "vllm",
                                           "tensor_parallel",
                                           "tensor-parallel",
                                           "device_map",
                                           "lightning",
                                           "wait",
                                           "parallel",
                                           "xargs",
                                           "ray "};

struct Batch {
  int line = 0;  // line of the GPU request
  long gpus = 0;
  bool several_tasks = false;
};

long last_number(std::string_view value) {
  return to_number(value.substr(value.rfind(':') + 1)).value_or(0);
}

void directive(Batch& batch, int line, std::string_view option) {
  const std::size_t end = option.find_first_of("= ");
  const std::string_view name = option.substr(0, end);
  const std::string_view value = end == std::string_view::npos ? "" : trim(option.substr(end + 1));
  const bool tasks = name == "-n" || name == "--ntasks" || name == "--ntasks-per-node" ||
                     name == "-N" || name == "--nodes" || name == "--array" || name == "-a";
  if (tasks && value != "1") batch.several_tasks = true;
  if (name.starts_with("--gpus-per-task") || name.starts_with("--ntasks-per-gpu"))
    batch.several_tasks = true;
  const bool gpus = name == "--gpus" || name == "-G" || name == "--gpus-per-node" ||
                    (name == "--gres" && value.starts_with("gpu"));
  if (!gpus) return;
  batch.line = line;
  batch.gpus = last_number(value);
}

/// Whether the script starts several processes: "srun -n 4 …", or several lines with
/// "CUDA_VISIBLE_DEVICES=1 python … &". A script that exports the list once, or uses srun for one
/// task, starts only one.
bool starts_several(std::string_view rest) {
  int chosen = 0;
  for (const Command& command : shell_commands(rest)) {
    const bool is_step =
        std::find(command.words.begin(), command.words.end(), "srun") != command.words.end();
    for (std::size_t i = 0; i < command.words.size(); ++i) {
      const std::string& word = command.words[i];
      const bool first = i == 0 && command.words.size() > 1;
      chosen += first && word.starts_with("CUDA_VISIBLE_DEVICES=") ? 1 : 0;
      if (!is_step || (word != "-n" && !word.starts_with("--ntasks") && word != "-N" &&
                       !word.starts_with("--nodes")))
        continue;
      const std::size_t equals = word.find('=');
      const std::string value = equals != std::string::npos    ? word.substr(equals + 1)
                                : i + 1 < command.words.size() ? command.words[i + 1]
                                                               : "";
      if (value != "1") return true;
    }
  }
  return chosen > 1;
}

void batch_marks(Marks& marks, std::string_view text) {
  Batch batch;
  int number = 0;
  std::string rest;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (line.starts_with("#SBATCH"))
      directive(batch, number, trim(line.substr(7)));
    else if (!trim(line).starts_with('#'))
      rest += std::string(line) + "\n";
  }
  if (batch.gpus > 1 && !batch.several_tasks && contains(rest, "python") &&
      !contains_any(rest, kLaunchers) && !starts_several(rest))
    add(marks, batch.line, "batch_of_one_process", std::to_string(batch.gpus));
}

// ---- Dockerfiles

std::optional<std::pair<int, int>> version_in(std::string_view tag) {
  std::size_t at = 0;
  int parts[2] = {0, 0};
  for (int& part : parts) {
    const std::size_t begin = at;
    for (; at < tag.size() && at - begin < 4 && tag[at] >= '0' && tag[at] <= '9'; ++at)
      part = part * 10 + (tag[at] - '0');
    if (at == begin) return std::nullopt;
    ++at;
  }
  return std::pair(parts[0], parts[1]);
}

void image_mark(Marks& marks, int line, std::string_view image) {
  const std::size_t colon = image.rfind(':');
  if (colon == std::string_view::npos || contains(image, "$")) return;
  const std::string_view tag = image.substr(colon + 1);
  const auto version = version_in(tag);
  const bool cuda = image.substr(0, colon).ends_with("nvidia/cuda");
  const bool torch = image.substr(0, colon).ends_with("pytorch/pytorch");
  if (cuda && version && *version < std::pair(11, 8))
    add(marks, line, "old_cuda_image", tag);
  else if (torch && version && version->first < 2)
    add(marks, line, "old_torch_image", tag);
  else if ((cuda || torch) && (contains(tag, "ubuntu18.04") || contains(tag, "ubuntu20.04") ||
                               contains(tag, "ubuntu16.04") || contains(tag, "centos7")))
    add(marks, line, "old_system_image", tag);
}

/// Checks variables of an image that the container toolkit reads. Every container of the image
/// inherits them.
void image_setting(Marks& marks, int line, const std::string& name, const std::string& value) {
  if (name == "NVIDIA_VISIBLE_DEVICES" && (value == "none" || value == "void"))
    add(marks, line, "image_hides_gpus", value);
  if (name != "NVIDIA_DRIVER_CAPABILITIES" || value.empty() || contains(value, "$")) return;
  const auto all = split(value, ',');
  const auto has = [&](std::string_view one) {
    return std::any_of(all.begin(), all.end(),
                       [&](std::string_view part) { return trim(part) == one; });
  };
  if (!has("compute") && !has("all") && !has("graphics") && !has("video"))
    add(marks, line, "image_without_compute", value);
}

/// Whether the word is a package of the driver, such as "nvidia-driver-535" or "cuda-drivers". The
/// driver belongs on the host, and the container toolkit provides it to containers.
bool is_driver_package(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  for (const std::string_view begin :
       {"nvidia-driver", "nvidia-utils", "nvidia-dkms", "nvidia-kernel", "nvidia-headless",
        "libnvidia-compute", "cuda-drivers"})
    if (name.starts_with(begin)) return true;
  return false;
}

/// Checks a RUN command. During a build there is no GPU unless --device passes one, and installed
/// files stay in the image.
void build_marks(Marks& marks, const Command& command, bool has_device) {
  const std::vector<std::string>& words = command.words;
  std::string_view program = words.front();
  program.remove_prefix(program.rfind('/') + 1);
  if (program == "nvidia-smi" && !has_device) add(marks, command.line, "smi_in_build");
  const auto installs = [&](std::string_view manager) {
    return std::find(words.begin(), words.end(), manager) != words.end() &&
           std::find(words.begin(), words.end(), "install") != words.end();
  };
  const bool by_manager = installs("apt-get") || installs("apt") || installs("dnf") ||
                          installs("yum") || installs("microdnf");
  for (const std::string& word : words)
    if ((by_manager && is_driver_package(word)) ||
        (contains(word, "NVIDIA-Linux-") && word.ends_with(".run") && program != "wget" &&
         program != "curl" && program != "rm" && program != "chmod")) {
      add(marks, command.line, "driver_in_image", word);
      return;
    }
}

void environment_marks(CommandMarks& commands, Marks& marks, const Command& words) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::string rest;  // the rest of a GPU list that contains a space
  if (words.words.size() > 2 && !contains(words.words[1], "=")) {
    pairs.emplace_back(words.words[1], words.words[2]);
    for (std::size_t i = 3; i < words.words.size(); ++i) pairs[0].second += " " + words.words[i];
  } else {
    for (std::size_t i = 1; i < words.words.size(); ++i) {
      const std::size_t equals = words.words[i].find('=');
      if (equals != std::string::npos)
        pairs.emplace_back(words.words[i].substr(0, equals), words.words[i].substr(equals + 1));
      else if (!pairs.empty() && (pairs.back().second + rest).ends_with(','))
        rest += words.words[i];
    }
  }
  for (const auto& [name, value] : pairs) {
    image_setting(marks, words.line, name, value);
    const bool split = name == "CUDA_VISIBLE_DEVICES" && value.ends_with(',') && !rest.empty();
    if (split)
      commands.add_split_list(words.line, value, rest);
    else
      commands.add_setting(words.line, name, value);
    if (name == "CUDA_VISIBLE_DEVICES" && !value.empty() && value[0] >= '0' && value[0] <= '9')
      add(marks, words.line, "visible_in_image", value,
          plain_device_list(split ? value + rest : value));
  }
}

/// The words of the exec form, such as ["nvprof", "python"]; nullopt for the shell form.
std::optional<std::vector<std::string>> exec_form(std::string_view text) {
  text = trim(text);
  if (!text.starts_with('[') || !text.ends_with(']')) return std::nullopt;
  std::vector<std::string> words;
  for (std::size_t at = 1; (at = text.find('"', at)) != std::string_view::npos;) {
    std::string word;
    for (++at; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      word += text[at];
    }
    words.push_back(std::move(word));
    ++at;
  }
  if (words.empty()) return std::nullopt;
  return words;
}

std::vector<Command> commands_of(std::string_view text, int line) {
  auto words = exec_form(text);
  if (!words) return shell_commands(text, line);
  const bool shell = words->size() > 2 && (words->front().ends_with("sh") && (*words)[1] == "-c");
  return shell ? shell_commands((*words)[2], line)
               : std::vector<Command>{{line, *std::move(words)}};
}

/// Reads the instructions of a Dockerfile. A stage that is based on another stage inherits its
/// settings.
class Stages {
 public:
  Stages(CommandMarks& commands, Marks& marks) : commands_(commands), marks_(marks) {}

  /// Handles one instruction with its continuation lines.
  void instruction(int line, std::string_view text) {
    const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
    const std::string name = lower(text.substr(0, end));
    if (name == "run") return run(line, text.substr(end), true);
    if (name == "cmd" || name == "entrypoint") return run(line, text.substr(end), false);
    if (name != "from" && name != "env" && name != "arg") return;
    const auto all = shell_commands(text, line);
    if (all.empty()) return;
    if (name == "env") return environment_marks(commands_, marks_, all.front());
    if (name == "from") return from(line, all.front().words);
    for (const std::string& word : all.front().words)
      if (const std::size_t equals = word.find('='); equals != std::string::npos)
        arguments_.emplace(word.substr(0, equals), word.substr(equals + 1));
  }

  void run(int line, std::string_view text, bool builds) {
    // A command such as "nvidia-smi || true" cannot make the build fail, so it is not reported.
    builds = builds && !contains(text, "||");
    // whether --device gives the command a GPU; BuildKit passes it as a CDI device
    bool has_device = false;
    for (Command& command : commands_of(text, line)) {
      while (!command.words.empty() && command.words[0].starts_with("--")) {
        has_device = has_device || command.words[0].starts_with("--device=");
        command.words.erase(command.words.begin());
      }
      if (command.words.empty()) continue;
      commands_.add(command);
      if (builds) build_marks(marks_, command, has_device);
    }
  }

 private:
  void from(int line, const std::vector<std::string>& words) {
    // Keep the settings under the name of this stage, because stages that are based on it inherit
    // them.
    if (!stage_.empty()) paths_[stage_] = commands_.library_paths();
    commands_.finish();
    std::string image;
    for (std::size_t i = 1; i < words.size() && image.empty(); ++i)
      if (!words[i].starts_with("--")) image = words[i];
    stage_ = words.size() > 3 && lower(words[words.size() - 2]) == "as" ? words.back() : "";
    if (const auto found = paths_.find(image); found != paths_.end())
      commands_.inherit(found->second);
    image_mark(marks_, line, filled(image));
  }

  /// Replaces $NAME and ${NAME} in `image` by the default values of ARG instructions.
  [[nodiscard]] std::string filled(const std::string& image) const {
    std::string out;
    for (std::size_t at = 0; at < image.size(); ++at) {
      const bool braces = image[at] == '$' && image.substr(at + 1, 1) == "{";
      const std::size_t begin = at + (braces ? 2 : 1);
      const std::size_t end = std::min(
          braces ? image.find('}', begin)
                 : image.find_first_not_of(
                       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_", begin),
          image.size());
      const auto known =
          image[at] == '$' ? arguments_.find(image.substr(begin, end - begin)) : arguments_.end();
      if (known == arguments_.end()) {
        out += image[at];
        continue;
      }
      out += known->second;
      at = braces ? end : end - 1;
    }
    return out;
  }

  CommandMarks& commands_;
  Marks& marks_;
  std::string stage_;
  std::map<std::string, std::vector<int>> paths_;  // lines that set LD_LIBRARY_PATH, by stage
  std::map<std::string, std::string> arguments_;   // names and defaults of ARG instructions
};

/// The delimiter of a here-document that starts in the instruction; "" if there is none.
std::string here_word(std::string_view instruction) {
  const std::size_t at = instruction.find("<<");
  const bool can =
      lower(instruction.substr(0, 3)) == "run" || lower(instruction.substr(0, 4)) == "copy";
  // In $((1<<N)), << is a shift operator and starts no here-document.
  if (at == std::string_view::npos || !can || instruction.find("((") < at) return "";
  std::string_view word = instruction.substr(at + 2);
  if (word.starts_with('-')) word.remove_prefix(1);
  word = word.substr(0, word.find_first_of(" \t\r\n;|&>)"));
  if (word.size() > 1 && (word[0] == '\'' || word[0] == '"'))
    word = word.substr(1, word.size() - 2);
  const bool plain = !word.empty() && ((word[0] >= 'A' && word[0] <= 'Z') ||
                                       (word[0] >= 'a' && word[0] <= 'z') || word[0] == '_');
  return plain ? std::string(word) : "";
}

/// Whether a shell runs the text of the here-document: RUN <<EOF or RUN bash <<EOF.
bool is_for_shell(std::string_view instruction) {
  const std::string before = lower(trim(instruction.substr(0, instruction.find("<<"))));
  return before == "run" || before.ends_with(" bash") || before.ends_with(" sh") ||
         before.ends_with("/bash") || before.ends_with("/sh");
}

}  // namespace

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    const std::size_t hash = line.find('#');
    if (hash == 0 || (hash != std::string_view::npos && line[hash - 1] == ' '))
      line = line.substr(0, hash);
    const std::size_t indent = line.find_first_not_of(' ');
    const std::string_view words = trim(line);
    if (!words.empty()) lines.push_back({number, indent, words});
  }
  return lines;
}

Marks shell_marks(std::string_view text) {
  Marks marks;
  CommandMarks commands(marks);
  for (const Command& command : shell_commands(text)) commands.add(command);
  commands.finish();
  batch_marks(marks, text);
  return marks;
}

Marks dockerfile_marks(std::string_view text) {
  Marks marks;
  CommandMarks commands(marks);
  Stages stages(commands, marks);
  std::size_t at = 0;
  int line = 1;
  while (at < text.size()) {
    // Comments and empty lines do not end an instruction that is continued with a backslash.
    std::size_t end = at;
    int lines = 0;
    for (bool more = true; more && end < text.size();) {
      const std::size_t next = std::min(text.find('\n', end), text.size());
      const std::string_view one = trim(text.substr(end, next - end));
      more = one.ends_with('\\') || (lines > 0 && (one.empty() || one.starts_with('#')));
      ++lines;
      end = next + 1;
    }
    std::string_view whole = text.substr(at, std::min(end, text.size()) - at);
    whole.remove_prefix(std::min(whole.find_first_not_of(" \t\r\n"), whole.size()));
    const bool is_instruction = !whole.empty() && whole[0] != '#';
    if (is_instruction) stages.instruction(line, whole);
    line += lines;
    at = end;
    const std::string last = is_instruction ? here_word(whole) : "";
    const std::size_t begin = std::min(at, text.size());
    const int first = line;
    while (!last.empty() && at < text.size()) {
      const std::size_t next = std::min(text.find('\n', at), text.size());
      const bool is_last = trim(text.substr(at, next - at)) == last;
      if (is_last && is_for_shell(whole)) stages.run(first, text.substr(begin, at - begin), true);
      at = next + 1;
      ++line;
      if (is_last) break;
    }
  }
  commands.finish();
  return marks;
}

Marks requirements_marks(std::string_view text) {
  Marks marks;
  int index = 0;
  std::string url;
  bool exact = false;
  Pins pins;
  for (const Line& line : lines_of(text)) {
    pins.add(line.number, line.text);
    requirement_mark(marks, line.number, line.text);
    exact = exact || names_torch_build(line.text);
    if (line.text.starts_with("--extra-index-url") && is_wheel_index(line.text)) {
      index = line.number;
      url = trim(line.text.substr(sizeof "--extra-index-url"));
    }
  }
  pins.finish(marks);
  if (index != 0 && !exact) add(marks, index, "extra_index_listed", url, wheel_tag(url));
  return marks;
}

}  // namespace berth::doctor::source
