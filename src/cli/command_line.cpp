// The only file that includes CLI11. It passes CLI11 only those options that the command line may
// contain.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/verb.hpp"

namespace berth::cli {
namespace {

/// The name by which an option's values are stored: its last long name, such as "--device" for
/// "-d,--device".
std::string key_of(const Option& option) {
  const std::string names = option.names;
  const auto at = names.rfind("--");
  return at == std::string::npos ? names : names.substr(at);
}

void add(CLI::App& app, const Option& option, std::vector<std::string>& into) {
  if (option.value == nullptr) {
    app.add_flag_function(option.names, [&into](std::int64_t) { into.assign(1, ""); })
        ->disable_flag_override();
  } else {
    app.add_option_function<std::vector<std::string>>(
           option.names, [&into](const std::vector<std::string>& values) { into = values; })
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);  // an option takes one value; the next word is an operand
  }
}

/// Whether a word may mean this option. Only such options are added to CLI11, because CLI11
/// compares each added option with all others. With all options, this would take longer than the
/// rest of a short command.
bool is_mentioned(const Option& option, const std::vector<std::string>& words) {
  for (const std::string_view name : split(option.names, ','))
    for (const std::string_view word : words) {
      const bool is_long = name.starts_with("--");
      if (is_long && word.substr(0, word.find('=')) == name) return true;
      // Short options may be combined: -qv.
      if (!is_long && word.starts_with('-') && !word.starts_with("--") &&
          word.find(name[1]) != std::string_view::npos)
        return true;
    }
  return false;
}

std::string shown(const Verb& verb) {
  return verb.name[0] == '\0' ? "berth" : std::string("berth ") + verb.name;
}

Error usage_error(const Verb& verb, const char* id, std::string message, const std::string& near) {
  const std::string guess = near.empty() ? "" : text("did you mean {}?", near) + "   ";
  return {ErrorCode::kInvalidArgument, id, std::move(message), guess + shown(verb) + " --help"};
}

/// Converts an error of CLI11 to one of Berth. The error's text begins with the option's name:
/// "--device: 1 required TEXT missing".
Error parse_error(const Verb& verb, const CLI::ParseError& problem) {
  const std::string what = problem.what();
  const std::string name = what.substr(0, what.find_first_of(": "));
  const Option* option = find_option(verb, name);
  return usage_error(verb, "E0001",
                     option == nullptr || option->value == nullptr
                         ? text("the options cannot be read: {}", printable(what))
                         : text("{} needs a value: {}", name, option->value),
                     "");
}

std::optional<Error> switch_with_value(const Verb& verb, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    const Option* option = equals == std::string::npos ? nullptr : find_option(verb, word);
    if (option != nullptr && option->value == nullptr)
      return usage_error(verb, "E0001", text("{} takes no value", word.substr(0, equals)), "");
  }
  return std::nullopt;
}

/// If an option's placeholder lists words, only those are allowed.
std::optional<Error> check_choices(const Verb& verb, const Option& option,
                                   const std::vector<std::string>& given) {
  const auto allowed = choices(option);
  if (allowed.empty()) return std::nullopt;
  for (const std::string& whole : given) {
    // For --lang, check the language of the given locale name: "zh_CN.UTF-8" counts as "zh".
    const std::string value =
        key_of(option) == "--lang" ? whole.substr(0, whole.find_first_of("_-.@")) : whole;
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) continue;
    const std::vector<std::string> known(allowed.begin(), allowed.end());
    return usage_error(verb, "E0003",
                       text("{} cannot be '{}'; possible: {}", key_of(option), printable(whole),
                            fmt::format("{}", fmt::join(known, ", "))),
                       nearest(value, known));
  }
  return std::nullopt;
}

/// Divides the words that CLI11 did not parse into the command, operands and unknown options.
Result<Arguments> place_extras(const Verb& verb, Arguments arguments,
                               std::vector<std::string> extras,
                               const std::vector<std::string>& known) {
  for (const std::string& word : extras) {
    if (word.size() < 2 || word[0] != '-') {
      // the remaining words are the command that Berth runs, and its options
      if (verb.takes_command) break;
      continue;
    }
    const std::string name = word.substr(0, word.find('='));
    return usage_error(verb, "E0001", text("there is no option {}", printable(name)),
                       nearest(name, known));
  }
  if (verb.takes_command) {
    if (!arguments.has_separator) arguments.command = std::move(extras);
    return arguments;
  }
  arguments.positional = std::move(extras);
  // There may be operands before the command, as in "[FILE…] [-- COMMAND…]".
  if (std::string_view(verb.operands).find("-- COMMAND") != std::string_view::npos)
    return arguments;
  for (std::string& word : arguments.command) arguments.positional.push_back(std::move(word));
  arguments.command.clear();
  if (verb.operands[0] == '\0' && !arguments.positional.empty())
    return usage_error(verb, "E0004",
                       text("unexpected argument '{}'", printable(arguments.positional.front())),
                       "");
  return arguments;
}

}  // namespace

Result<Arguments> parse(const Verb& verb, const std::vector<std::string>& words) {
  Arguments arguments;
  const auto own = static_cast<std::ptrdiff_t>(own_words(verb, words));
  std::vector<std::string> mine(words.begin(), words.begin() + own);
  std::vector<std::string> command(words.begin() + own, words.end());
  arguments.has_separator = !command.empty() && command.front() == "--";
  if (arguments.has_separator) arguments.command.assign(command.begin() + 1, command.end());
  if (auto problem = switch_with_value(verb, mine)) return std::move(*problem);

  CLI::App app;
  app.set_help_flag("");
  app.allow_extras();
  std::map<std::string, std::vector<std::string>> values;
  std::vector<std::string> known;
  for (const auto& options : {verb.options, common_options()}) {
    for (const Option& option : options) {
      known.push_back(key_of(option));
      if (is_mentioned(option, mine)) add(app, option, values[key_of(option)]);
    }
  }
  try {
    // CLI11 takes words from the end of the list, so reverse them
    std::reverse(mine.begin(), mine.end());
    app.parse(mine);
  } catch (const CLI::ParseError& problem) {
    return parse_error(verb, problem);
  }
  for (const auto& options : {verb.options, common_options()})
    for (const Option& option : options)
      if (auto problem = check_choices(verb, option, values[key_of(option)]))
        return std::move(*problem);
  for (auto& [name, given] : values)
    if (!given.empty()) arguments.options.emplace(name, std::move(given));

  std::vector<std::string> extras = app.remaining();
  if (!arguments.has_separator)
    for (std::string& word : command) extras.push_back(std::move(word));
  return place_extras(verb, std::move(arguments), std::move(extras), known);
}

}  // namespace berth::cli
