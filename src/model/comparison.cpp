#include "model/comparison.hpp"

#include "base/shell_word.hpp"

namespace berth::model {

std::vector<std::string> run_options(const RunSetting& setting) {
  std::vector<std::string> options;
  if (setting.gpus == 0)
    options.emplace_back("--cpu");
  else
    options.insert(options.end(), {"--gpus", std::to_string(setting.gpus)});
  if (setting.threads) options.insert(options.end(), {"--cpus", std::to_string(*setting.threads)});
  return options;
}

std::string run_line(const RunSetting& setting, const std::vector<std::string>& command) {
  std::string line;
  for (const auto& [name, value] : setting.variables) line += name + "=" + shell_word(value) + " ";
  line += "berth run";
  for (const std::string& option : run_options(setting)) line += " " + option;
  line += " --";
  for (const std::string& word : command) line += " " + shell_word(word);
  return line;
}

}  // namespace berth::model
