#include "cli/doctor_target.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/spelling.hpp"
#include "base/text.hpp"
#include "client/lease.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/command.hpp"
#include "doctor/read/place.hpp"
#include "doctor/read/probe.hpp"
#include "doctor/read/process.hpp"
#include "doctor/read/pyenv.hpp"
#include "doctor/rules/unread_words.hpp"
#include "inventory/observe.hpp"

namespace berth::cli {
namespace {

// The largest number of bytes that is read, because a pipe can be endless.
constexpr std::size_t kMostBytes = 256 << 20;
// If a text is longer than this, the lines before its kept end are not counted, because that would
// take too long.
constexpr std::size_t kMostCounted = 512 << 20;

Error no_python(const std::string& what, const std::string& why, std::string hint) {
  return {ErrorCode::kInvalidArgument, "E0809",
          text("there is no Python at {}: {}", printable(what), why), std::move(hint)};
}

/// Makes a path absolute. Also expands ~ in "--venv=~/x", because shells expand it only at the
/// beginning of a word.
std::string absolute(const std::string& path) {
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): before any thread
  if ((path == "~" || path.starts_with("~/")) && home != nullptr) return home + path.substr(1);
  std::error_code ignored;
  return path.starts_with('/')
             ? path
             : std::filesystem::absolute(path, ignored).lexically_normal().string();
}

/// Finds a program such as "python3.11" in PATH, as a shell does.
std::string python_named(const doctor::Sources& sources, const std::string& word) {
  if (word.find('/') != std::string::npos || word.empty() || sources.tree.exists(absolute(word)))
    return absolute(word);
  const std::string path = doctor::variable(sources.process.environment, "PATH");
  for (const std::string_view folder : split(path, ':'))
    if (std::string file = std::string(folder) + "/" + word;
        folder.starts_with('/') && sources.tree.exists(file))
      return file;
  return absolute(word);
}

/// Suggests a command if PATH of --python is no interpreter. It may be an environment's folder, or
/// a program to run.
std::string meant_python(const doctor::Tree& tree, const std::string& path) {
  if (tree.exists(path + "/bin/python")) return "berth doctor --venv " + shell_word(path);
  const auto node = tree.node(path);
  if (node && node->type == doctor::NodeType::kFile) return "berth doctor -- " + shell_word(path);
  return "berth doctor --python \"$(command -v python3)\"";
}

/// Suggests creating a new environment next to one whose Python is missing. The old one must not be
/// changed: `venv --clear` would delete its files, and `--upgrade` keeps a broken link.
std::string beside(const doctor::Tree& tree, const std::string& venv, const std::string& place) {
  const auto trimmed = [](std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
  };
  const std::string given = trimmed(venv);
  const std::string last = given.substr(given.rfind('/') + 1);
  const bool is_name = last != "." && last != ".." && !given.starts_with('~');
  const std::string shown = is_name ? given : trimmed(place);
  for (int number = 1;; ++number) {
    const std::string end = number == 1 ? "-new" : fmt::format("-new{}", number);
    if (!tree.exists(trimmed(place) + end))
      return "python3 -m venv " + shell_word(printable(shown + end));
  }
}

/// Suggests a command if DIR of --venv cannot be used: the environment that contains DIR, a new
/// environment if DIR does not exist, or DIR as an interpreter.
std::string meant_venv(const doctor::Tree& tree, const std::string& venv, const std::string& place,
                       bool is_venv) {
  const std::string shown = shell_word(printable(venv.starts_with('~') ? place : venv));
  if (is_venv) return beside(tree, venv, place);
  if (!tree.exists(place)) return "python3 -m venv " + shown;
  std::string above = place;
  for (int i = 0; i < 3 && above.size() > 1; ++i) {
    above = doctor::parent(above);
    if (tree.exists(above + "/pyvenv.cfg") || tree.exists(above + "/conda-meta"))
      return "berth doctor --venv " + shell_word(printable(above));
  }
  return doctor::why_no_python(tree, place, false).empty() ? "berth doctor --python " + shown
                                                           : "ls " + shown;
}

Status choose_venv(const doctor::Tree& tree, const std::string& venv, const std::string& place,
                   bool recorded, std::string& python) {
  python = place + "/bin/python";
  if (const auto folder = tree.node(place); folder.is_unreadable())
    return no_python(
        venv, doctor::said_of(folder.why()),
        folder.why().error_number == ETIMEDOUT ? "findmnt" : "ls -ld " + shell_word(place));
  const bool is_venv = tree.exists(place + "/lib") || tree.exists(place + "/pyvenv.cfg");
  const std::string why = is_venv
                              ? doctor::why_no_python(tree, python, recorded)
                              : text(tree.exists(place) ? msgid("it is not a Python environment")
                                                        : msgid("it does not exist"));
  if (why.empty()) return Done{};
  return no_python(is_venv ? venv + "/bin/python" : venv, why,
                   recorded ? "berth doctor --from FILE" : meant_venv(tree, venv, place, is_venv));
}

Error no_conda(const doctor::Sources& sources, const std::string& name) {
  const std::string near =
      nearest(name, doctor::conda_names(sources.tree, sources.process.environment));
  return {
      ErrorCode::kInvalidArgument, "E0809",
      text("there is no conda environment {}", printable(name)),
      (near.empty() ? "" : text("did you mean {}?", printable(near)) + "   ") + "conda env list"};
}

Error not_in_pyenv(const doctor::Tree& tree, const std::string& word, const std::string& shim) {
  const std::string other = doctor::version_behind_shim(tree, shim);
  return no_python(word, text("no Python version that pyenv selects here has this program"),
                   other.empty() ? "pyenv versions"
                                 : "PYENV_VERSION=" + shell_word(other) +
                                       " berth doctor --python " + shell_word(printable(word)));
}

/// Sets the interpreter that the options name. With --from, this is a path on the recorded machine.
Status choose_python(const Context& context, doctor::Sources& sources) {
  const bool recorded = context.arguments.has("--from");
  const auto place = [&](const std::string& path) { return recorded ? path : absolute(path); };
  if (const auto python = context.arguments.value("--python")) {
    const std::string named = recorded ? *python : python_named(sources, *python);
    sources.python = doctor::behind_shim(sources.tree, sources.process.environment, named);
    if (sources.python.empty()) return not_in_pyenv(sources.tree, *python, named);
    const std::string why = doctor::why_no_python(sources.tree, sources.python, recorded);
    if (!why.empty())
      return no_python(
          *python, why,
          recorded ? "berth doctor --from FILE" : meant_python(sources.tree, sources.python));
  } else if (const auto venv = context.arguments.value("--venv")) {
    return choose_venv(sources.tree, *venv, place(*venv), recorded, sources.python);
  } else if (const auto name = context.arguments.value("--conda")) {
    sources.python = doctor::conda_python(sources.tree, sources.process.environment, *name);
    if (sources.python.empty()) return no_conda(sources, *name);
  }
  return Done{};
}

Result<doctor::Sources> sources_of(const Context& context) {
  if (const auto bundle = context.arguments.value("--from")) return doctor::from_bundle(*bundle);
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  const doctor::Depth depth =
      context.arguments.has("--static") ? doctor::Depth::kStatic : doctor::Depth::kLive;
  if (const auto word = context.arguments.value("--pid")) {
    const auto pid = to_number(*word);
    if (!pid || *pid <= 0 || word->find_first_not_of("0123456789") != std::string::npos)
      return Error{ErrorCode::kInvalidArgument, "E0806",
                   text("'{}' is not a process id", printable(*word)), "berth ps"};
    return doctor::of_process(*pid, depth);
  }
  return doctor::this_machine(depth);
}

/// Diagnoses the command given after "--": takes over its variables, its Python and its program.
Result<model::CommandSeen> follow_command(const Context& context, doctor::Sources& sources) {
  const doctor::Environment before = sources.process.environment.value_or({});
  std::error_code ignored;
  const std::string here = std::filesystem::current_path(ignored).string();
  auto found = doctor::resolve_command(sources.tree, before, here, context.arguments.command);
  if (!found) return std::move(found).error();
  model::CommandSeen seen;
  seen.program = printable(found->program);
  seen.python = printable(found->python);
  for (const auto& [name, value] : found->environment)
    if (const auto old = before.find(name); old == before.end() || old->second != value)
      seen.environment.emplace_back(name, value);
  for (const auto& [name, value] : before)
    if (!found->environment.contains(name)) seen.environment.emplace_back(name, std::nullopt);
  // Make the paths relative to the current folder, because they are shown.
  for (const std::string& file : found->files)
    seen.files.push_back(file.starts_with(here + "/") ? file.substr(here.size() + 1) : file);
  seen.notes = found->notes;
  sources.request.program =
      doctor::collect_program(sources.tree, found->environment, found->program);
  sources.python = found->python;
  sources.process.environment = std::move(found->environment);
  return seen;
}

Error unreadable_text(const std::string& path, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "E0820",
          text("the text of the error cannot be read from {}: {}", printable(path), why),
          "python train.py 2>&1 | berth doctor --error -"};
}

/// The last part of a text. Only this part is kept.
struct EndOfText {
  std::string bytes;
  long lines_before = 0;  // number of lines before the kept part; -1: too many to count
};

long lines_in(std::string_view bytes) {
  long lines = 0;
  for (std::size_t at = bytes.find('\n'); at != std::string_view::npos;
       at = bytes.find('\n', at + 1))
    ++lines;
  return lines;
}

/// The number of lines before the offset `end`.
long lines_up_to(int file, off_t end) {
  std::vector<char> buffer(1 << 20);
  long lines = 0;
  for (off_t at = 0; at < end;) {
    const std::size_t most = std::min(buffer.size(), static_cast<std::size_t>(end - at));
    const ssize_t count = ::pread(file, buffer.data(), most, at);
    if (count <= 0) break;
    lines += lines_in({buffer.data(), static_cast<std::size_t>(count)});
    at += count;
  }
  return lines;
}

/// Waits a second, and returns whether the file is a named pipe without a writer. Data that arrives
/// meanwhile is appended to `bytes`.
bool has_no_writer(int file, std::string& bytes) {
  std::array<char, 64> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  // Check only named pipes, which have a path. A shell's <(…) is an anonymous pipe. It had a
  // writer, even if that writer has already exited.
  if (::readlink(link.c_str(), target.data(), target.size()) < 1 || target[0] != '/') return false;
  for (int tries = 0; tries < 10; ++tries) {
    char one = 0;
    const ssize_t count = ::read(file, &one, 1);  // EAGAIN: there is a writer, but no data yet
    if (count > 0) bytes += one;
    if (count != 0) return false;
    ::poll(nullptr, 0, 100);
  }
  return true;
}

/// Reads the text and keeps its end. Waits at most 10 s for a pipe such as a shell's <(…), and
/// without a limit for stdin.
Result<EndOfText> text_from(const std::string& path) {
  const bool is_stdin = path == "-";
  Descriptor file(is_stdin ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                           : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0) return unreadable_text(path, error_words(errno));
  if (!is_stdin && !S_ISREG(about.st_mode) && !S_ISFIFO(about.st_mode))
    return unreadable_text(path, std::string(S_ISDIR(about.st_mode) ? tr("it is a folder")
                                                                    : tr("not a regular file")));
  constexpr std::size_t kKept = doctor::kMostErrorText;
  EndOfText text;
  if (S_ISREG(about.st_mode) && about.st_size > static_cast<off_t>(kKept)) {
    const off_t begin = about.st_size - static_cast<off_t>(kKept);
    text.lines_before =
        begin > static_cast<off_t>(kMostCounted) ? -1 : lines_up_to(file.get(), begin);
    ::lseek(file.get(), begin, SEEK_SET);
  }
  std::string& bytes = text.bytes;
  if (S_ISFIFO(about.st_mode) && !is_stdin && has_no_writer(file.get(), bytes))
    return unreadable_text(path, std::string(tr("no process has opened this pipe for writing")));
  std::array<char, 65536> buffer{};
  for (std::size_t total = 0; total < kMostBytes;) {
    pollfd ready{file.get(), POLLIN, 0};
    if (::poll(&ready, 1, is_stdin ? -1 : 10'000) == 0)
      return unreadable_text(path, error_words(ETIMEDOUT));
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count == 0) break;
    if (count < 0 && errno != EINTR && errno != EAGAIN)
      return unreadable_text(path, error_words(errno));
    if (count < 0) continue;
    total += static_cast<std::size_t>(count);
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
    if (bytes.size() <= 2 * kKept) continue;
    const std::size_t over = bytes.size() - kKept;
    text.lines_before += lines_in(std::string_view(bytes).substr(0, over));
    bytes.erase(0, over);
  }
  return text;
}

/// If a broker runs, asks it which devices it gives to no job because of a process that cannot be
/// killed. The broker's files may be in a home folder on a server that does not answer. Reading
/// them would block forever, so check this first.
doctor::Fact<std::vector<model::Holding>> devices_aside(const doctor::Tree& tree) {
  const auto home = env_nonempty("HOME");
  if (const auto folder = tree.node(home.value_or("/")); folder.is_unreadable())
    return folder.why();
  auto ledger = client::ledger_now();
  if (!ledger) return doctor::Unreadable{"berth serve", ETIMEDOUT};
  if (!ledger->kept) return {};
  std::erase_if(ledger->holdings, [](const model::Holding& one) { return one.stuck_pid == 0; });
  return std::move(ledger->holdings);
}

void try_kernels(const Context& context, doctor::Sources& sources) {
  doctor::ProbeOptions options;
  options.on_slow = [&](const std::string& names) {
    if (context.err_terminal.tty && !context.json)
      context.err(text("trying to run a kernel with {}: at most {} s", names, 15) + "\n");
  };
  sources.request.probe = doctor::probe_target(sources, options);
}

/// Rejects options with an empty value, such as "$VENV" if the variable is not set. An empty path
/// would mean the current folder or the root.
Status check_named(const Arguments& given) {
  const auto nothing = [](const std::string& what) {
    return Error{ErrorCode::kInvalidArgument, "E0825",
                 text("{} is empty, perhaps because a variable is not set", what),
                 "berth help doctor"};
  };
  for (const auto& [option, what] :
       {std::pair("--venv", "--venv DIR"), std::pair("--python", "--python PATH"),
        std::pair("--conda", "--conda NAME"), std::pair("--from", "--from FILE"),
        std::pair("--record", "--record FILE"), std::pair("--error", "--error FILE"),
        std::pair("--only", "--only ID"), std::pair("--explain", "--explain ID")})
    if (const auto value = given.value(option); value && value->empty()) return nothing(what);
  for (const std::string& file : given.positional)
    if (file.empty()) return nothing("FILE");
  return Done{};
}

}  // namespace

Status check_doctor_options(const Context& context) {
  const Arguments& given = context.arguments;
  if (const Status named = check_named(given); !named) return named.error();
  const auto no = [](const char* one, std::string_view other) {
    return Error{ErrorCode::kInvalidArgument, "E0821",
                 text("{} cannot be used with {}", one, other), "berth help doctor"};
  };
  if (!given.positional.empty()) {
    for (const char* option : {"--from", "--record", "--pid", "--deep"})
      if (given.has(option))
        return Error{ErrorCode::kInvalidArgument, "E0808",
                     text("{} is for a machine, and cannot be used with a file", option),
                     "berth doctor train.py"};
    if (given.has_separator) return no("FILE", "-- COMMAND");
  }
  // Each of the first four options determines the Python, so only one of them is allowed. --from
  // (a recorded machine) excludes only --pid.
  constexpr std::array<const char*, 5> kTargets{"--python", "--venv", "--conda", "--pid", "--from"};
  for (std::size_t i = 0; i < kTargets.size(); ++i)
    for (std::size_t j = i + 1; j < kTargets.size(); ++j)
      if (given.has(kTargets[i]) && given.has(kTargets[j]) &&
          (j < 4 || std::string_view(kTargets[i]) == "--pid"))
        return no(kTargets[i], kTargets[j]);
  if (given.has("--deep"))
    for (const char* option : {"--static", "--from"})
      if (given.has(option)) return no("--deep", option);
  if (given.has_separator)
    for (const char* option : {"--from", "--pid", "--python", "--venv", "--conda"})
      if (given.has(option)) return no(option, "-- COMMAND");
  return Done{};
}

Result<doctor::Fact<std::vector<doctor::Recognised>>> pasted_error(const Context& context) {
  using Fact = doctor::Fact<std::vector<doctor::Recognised>>;
  const auto path = context.arguments.value("--error");
  if (!path) return Fact();
  const auto end = text_from(*path);
  if (!end) return end.error();
  const bool counted = end->lines_before >= 0;
  auto known =
      doctor::read_error_text(end->bytes, counted ? static_cast<int>(end->lines_before) : 0);
  for (doctor::Recognised& one : known)
    if (!counted) one.line = 0;
  return Fact(std::move(known));
}

Result<DoctorTarget> doctor_target(const Context& context) {
  auto error = pasted_error(context);
  if (!error) return std::move(error).error();
  auto sources = sources_of(context);
  if (!sources) return std::move(sources).error();
  DoctorTarget target{*std::move(sources), {}};
  target.sources.request.error = *std::move(error);
  if (const auto chosen = choose_python(context, target.sources); !chosen) return chosen.error();
  if (context.arguments.has_separator) {
    auto command = follow_command(context, target.sources);
    if (!command) return std::move(command).error();
    target.command = *std::move(command);
  }
  if (!context.arguments.has("--from") && !context.arguments.has("--static"))
    target.sources.request.aside = devices_aside(target.sources.tree);
  if (context.arguments.has("--deep")) try_kernels(context, target.sources);
  return target;
}

Result<std::string> parsing_python(const Context& context) {
  doctor::Sources machine;
  machine.process.environment = doctor::environment_of(environ);
  machine.python = doctor::default_python(machine.tree, machine.process.environment);
  if (const auto chosen = choose_python(context, machine); !chosen) return chosen.error();
  return ::access(machine.python.c_str(), X_OK) == 0 ? machine.python : "python3";
}

}  // namespace berth::cli
