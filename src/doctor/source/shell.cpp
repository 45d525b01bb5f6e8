#include "doctor/source/shell.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/shell_word.hpp"
#include "base/text_parts.hpp"
#include "doctor/knowledge/device_list.hpp"

namespace berth::doctor::source {
namespace {

/// Splits a text into commands and words, character by character.
class Reader {
 public:
  Reader(std::string_view text, int line) : text_(text), line_(line) {}

  std::vector<Command> all() {
    while (at_ < text_.size()) step();
    end_command();
    return std::move(commands_);
  }

 private:
  void step() {
    const char c = text_[at_++];
    if (c == '\\' && at_ < text_.size()) {
      escaped();
    } else if (c == '\'' || c == '"') {
      quoted(c);
    } else if (c == '#' && !in_word_) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '<' && text_.substr(at_, 1) == "<" && text_.substr(at_ + 1, 1) != "<") {
      here_document();
    } else if (c == '\n') {
      end_command();
      ++line_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
    } else if (c == ';' || c == '&' || c == '|' || c == '(' || c == ')' || c == '`') {
      end_command();
    } else {
      add(c);
    }
  }
  void escaped() {
    const char c = text_[at_++];
    if (c == '\r' && text_.substr(at_, 1) == "\n") ++at_;
    if (c != '\n' && c != '\r') return add(c);
    end_word();
    ++line_;
  }
  void quoted(char quote) {
    begin_word();
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\' && quote == '"' && at_ + 1 < text_.size()) ++at_;
      if (text_[at_] == '\n') ++line_;
      add(text_[at_++]);
    }
    ++at_;
  }
  /// Skips the text of a here-document, up to its delimiter, and the rest of the line with "<<".
  void here_document() {
    ++at_;
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string_view word = text_.substr(at_, end - at_);
    if (word.starts_with('-')) word.remove_prefix(1);
    word = trim(word);
    if (!word.empty() && (word[0] == '\'' || word[0] == '"'))
      word = word.substr(1, word.find(word[0], 1) - 1);
    else
      word = word.substr(0, word.find_first_of(" \t;|&>)"));
    end_command();
    if (word.empty()) return;
    at_ = end;
    while (at_ < text_.size()) {
      ++at_;
      ++line_;
      const std::size_t next = std::min(text_.find('\n', at_), text_.size());
      const bool last = trim(text_.substr(at_, next - at_)) == word;
      at_ = next;
      if (last) return;
    }
  }
  void begin_word() {
    if (!in_word_) {
      if (words_.empty()) begin_ = line_;
      words_.emplace_back();
    }
    in_word_ = true;
  }
  void add(char c) {
    begin_word();
    words_.back() += c;
  }
  void end_word() { in_word_ = false; }
  void end_command() {
    end_word();
    if (!words_.empty()) commands_.push_back({begin_, std::move(words_)});
    words_.clear();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_;
  int begin_ = 0;
  bool in_word_ = false;
  std::vector<std::string> words_;
  std::vector<Command> commands_;
};

constexpr std::string_view kBefore[] = {"sudo",  "env", "time", "nohup", "exec",
                                        "then",  "do",  "else", "if",    "!",
                                        "while", "{",   "-E",   "srun",  "command"};
constexpr std::string_view kWheels[] = {"torch", "tensorflow", "jax", "cupy", "onnxruntime-gpu"};

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The name in an assignment: "NAME" for "NAME=value"; "" if this is not an assignment.
std::string_view assigned(std::string_view word) {
  const std::size_t end = word.find('=');
  if (end == std::string_view::npos || end == 0) return "";
  for (const char c : word.substr(0, end))
    if (c != '_' && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
      return "";
  return word.substr(0, end);
}

std::string_view value_of(const std::vector<std::string>& words, std::string_view option) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == option && i + 1 < words.size()) return words[i + 1];
    if (word.starts_with(option) && word.substr(option.size()).starts_with('='))
      return word.substr(option.size() + 1);
  }
  return "";
}

bool any_word(const std::vector<std::string>& words, auto&& test) {
  return std::any_of(words.begin(), words.end(), test);
}

/// For an invalid list such as "0;1", "[0,1]" or "cuda:0": the name of the mark, and the list that
/// was probably meant.
std::pair<std::string, std::string> odd_list(std::string_view value) {
  std::string_view bare = trim(value);
  if (bare == "None") return {"visible_names_nothing", "-1"};
  const bool bracketed = bare.size() > 1 && (bare.front() == '[' || bare.front() == '(');
  if (bracketed) bare = bare.substr(1, bare.size() - 2);
  std::string meant;
  bool several = false, named = false;
  for (std::string_view token : listed_devices(bare)) {
    token = trim(token);
    named = named || lower(token).starts_with("cuda") || lower(token).starts_with("gpu:");
    if (named) token.remove_prefix(std::min(token.find_first_of("0123456789"), token.size()));
    const std::string more = names_device(token) ? "" : several_in_one(token);
    several = several || (!more.empty() && listed_number(token));
    meant += (meant.empty() ? "" : ",") + (more.empty() ? std::string(token) : more);
  }
  if (bracketed || named) return {"visible_names_nothing", plain_device_list(meant)};
  return several ? std::pair{std::string("visible_in_one"), plain_device_list(meant)}
                 : std::pair{std::string(), std::string()};
}

/// The first token that has a space before it; "" if there is none. CUDA ignores this token and all
/// tokens after it.
std::string dropped_from(std::string_view value) {
  for (const std::string_view token : listed_devices(value)) {
    const bool blank = trim(token).empty();
    if (!blank && (token.front() == ' ' || token.front() == '\t')) return std::string(token);
  }
  return "";
}

}  // namespace

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::vector<Command> shell_commands(std::string_view text, int first_line) {
  return Reader(text, first_line).all();
}

bool is_wheel_index(std::string_view url) {
  return contains(url, "download.pytorch.org/whl/cu") ||
         contains(url, "download.pytorch.org/whl/rocm");
}

bool names_torch_build(std::string_view requirement) {
  if (contains(requirement, "+cu") || contains(requirement, "+rocm")) return true;
  requirement = trim(requirement.substr(0, requirement.find_first_of(";#")));
  const std::string_view name = trim(requirement.substr(0, requirement.find_first_of("=<>~![ ")));
  return name == "torch" && contains(requirement, "==") && !contains(requirement, "*");
}

std::string wheel_tag(std::string_view url) {
  const std::string_view tag = url.substr(url.find("/whl/") + 5);
  return std::string(tag.substr(0, tag.find_first_of("/?# ")));
}

std::string wheel_tag_for(std::string_view package) {
  const std::size_t digit = package.find_first_of("0123456789");
  const bool is_old = digit != std::string_view::npos && package.substr(digit).starts_with("11");
  return is_old ? "cu118" : "cu126";
}

namespace {

/// Whether a requirement is only for Python versions that are no longer supported: 'python_version
/// < "3.8"'.
bool is_for_old_pythons(std::string_view requirement) {
  constexpr std::string_view kName = "python_version";
  const std::size_t marker = requirement.find(';');
  const std::size_t name = requirement.find(kName, std::min(marker, requirement.size()));
  if (name == std::string_view::npos) return false;
  const std::string_view rest = trim(requirement.substr(name + kName.size()));
  if (!rest.starts_with('<') && !rest.starts_with("==")) return false;
  const std::size_t three = rest.find("3.");
  const auto minor = three == std::string_view::npos ? std::optional<std::size_t>(0)  // Python 2
                                                     : listed_number(rest.substr(three + 2));
  constexpr std::size_t kOldest = 9;  // Python 3.9 is the oldest supported version
  const bool is_below = rest.starts_with('<') && !rest.starts_with("<=");
  return minor && (is_below ? *minor <= kOldest : *minor < kOldest);
}

bool is_about_devices(std::string_view name) {
  for (const std::string_view begin : {"CUDA_", "NVIDIA_", "HIP_", "ROCR_", "NCCL_", "TF_", "XLA_",
                                       "JAX_", "PYTORCH_", "LD_LIBRARY_PATH"})
    if (name.starts_with(begin)) return true;
  return false;
}

}  // namespace

std::string lone_export(std::span<const Command> commands) {
  constexpr std::string_view kIdle[] = {"export", "echo", "set", "unset", "printenv", "env"};
  std::string found;
  for (const Command& command : commands) {
    const std::vector<std::string>& words = command.words;
    if (!is_one_of(words[0], kIdle) || (words[0] == "env" && words.size() > 1)) return "";
    if (words[0] == "export" && words.size() > 1 && found.empty() && is_about_devices(words[1]))
      found = words[1];
  }
  return found;
}

std::string setting_meant(const std::string& setting) {
  const std::string name = setting.substr(0, setting.find('='));
  if (setting.size() <= name.size()) return name + "=…";
  const std::string value = setting.substr(name.size() + 1);
  const bool list = name == "CUDA_VISIBLE_DEVICES" && !hides_every_device(value);
  const std::string plain = list ? plain_device_list(value) : value;
  return name + "=" + (contains(value, "$") || (list && plain.empty()) ? "…" : plain);
}

void requirement_mark(Marks& marks, int line, std::string_view requirement, bool is_command) {
  const std::string name = lower(requirement.substr(0, requirement.find_first_of("=<>~![; @")));
  if (name != "tensorflow-gpu" && name != "tensorflow_gpu") return;
  if (is_for_old_pythons(requirement)) return;
  const bool old = requirement.find("==") < requirement.find(';');
  const char* what = old          ? "tensorflow_gpu_pinned"
                     : is_command ? "tensorflow_gpu"
                                  : "tensorflow_gpu_listed";
  marks.push_back({line, what, std::string(trim(requirement)), 0, {}, {}, {}});
}

void CommandMarks::mark(int line, const char* what, std::string value, std::string meant) {
  marks_.push_back({line, what, std::move(value), 0, {}, {}, std::move(meant)});
}

void CommandMarks::add_setting(int line, std::string_view name, std::string_view value) {
  if (name == "CUDA_LAUNCH_BLOCKING" && value == "1") mark(line, "launch_blocking");
  if ((name == "NCCL_BLOCKING_WAIT" || name == "NCCL_ASYNC_ERROR_HANDLING") && !value.empty())
    mark(line, "nccl_renamed", std::string(name));
  if (name == "NCCL_P2P_DISABLE" && value == "1") mark(line, "nccl_p2p_off");
  if (name == "NCCL_DEBUG" && (value == "INFO" || value == "TRACE")) mark(line, "nccl_debug");
  if (name == "TF_CPP_MIN_LOG_LEVEL" && value == "3") mark(line, "tf_hides_errors");
  if (name == "LD_LIBRARY_PATH" && contains(value, "/cuda")) library_paths_.push_back(line);
  if (std::string meant = misspelt_variable(name); !meant.empty())
    mark(line, "misspelt_variable", std::string(name), std::move(meant));
  if (name == "PYTORCH_CUDA_ALLOC_CONF" || name == "PYTORCH_ALLOC_CONF" ||
      name == "PYTORCH_HIP_ALLOC_CONF")
    if (auto [key, meant] = misspelt_allocator_key(value); !key.empty())
      mark(line, "misspelt_key", std::move(key), std::move(meant));
  if (name != "CUDA_VISIBLE_DEVICES" || contains(value, "$")) return;
  if (const auto odd = odd_list(value); !odd.first.empty())
    mark(line, odd.first.c_str(), std::string(value), odd.second);
  else if (const std::string from = dropped_from(value); !from.empty())
    mark(line, "visible_with_blank", from, plain_device_list(value));
  else if (trim(value).ends_with(','))
    mark(line, "visible_ends_in_comma", {}, plain_device_list(value));
}

void CommandMarks::add_split_list(int line, std::string_view value, std::string_view rest) {
  mark(line, "visible_split", std::string(value),
       plain_device_list(std::string(value) + std::string(rest)));
}

namespace {

/// Packages that the PyTorch project publishes in its own index.
constexpr std::string_view kOfTorch[] = {"torch", "torchvision", "torchaudio", "torchcodec"};

/// Splits a command that uses a second index into two commands: "pip install torch --index-url URL
/// && pip install numpy". "" if all packages are PyTorch's, or if the packages cannot be separated.
std::string split_by_index(const std::vector<std::string>& words, std::size_t from) {
  constexpr std::string_view kOption = "--extra-index-url";
  constexpr std::string_view kOfBoth[] = {"-U",       "--upgrade",     "-q", "--quiet", "--user",
                                          "--system", "--no-cache-dir"};
  std::string before, torch, others, url;
  const auto add = [](std::string& to, const std::string& word) {
    to += (to.empty() ? "" : " ") + shell_word(word);
  };
  bool is_more = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.find_first_of("$`") != std::string::npos) return "";
    const std::string_view name = std::string_view(word).substr(0, word.find_first_of("=<>~![ @"));
    if (i < from || is_one_of(word, kOfBoth)) {
      add(before, word);
    } else if (word == kOption && i + 1 < words.size()) {
      url = words[++i];
    } else if (word.starts_with(kOption)) {
      url = word.substr(std::min(kOption.size() + 1, word.size()));
    } else if (is_one_of(name, kOfTorch)) {
      add(torch, word);
    } else if (word == "-r" && i + 1 < words.size()) {
      add(others, word);
      is_more = true;
    } else if (word.starts_with('-')) {
      return "";
    } else {
      add(others, word);
      is_more = true;
    }
  }
  if (torch.empty() || url.empty() || !is_more) return "";
  return before + " " + torch + " --index-url " + shell_word(url) + " && " + before + " " + others;
}

}  // namespace

void CommandMarks::pip(const Command& command, std::size_t from) {
  const std::vector<std::string> given(command.words.begin() + static_cast<std::ptrdiff_t>(from),
                                       command.words.end());
  if (is_wheel_index(value_of(given, "--extra-index-url")) &&
      !any_word(given, [](const std::string& word) { return names_torch_build(word); })) {
    const std::string url(value_of(given, "--extra-index-url"));
    const std::string apart = split_by_index(command.words, from);
    if (apart.empty())
      mark(command.line, "extra_index", url, wheel_tag(url));
    else
      mark(command.line, "extra_index_mixed", url, apart);
  }
  Pins pins;
  for (const std::string& word : given) {
    pins.add(command.line, word);
    requirement_mark(marks_, command.line, word, true);
    const std::string_view name = std::string_view(word).substr(0, word.find_first_of("=<>~![ "));
    wheels_ = wheels_ || is_one_of(name, kWheels) || name.starts_with("cupy-cuda");
  }
  pins.finish(marks_);
}

/// Reports assignments that a shell does not accept: "set NAME=0" from Windows, and "NAME = 0".
bool CommandMarks::foreign_setting(const Command& command) {
  const std::vector<std::string>& words = command.words;
  if (words.empty()) return false;
  const std::size_t first = words[0] == "export" ? 1 : 0;
  if (words[0] == "set" && words.size() == 2 && is_about_devices(assigned(words[1]))) {
    mark(command.line, "set_of_windows", std::string(assigned(words[1])), setting_meant(words[1]));
    return true;
  }
  if (words.size() < first + 2 || !is_about_devices(words[first])) return false;
  const std::string& name = words[first];
  const std::string& next = words[first + 1];
  const bool before =
      assigned(name).empty() && name.find('=') == std::string::npos && next.starts_with('=');
  // "NAME= 0" sets NAME to "" and runs the command "0". "NAME= python" is not reported, because an
  // empty NAME may be intended, to hide all GPUs.
  const bool behind = name.ends_with('=') && listed_number(next).has_value();
  if (!before && !behind) return false;
  std::string value = behind ? next : next.substr(1);
  if (value.empty() && words.size() > first + 2) value = words[first + 2];
  const std::string plain = name.substr(0, name.find('='));
  mark(command.line, "blanks_around_equals", plain, setting_meant(plain + "=" + value));
  return true;
}

/// Reads the assignments at the start of a command. Returns the index of the first word after them.
std::size_t CommandMarks::settings(const Command& command) {
  const std::vector<std::string>& words = command.words;
  bool exported = false;
  std::size_t first = 0;
  for (; first < words.size(); ++first) {
    const std::string_view name = assigned(words[first]);
    exported = exported || words[first] == "export";
    if (name.empty() && words[first] != "export" && !is_one_of(words[first], kBefore)) break;
    if (name.empty()) continue;
    const std::string value = words[first].substr(name.size() + 1);
    const bool more = first + 1 < words.size();
    // Without quotes, the shell splits the list "0, 1" into two words.
    std::string rest;
    while (name == "CUDA_VISIBLE_DEVICES" && (value + rest).ends_with(',') &&
           first + 1 < words.size() && listed_number(words[first + 1]))
      rest += words[++first];
    if (!rest.empty())
      add_split_list(command.line, value, rest);
    else if (exported || more)
      add_setting(command.line, name, value);
  }
  return first;
}

void CommandMarks::files(const Command& command, std::string_view program) {
  const std::vector<std::string>& words = command.words;
  const bool open_to_all = any_word(words, [](std::string_view word) {
    return word == "777" || word == "0777" || word == "a+rwx" || word == "ugo+rwx";
  });
  const bool nodes = any_word(words, [](std::string_view word) {
    return word.starts_with("/dev/nvidia") || word.starts_with("/dev/dri") ||
           word.starts_with("/dev/kfd");
  });
  if (program == "chmod" && open_to_all && nodes) mark(command.line, "device_chmod");
  if ((program == "cp" || program == "mv") && contains(words.back(), "/cuda") &&
      any_word(words, [](std::string_view word) { return contains(word, "cudnn"); }))
    mark(command.line, "cudnn_copied");
}

void CommandMarks::conda(const Command& command) {
  bool channel = false;
  std::string package;
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    const std::string_view word = command.words[i];
    const std::string_view before = command.words[i - 1];
    channel = channel || (word == "pytorch" && (before == "-c" || before == "--channel")) ||
              word == "--channel=pytorch" || word.starts_with("pytorch::");
    if (word.starts_with("cudatoolkit") || word.starts_with("pytorch-cuda")) package = word;
  }
  if (channel && !package.empty())
    mark(command.line, "conda_pytorch", package, wheel_tag_for(package));
}

void CommandMarks::add(const Command& command) {
  const std::vector<std::string>& words = command.words;
  if (foreign_setting(command)) return;
  const std::size_t first = settings(command);
  if (first >= words.size()) return;
  std::string_view program = words[first];
  program.remove_prefix(program.rfind('/') + 1);
  const auto next = [&](std::size_t i) {
    return first + i < words.size() ? std::string_view(words[first + i]) : std::string_view();
  };
  files(command, program);
  if ((program == "pip" || program == "pip3") && next(1) == "install") pip(command, first + 2);
  if (next(1) == "-m" && next(2) == "pip" && next(3) == "install") pip(command, first + 4);
  if (program == "uv" && next(1) == "pip" && next(2) == "install") pip(command, first + 3);
  if (program == "conda" || program == "mamba" || program == "micromamba") conda(command);
  if (program == "nvprof") mark(command.line, "nvprof");
  if (program == "nvcc" && (next(1) == "--version" || next(1) == "-V") && !asks_toolkit_on_purpose)
    mark(command.line, "nvcc_version");
}

void CommandMarks::finish() {
  if (std::exchange(wheels_, false))
    for (const int line : library_paths_) mark(line, "library_path_for_wheels");
  library_paths_.clear();
}

}  // namespace berth::doctor::source
