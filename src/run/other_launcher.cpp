#include "run/other_launcher.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::run {
namespace {

using Words = std::vector<std::string>;

enum class Becomes {
  kNothing,  // no option is needed, because Berth finds the value itself
  kRanks,    // becomes --ranks, with the value of the launcher's option
  kRetries,
  kLogs,     // becomes --log-dir
  kOneNode,  // the option is not needed if its value is 1
  kCpu,
  kModule  // the program is a module: python -m
};

struct KnownOption {
  std::string_view launcher, name;  // the option's name, with "-" instead of "_"
  bool has_value = false;
  Becomes becomes = Becomes::kNothing;
};

constexpr std::array<KnownOption, 34> kOptions{{
    {"torchrun", "--nproc-per-node", true, Becomes::kRanks},
    {"torchrun", "--nnodes", true, Becomes::kOneNode},
    {"torchrun", "--max-restarts", true, Becomes::kRetries},
    {"torchrun", "--log-dir", true, Becomes::kLogs},
    {"torchrun", "--standalone", false},
    {"torchrun", "--node-rank", true},
    {"torchrun", "--master-addr", true},
    {"torchrun", "--master-port", true},
    {"torchrun", "--rdzv-backend", true},
    {"torchrun", "--rdzv-endpoint", true},
    {"torchrun", "--rdzv-id", true},
    {"torchrun", "--rdzv-conf", true},
    {"torchrun", "--monitor-interval", true},
    {"torchrun", "--redirects", true},
    {"torchrun", "-r", true},
    {"torchrun", "--tee", true},
    {"torchrun", "-t", true},
    {"torchrun", "--use-env", false},
    {"torchrun", "-m", false, Becomes::kModule},
    {"torchrun", "--module", false, Becomes::kModule},
    {"accelerate launch", "--num-processes", true, Becomes::kRanks},
    {"accelerate launch", "--num-machines", true, Becomes::kOneNode},
    {"accelerate launch", "--multi-gpu", false},
    {"accelerate launch", "--gpu-ids", true},
    {"accelerate launch", "--main-process-port", true},
    {"accelerate launch", "--main-process-ip", true},
    {"accelerate launch", "--machine-rank", true},
    {"accelerate launch", "--max-restarts", true, Becomes::kRetries},
    {"accelerate launch", "--cpu", false, Becomes::kCpu},
    {"accelerate launch", "-m", false, Becomes::kModule},
    {"deepspeed", "--num-gpus", true, Becomes::kRanks},
    {"deepspeed", "--num-nodes", true, Becomes::kOneNode},
    {"deepspeed", "--include", true},
    {"deepspeed", "--master-port", true},
}};

std::string joined(const Words& words, std::string_view with) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : std::string(with)) + word;
  return all;
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

/// The launcher's name, and how many words of the command are its name.
std::pair<std::string, std::size_t> name_in(const Words& command) {
  const auto word = [&](std::size_t i) { return i < command.size() ? command[i] : std::string(); };
  const std::string first = base_name(word(0));
  if (first == "torchrun" || first == "deepspeed") return {first, 1};
  if (first == "accelerate" && word(1) == "launch") return {"accelerate launch", 2};
  if (!first.starts_with("python") || word(1) != "-m") return {};
  if (word(2) == "torch.distributed.run" || word(2) == "torch.distributed.launch")
    return {"torchrun", 3};
  if (word(2) == "accelerate.commands.launch") return {"accelerate launch", 3};
  return {};
}

const KnownOption* find_option(const std::string& launcher, std::string word) {
  std::replace(word.begin() + 1, word.end(), '_', '-');
  const auto found = std::find_if(kOptions.begin(), kOptions.end(), [&](const KnownOption& one) {
    return one.launcher == launcher && one.name == word;
  });
  return found == kOptions.end() ? nullptr : &*found;
}

/// The launcher's options, grouped by what `berth run` needs instead.
struct Reading {
  Words needless, options, program;
  bool is_whole = true;  // every option was known and has an equivalent in `berth run`
  bool is_module = false;
};

void take_option(const KnownOption& known, const std::string& value, Reading& reading) {
  switch (known.becomes) {
    case Becomes::kRanks: {
      const bool is_number = to_number(value).value_or(0) > 0;
      if (is_number || value == "gpu" || value == "auto")
        reading.options.insert(reading.options.end(), {"--ranks", value});
      else
        reading.is_whole = false;
      break;
    }
    case Becomes::kRetries:
      if (value != "0") reading.options.insert(reading.options.end(), {"--retries", value});
      break;
    case Becomes::kLogs:
      reading.options.insert(reading.options.end(), {"--log-dir", value});
      break;
    case Becomes::kOneNode:
      reading.is_whole = reading.is_whole && (value == "1" || value == "1:1");
      break;
    case Becomes::kCpu:
      reading.options.emplace_back("--cpu");
      break;
    case Becomes::kModule:
      reading.is_module = true;
      break;
    case Becomes::kNothing:
      break;
  }
}

Reading read_options(const std::string& launcher, const Words& command, std::size_t at) {
  Reading reading;
  for (; at < command.size(); ++at) {
    const std::string& word = command[at];
    if (!word.starts_with("-") || word.size() < 2) break;
    const auto equals = word.find('=');
    const KnownOption* known = find_option(launcher, word.substr(0, equals));
    if (known == nullptr) {
      // It is unknown whether the next word is this option's value. So it is also unknown where the
      // program begins.
      reading.is_whole = false;
      if (equals == std::string::npos) return reading;
      continue;
    }
    const bool takes_next = known->has_value && equals == std::string::npos;
    if (takes_next && at + 1 == command.size()) break;
    const std::string value = takes_next                    ? command[at + 1]
                              : equals == std::string::npos ? ""
                                                            : word.substr(equals + 1);
    if (known->becomes != Becomes::kModule)
      reading.needless.push_back(takes_next ? word + " " + value : word);
    take_option(*known, value, reading);
    if (takes_next) ++at;
  }
  for (; at < command.size(); ++at) reading.program.push_back(command[at]);
  return reading;
}

}  // namespace

std::optional<OtherLauncher> other_launcher(const Words& command) {
  const auto [name, words] = name_in(command);
  if (name.empty()) return std::nullopt;
  OtherLauncher launcher{name, {}, {}};
  Reading reading = read_options(name, command, words);
  launcher.needless = std::move(reading.needless);
  if (!reading.is_whole || reading.program.empty()) return launcher;
  const auto is_count = std::find(reading.options.begin(), reading.options.end(), "--ranks");
  if (is_count == reading.options.end())
    reading.options.insert(reading.options.begin(), {"--ranks", name == "torchrun" ? "1" : "gpu"});
  launcher.instead = {"berth", "run"};
  const auto add = [&](const Words& more) {
    launcher.instead.insert(launcher.instead.end(), more.begin(), more.end());
  };
  add(reading.options);
  add({"--", "python"});
  if (reading.is_module) add({"-m"});
  add(reading.program);
  return launcher;
}

std::string needless_sentence(const OtherLauncher& launcher) {
  std::string sentence =
      launcher.needless.empty()
          ? text("{} starts the ranks of this job; Berth can do that itself", launcher.name)
          : text(
                "{} starts the ranks of this job; with `berth run --ranks`, these options are not "
                "needed: {}",
                launcher.name, printable(joined(launcher.needless, ", ")));
  if (!launcher.instead.empty())
    sentence += text("; instead: {}", printable(joined(launcher.instead, " ")));
  return sentence;
}

}  // namespace berth::run
