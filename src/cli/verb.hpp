// The table of verbs of the command line. Help, man pages, completion and docs are generated from
// its rows. The parser gets only the options of the called verb.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/spelling.hpp"
#include "output/terminal.hpp"

namespace berth::cli {

struct Option {
  const char* names;  // names of the option, such as "--device" or "-d,--device"
  // name of its value ("LIST"), or its choices ("bash|zsh|fish"); nullptr for a switch
  const char* value;
  const char* help;  // msgid
  bool repeatable = false;
};

struct Example {
  const char* command;
  const char* says;  // msgid
};

/// The parsed words of the command line for the called verb.
struct Arguments {
  std::map<std::string, std::vector<std::string>, std::less<>>
      options;  // values by option name, such as "--device"; a switch has one empty string
  std::vector<std::string> positional;  // operands in front of the command
  std::vector<std::string>
      command;  // the words after "--"; with takes_command, from the first operand on
  bool has_separator = false;  // whether "--" was given

  [[nodiscard]] bool has(std::string_view name) const {
    return options.find(name) != options.end();
  }
  /// The value of an option; the last one if it was given several times.
  [[nodiscard]] std::optional<std::string> value(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> values(std::string_view name) const;
};

/// A verb's arguments and streams. Write through out() and err(), so that a closed pipe causes no
/// error message.
struct Context {
  Arguments arguments;
  bool json = false;
  output::Terminal out_terminal, err_terminal;

  void out(std::string_view text) const;  // the result, to stdout
  void err(std::string_view text) const;  // messages, to stderr
  // The errno of a failed write to stdout, which main reports. It stays 0 for a closed pipe, which
  // is not an error.
  mutable int write_error = 0;
};

enum class Group { kLook, kUse, kOperate, kMeasure };

struct Verb {
  const char* name;  // "" for `berth` without a verb
  Group group;
  const char* summary;   // one line in English, for tr()
  const char* operands;  // what may follow the options: "-- COMMAND…", "[TOPIC]" or ""
  bool takes_command;    // whether the first word that is not an option begins a command
  std::span<const Option> options;
  std::span<const Example> examples;
  /// Runs the verb and returns the exit code. For an Error, main prints it and chooses the exit
  /// code. For verbs that take a command, this is 125 (2 for wrong usage), because other codes
  /// belong to the command.
  Result<int> (*run)(const Context&);
};

/// All verbs, in the order in which the help lists them.
[[nodiscard]] std::span<const Verb> verbs();
[[nodiscard]] const Verb* find_verb(std::string_view name);
/// The options that every verb has: --json --lang --color --help.
[[nodiscard]] std::span<const Option> common_options();

/// The allowed values of an option, such as "bash", "zsh" and "fish"; empty if any value is
/// allowed.
[[nodiscard]] std::vector<std::string_view> choices(const Option& option);
/// The verb's own or common option that a word such as "--device", "-d" or "--device=0" names;
/// nullptr if there is none.
[[nodiscard]] const Option* find_option(const Verb& verb, std::string_view word);
/// How many words belong to the verb itself: the words before "--" or before the command.
[[nodiscard]] std::size_t own_words(const Verb& verb, const std::vector<std::string>& words);

/// Parses a verb's words. Words after "--" are the command, or operands if the verb takes no
/// command. Fails with kInvalidArgument (E0001: unknown option, E0003: value not allowed, E0004:
/// too many words), with a "did you mean".
[[nodiscard]] Result<Arguments> parse(const Verb& verb, const std::vector<std::string>& words);
/// The error E0010 for two options that exclude each other.
[[nodiscard]] Error contradiction(std::string_view one, std::string_view other);
/// The help page of a verb, or the overview if `verb` is nullptr. At most 100 columns wide.
[[nodiscard]] std::string help(const Verb* verb, const output::Terminal& terminal);
using berth::nearest;

/// The whole program: runs the verb that argv names, and returns the exit code.
int main_of(int argc, char** argv);

}  // namespace berth::cli
