#include <algorithm>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/verb.hpp"

namespace berth::cli {
std::optional<std::string> Arguments::value(std::string_view name) const {
  const auto found = options.find(name);
  if (found == options.end() || found->second.empty()) return std::nullopt;
  return found->second.back();
}

std::vector<std::string> Arguments::values(std::string_view name) const {
  const auto found = options.find(name);
  return found == options.end() ? std::vector<std::string>{} : found->second;
}

std::vector<std::string_view> choices(const Option& option) {
  const std::string_view value = option.value == nullptr ? "" : option.value;
  if (value.find('|') == std::string_view::npos) return {};
  const bool literal = std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '|' || c == '-' || c == '.' ||
           c == '_';
  });
  return literal ? split(value, '|') : std::vector<std::string_view>{};
}

Error contradiction(std::string_view one, std::string_view other) {
  return {ErrorCode::kInvalidArgument, "E0010", text("{} and {} contradict each other", one, other),
          text("leave one of them out")};
}

const Option* find_option(const Verb& verb, std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  for (const auto& options : {verb.options, common_options()})
    for (const Option& option : options)
      for (const std::string_view known : split(option.names, ','))
        if (known == name) return &option;
  return nullptr;
}

std::size_t own_words(const Verb& verb, const std::vector<std::string>& words) {
  std::size_t i = 0;
  while (i < words.size() && words[i] != "--") {
    const std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-') {
      if (verb.takes_command) return i;
      ++i;
      continue;
    }
    const Option* option = find_option(verb, word);
    const bool value_follows =
        option != nullptr && option->value != nullptr && word.find('=') == std::string::npos;
    // Do not take "--" as the option's value, as in `--gpus -- python train.py`. The value was
    // probably forgotten.
    i += value_follows && i + 1 < words.size() && words[i + 1] != "--" ? 2 : 1;
  }
  return std::min(i, words.size());
}

}  // namespace berth::cli
