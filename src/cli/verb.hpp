// A verb of the command line as a table row. Help, man page, completion and docs are made from the
// rows. Only the options of the called verb are passed to the parser.
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
  const char* names;  // "--device" or "-d,--device"
  const char* value;  // placeholder ("LIST"), or choices ("bash|zsh|fish"); nullptr: a switch
  const char* help;   // msgid
  bool repeatable = false;
};

struct Example {
  const char* command;
  const char* says;  // msgid
};

/// What the user gave to the called verb.
struct Arguments {
  std::map<std::string, std::vector<std::string>, std::less<>>
      options;  // values by option name, such as "--device"; a switch has one empty string
  std::vector<std::string> positional;  // operands before the command
  std::vector<std::string>
      command;                 // the words after "--", or from the first word on (takes_command)
  bool has_separator = false;  // "--" was given

  [[nodiscard]] bool has(std::string_view name) const {
    return options.find(name) != options.end();
  }
  /// The last value that was given for an option.
  [[nodiscard]] std::optional<std::string> value(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> values(std::string_view name) const;
};

/// A verb's arguments and streams. Write through out() and err(), so that a closed pipe causes no
/// error message.
struct Context {
  Arguments arguments;
  bool json = false;
  output::Terminal out_terminal, err_terminal;

  void out(std::string_view text) const;  // data
  void err(std::string_view text) const;  // everything else
  // errno of a failed write to stdout, which main reports. A closed pipe is no error and leaves it
  // 0.
  mutable int write_error = 0;
};

enum class Group { kLook, kUse, kOperate, kMeasure };

struct Verb {
  const char* name;  // "" is `berth` without a verb
  Group group;
  const char* summary;   // one line, msgid
  const char* operands;  // "-- COMMAND…", "[TOPIC]" or ""
  bool takes_command;    // the first word that is not an option begins a command
  std::span<const Option> options;
  std::span<const Example> examples;
  /// Returns the exit code. main prints an Error and chooses its exit code. For verbs that take a
  /// command, all errors except wrong usage are 125, because other codes belong to the command.
  Result<int> (*run)(const Context&);
};

/// All verbs, in the order of help.
[[nodiscard]] std::span<const Verb> verbs();
[[nodiscard]] const Verb* find_verb(std::string_view name);
/// Options of every verb: --json --lang --color --help.
[[nodiscard]] std::span<const Option> common_options();

/// The choices in the option's placeholder ("bash|zsh|fish"); empty if it has none.
[[nodiscard]] std::vector<std::string_view> choices(const Option& option);
/// The option with this name, of the verb or common to all ("--device", "-d", "--device=0");
/// nullptr if there is none.
[[nodiscard]] const Option* find_option(const Verb& verb, std::string_view word);
/// The number of words that belong to the verb itself: those before "--" or before the command.
[[nodiscard]] std::size_t own_words(const Verb& verb, const std::vector<std::string>& words);

/// Parses a verb's words. Fails with kInvalidArgument (E0001: unknown option, E0003: not one of its
/// choices, E0004: too many words), with a "did you mean". Words after "--" are the command, or
/// operands if the verb takes none.
[[nodiscard]] Result<Arguments> parse(const Verb& verb, const std::vector<std::string>& words);
/// The error E0010 for two options that exclude each other.
[[nodiscard]] Error contradiction(std::string_view one, std::string_view other);
/// The help page of a verb, or the overview if `verb` is nullptr. At most 100 columns wide.
[[nodiscard]] std::string help(const Verb* verb, const output::Terminal& terminal);
using berth::nearest;

/// Does everything that main() has to do, and returns the exit code.
int main_of(int argc, char** argv);

}  // namespace berth::cli
