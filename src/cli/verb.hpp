// A verb of the command line as a table row: help, man page, completion and docs come from it, and
// only the called verb's options are ever built.
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
  const char* value;  // placeholder ("LIST"), or all words it may be ("bash|zsh|fish", checked);
                      // nullptr: a switch
  const char* help;   // msgid
  bool repeatable = false;
};

struct Example {
  const char* command;
  const char* says;  // msgid
};

/// What the user gave for the called verb.
struct Arguments {
  std::map<std::string, std::vector<std::string>, std::less<>>
      options;                          // "--device" → values (switch: one empty string)
  std::vector<std::string> positional;  // up to the command
  std::vector<std::string> command;     // after "--", or from the first word on (takes_command)
  bool has_separator = false;           // "--" was there

  [[nodiscard]] bool has(std::string_view name) const {
    return options.find(name) != options.end();
  }
  /// The last value given.
  [[nodiscard]] std::optional<std::string> value(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> values(std::string_view name) const;
};

/// What a verb may touch: its arguments and streams. Writes go through out()/err() so that a closed
/// pipe ends quietly.
struct Context {
  Arguments arguments;
  bool json = false;
  output::Terminal out_terminal, err_terminal;

  void out(std::string_view text) const;  // stdout: data
  void err(std::string_view text) const;  // stderr: everything else
  mutable int write_error =
      0;  // errno of a failed write to stdout that main reports; a closed pipe is none
};

enum class Group { kLook, kUse, kOperate, kMeasure };

struct Verb {
  const char* name;  // "" is `berth` alone
  Group group;
  const char* summary;   // one line, msgid
  const char* operands;  // "-- COMMAND…", "[TOPIC]" or ""
  bool takes_command;    // the first word that is not an option begins a command
  std::span<const Option> options;
  std::span<const Example> examples;
  /// The exit code; an Error is printed by main, which maps it to one: where the verb takes a
  /// command, every error but wrong usage is 125, because other codes are the command's own.
  Result<int> (*run)(const Context&);
};

/// Every verb there is, in the order of help.
[[nodiscard]] std::span<const Verb> verbs();
[[nodiscard]] const Verb* find_verb(std::string_view name);
/// Options every verb has: --json --lang --color --help.
[[nodiscard]] std::span<const Option> common_options();

/// The words an option may be, where its placeholder lists them ("bash|zsh|fish"); else none.
[[nodiscard]] std::vector<std::string_view> choices(const Option& option);
/// The verb's or a common option with this name ("--device", "-d", "--device=0"); nullptr where
/// there is none.
[[nodiscard]] const Option* find_option(const Verb& verb, std::string_view word);
/// How many of the words belong to the verb itself: up to "--", or to the first word of the command
/// it takes.
[[nodiscard]] std::size_t own_words(const Verb& verb, const std::vector<std::string>& words);

/// Parses one verb's part of argv. Fails with kInvalidArgument: E0001 (option), E0003 (not one of
/// its choices), E0004 (a word too many), and a "did you mean". Words after "--" are the command,
/// or operands where the verb takes none.
[[nodiscard]] Result<Arguments> parse(const Verb& verb, const std::vector<std::string>& words);
/// Of two options that cannot both be meant: E0010.
[[nodiscard]] Error contradiction(std::string_view one, std::string_view other);
/// The help page of one verb; of all where verb is nullptr. At most 100 columns.
[[nodiscard]] std::string help(const Verb* verb, const output::Terminal& terminal);
using berth::nearest;

/// All of main(): returns the exit code.
int main_of(int argc, char** argv);

}  // namespace berth::cli
