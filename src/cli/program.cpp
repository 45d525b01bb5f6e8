// Everything between argv and the exit code: sets the language and colours, runs the verb, and
// prints any error.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <system_error>

#include "base/environment_variables.hpp"
#include "base/text.hpp"
#include "base/write_file.hpp"
#include "cli/exit_code.hpp"
#include "cli/manual.hpp"
#include "cli/verbs.hpp"
#include "cli/version.hpp"
#include "client/reach.hpp"
#include "output/error.hpp"

namespace berth::cli {
namespace {

/// Writes text and returns the errno of a failed write. Returns 0 if the reader of the pipe has
/// exited (such as head), because this is not an error.
int put(int fd, std::string_view text) {
  return write_all(fd, text) || errno == EPIPE ? 0 : errno;
}

/// Opens /dev/null in place of closed standard streams. Otherwise the next file to be opened would
/// get number 0, 1 or 2 and receive our messages. Reading and writing still fail, and executed
/// programs find the streams closed.
void reserve_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0)
      static_cast<void>(
          ::open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC));
}

/// The verb to run and its words. Options may come before the verb: `berth --lang zh ls`.
struct Call {
  const Verb* verb = nullptr;
  std::optional<std::string> unknown;  // the first word, if it is not the name of a verb
  std::vector<std::string> words;      // the words after the verb's name
  // The number of words that belong to the verb. The words after them are the command that the verb
  // runs.
  std::size_t own = 0;
};

std::size_t verb_position(const std::vector<std::string>& words) {
  const Verb* alone = find_verb("");
  std::size_t i = 0;
  while (i < words.size() && words[i].size() > 1 && words[i][0] == '-') {
    if (words[i] == "--") return words.size();
    const Option* option = find_option(*alone, words[i]);
    const bool value_follows =
        option != nullptr && option->value != nullptr && words[i].find('=') == std::string::npos;
    i += value_follows ? 2 : 1;
  }
  return std::min(i, words.size());
}

Call split_call(std::vector<std::string> words) {
  Call call;
  call.verb = find_verb("");
  const std::size_t at = verb_position(words);
  if (at < words.size()) {
    const Verb* named = words[at].empty() ? nullptr : find_verb(words[at]);
    if (named == nullptr)
      call.unknown = words[at];
    else
      call.verb = named;
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(at));
  }
  call.own = own_words(*call.verb, words);
  call.words = std::move(words);
  return call;
}

/// The value of --lang, --color or --json. It is needed before the words are parsed, because errors
/// about the words must have the right language and form.
std::optional<std::string> early_option(const Call& call, const std::string& name) {
  for (std::size_t i = 0; i < call.own; ++i) {
    if (call.words[i] == name && i + 1 < call.own) return call.words[i + 1];
    if (call.words[i].rfind(name + "=", 0) == 0) return call.words[i].substr(name.size() + 1);
  }
  return std::nullopt;
}

bool early_switch(const Call& call, std::string_view name) {
  for (std::size_t i = 0; i < call.own; ++i)
    if (call.words[i] == name) return true;
  return false;
}

/// The language to use. JSON is for programs, so its language depends only on --lang and not on the
/// locale.
Language language_for(const Call& call) {
  if (const auto asked = early_option(call, "--lang")) return language_from(*asked);
  if (early_switch(call, "--json")) return Language::kEnglish;
  for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"})
    if (const auto locale = env_nonempty(name)) return language_from(*locale);
  return Language::kEnglish;
}

output::ColorChoice color_for(const Call& call) {
  const std::string color = early_option(call, "--color").value_or("auto");
  return color == "always"  ? output::ColorChoice::kAlways
         : color == "never" ? output::ColorChoice::kNever
                            : output::ColorChoice::kAuto;
}

Result<int> do_call(Context& context, const Call& call) {
  if (call.unknown) return unknown_verb(*call.unknown);
  auto arguments = parse(*call.verb, call.words);
  if (!arguments) return std::move(arguments).error();
  if (arguments->has("--help")) {
    context.out(help(call.verb, context.out_terminal));
    return static_cast<int>(kDone);
  }
  if (arguments->has("--version")) {
    context.out(arguments->has("--json") ? version_json() : version_text());
    return static_cast<int>(kDone);
  }
  context.arguments = std::move(*arguments);
  context.json = context.arguments.has("--json");
  if (!context.json)
    client::tell_of_waits([&context](const std::string& sentence) {
      context.err(text("note: {}", sentence) + "\n");
    });
  return call.verb->run(context);
}

/// Runs the verb or the help. If stdout could not be written, returns an error.
Result<int> dispatch(Context& context, const Call& call) {
  auto code = do_call(context, call);
  if (code && context.write_error != 0)
    return Error{
        ErrorCode::kUnsupported, "E0008",
        text("the output cannot be written: {}",
             std::generic_category().message(context.write_error)),
        text("free some space (df -h shows which disk is full), or write to another disk")};
  return code;
}

}  // namespace

void Context::out(std::string_view text) const {
  if (const int problem = put(STDOUT_FILENO, text); problem != 0) write_error = problem;
}
void Context::err(std::string_view text) const {
  // ignore an error, because it cannot be reported anywhere
  static_cast<void>(put(STDERR_FILENO, text));
}

int main_of(int argc, char** argv) try {
  reserve_standard_streams();
  if (argc == 2 &&
      (std::string_view(argv[1]) == "--version" || std::string_view(argv[1]) == "-V") &&
      put(STDOUT_FILENO, version_text()) == 0)
    return kDone;
  const Call call = split_call(std::vector<std::string>(argv + 1, argv + std::max(1, argc)));
  set_language(language_for(call));
  Context context;
  context.out_terminal = output::Terminal::of(STDOUT_FILENO, color_for(call));
  context.err_terminal = output::Terminal::of(STDERR_FILENO, color_for(call));
  const auto code = dispatch(context, call);
  if (code) return *code;
  const Error& error = code.error();
  const bool own_codes = call.verb->takes_command;
  const int exit_code = own_codes && error.code != ErrorCode::kInvalidArgument
                            ? static_cast<int>(kOurFailure)
                            : exit_code_of(error);
  context.err(early_switch(call, "--json") ? output::error_json(error, exit_code)
                                           : output::show_error(error, context.err_terminal));
  return exit_code;
} catch (const std::exception& problem) {
  static_cast<void>(
      put(STDERR_FILENO, "error: a bug in berth: " + std::string(problem.what()) + " (E7002)\n"));
  return kBug;
}

}  // namespace berth::cli
