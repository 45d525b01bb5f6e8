#include "doctor/read/command.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/facts/python.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/command_environments.hpp"
#include "doctor/read/command_launchers.hpp"
#include "doctor/read/command_python.hpp"
#include "doctor/read/command_words.hpp"
#include "doctor/read/command_wrappers.hpp"
#include "doctor/read/pyenv.hpp"
#include "doctor/source/shell.hpp"

namespace berth::doctor {
namespace {

using Words = std::vector<std::string>;
constexpr int kDeepest = 24;
constexpr std::size_t kMostScript = 1 << 20;
constexpr std::size_t kMostCommands = 400;

constexpr std::string_view kShells[] = {"sh", "bash", "dash", "zsh", "ksh"};
class Resolver {
 public:
  Resolver(const Tree& tree, Environment environment, std::string folder, int depth = 0)
      : tree_(tree), folder_(std::move(folder)), depth_(depth) {
    target_.environment = std::move(environment);
  }

  Result<CommandTarget> resolve(Words words) {
    while (depth_++ < kDeepest) {
      take_assignments(words);
      if (words.empty() || words.front().empty())
        return Error{ErrorCode::kInvalidArgument, "E0516", text("there is no command to run"),
                     "berth doctor -- python train.py"};
      auto next = step(words);
      if (!next) return std::move(next).error();
      if (next->empty()) return std::move(target_);
      words = std::move(*next);
    }
    note(text("too many nested wrappers to follow: {}", printable(words.front())));
    return std::move(target_);
  }

 private:
  void note(std::string sentence) {
    if (target_.notes.size() < 20) target_.notes.push_back(std::move(sentence));
  }

  [[nodiscard]] std::string variable(std::string_view name) const {
    const auto found = target_.environment.find(name);
    return found == target_.environment.end() ? "" : found->second;
  }

  void take_assignments(Words& words) {
    std::size_t i = 0;
    for (; i < words.size() && !assigned_name(words[i]).empty(); ++i) assign(words[i]);
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void assign(const std::string& word) {
    if (const std::string name(assigned_name(word)); !name.empty())
      target_.environment.insert_or_assign(name, word.substr(name.size() + 1));
  }

  [[nodiscard]] std::string absolute(const std::string& path) const {
    if (path.starts_with("./")) return folder_ + path.substr(1);
    return path.starts_with('/') ? path : folder_ + "/" + path;
  }
  [[nodiscard]] bool is_file(const std::string& path) const {
    const auto node = tree_.node(path);
    return node && node->type == NodeType::kFile;
  }

  [[nodiscard]] bool is_program(const std::string& path) const {
    const auto node = tree_.node(path);
    return node && node->type == NodeType::kFile && (node->mode & 0111) != 0;
  }

  /// The path of a command, searched for as a shell does; empty if not found.
  [[nodiscard]] std::string find(const std::string& word) const {
    if (word.find('/') != std::string::npos)
      return is_program(absolute(word)) ? absolute(word) : "";
    std::string path = variable("PATH");
    if (path.empty()) path = "/usr/local/bin:/usr/bin:/bin";
    for (const std::string_view folder : split(path, ':')) {
      std::string file = absolute(std::string(folder)) + "/" + word;
      if (is_program(file)) return file;
    }
    return "";
  }

  [[nodiscard]] Error not_found(const std::string& word) const {
    const auto node = tree_.node(absolute(word));
    const bool is_folder = node && node->type == NodeType::kFolder && word.find('/') != word.npos;
    return no_command(word, is_file(absolute(word)), is_folder);
  }

  /// The command that `words` would start. Empty if the first of `words` is the final program.
  Result<Words> step(const Words& words) {
    const std::string name = base_name(words.front());
    // These words need no file in PATH: in a shell, conda can be a function, and the others are
    // built in.
    const bool is_conda = is_in(name, {"conda", "mamba", "micromamba"});
    const bool is_word = is_in(name, {"exec", "command", "time"});
    const std::string path = find(words.front());
    if (path.empty() && !is_conda && !is_word) return not_found(words.front());
    const auto says = [&](const char* second) { return words.size() > 1 && words[1] == second; };
    if (name == "env") return behind_env(words);
    if (name == "berth" && says("run")) return first_command(words, 2, kOfBerthRun);
    if (is_conda && says("run")) return behind_conda(words);
    if (name == "uv" && says("run")) return behind_uv(words);
    if (is_in(name, {"poetry", "pdm", "pipenv", "rye", "pixi", "hatch"}) && says("run"))
      return behind_project(name, words);
    if (is_in(name, kShells)) return behind_shell(path, words);
    for (const Wrapper& one : kWrappers)
      if (one.name == name) return behind(one, words);
    if (is_in(name, kElsewhere))
      note(text(
          "{} may start the program on a system with other files and GPUs: run berth doctor there",
          name));
    return behind_file(path, words);
  }

  Result<Words> behind(const Wrapper& wrapper, const Words& words) {
    if (wrapper.name == "sudo" || wrapper.name == "systemd-run")
      note(text("{} changes the user and variables; this is not taken into account", wrapper.name));
    if (wrapper.loose) {
      // Not all options of this wrapper are known. An unknown option may change the working
      // directory.
      is_sure_ = false;
      auto next = first_command(words, 1, wrapper.with_value);
      if (next && !next->front().empty()) take_variables(words, *next);
      return next;
    }
    std::size_t i = 1;
    for (; i < words.size() && words[i].starts_with('-') && words[i].size() > 1; ++i) {
      if (words[i] == "--") {
        ++i;
        break;
      }
      if (wrapper.with_value.find(" " + words[i] + " ") != std::string_view::npos) ++i;
    }
    i += static_cast<std::size_t>(wrapper.operands);
    return rest(words, i);
  }

  /// Applies the variables that the launcher's options set or unset.
  void take_variables(const Words& words, Words& next) {
    const auto end = words.end() - static_cast<std::ptrdiff_t>(next.size());
    LauncherVariables variables = launcher_variables({words.begin(), end});
    if (const std::string program = find(next.front());
        variables.drops_others && !program.empty()) {
      next.front() = program;  // the path of the program, because the options remove PATH below
      std::erase_if(target_.environment,
                    [](const auto& one) { return !one.first.starts_with("SLURM_"); });
    }
    for (auto& [name, value] : variables.set)
      if (value)
        target_.environment.insert_or_assign(name, *std::move(value));
      else
        target_.environment.erase(name);
  }

  static Words rest(const Words& words, std::size_t from) {
    if (from >= words.size()) return {""};  // "" makes resolve() report that no command follows
    return {words.begin() + static_cast<std::ptrdiff_t>(from), words.end()};
  }

  /// The command that begins at the first word that is a program. Used for wrappers that have too
  /// many options to list.
  Result<Words> first_command(const Words& words, std::size_t from, std::string_view with_value) {
    for (std::size_t i = from; i < words.size(); ++i) {
      if (words[i] == "--") return rest(words, i + 1);
      if (words[i].starts_with('-') &&
          with_value.find(" " + words[i] + " ") != std::string_view::npos)
        ++i;
      else if (!words[i].starts_with('-') && !find(words[i]).empty())
        return rest(words, i);
    }
    return from < words.size() ? not_found(words.back()) : Result<Words>(Words{""});
  }

  Result<Words> behind_env(const Words& words) {
    std::size_t i = 1;
    for (; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word == "-i" || word == "-" || word == "--ignore-environment") {
        target_.environment.clear();
      } else if ((word == "-u" || word == "--unset") && i + 1 < words.size()) {
        target_.environment.erase(words[++i]);
      } else if (word.starts_with("--unset=")) {
        target_.environment.erase(word.substr(8));
      } else if ((word == "-C" || word == "--chdir") && i + 1 < words.size()) {
        folder_ = absolute(words[++i]);
      } else if (word.starts_with("-S") || word == "--split-string") {
        // In a "#!" line, env receives the rest of the line as one argument; -S splits it into
        // words.
        std::string line = word.starts_with("-S") ? word.substr(2) : "";
        if (trim(line).empty() && i + 1 < words.size()) line = words[++i];
        const auto commands = source::shell_commands(line);
        Words all = commands.empty() ? Words{} : commands.front().words;
        all.insert(all.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
        all.insert(all.begin(), words.front());
        return all;
      } else if (!assigned_name(word).empty()) {
        assign(word);
      } else if (word == "--") {
        ++i;
        break;
      } else if (!word.starts_with('-')) {
        break;
      }
    }
    return rest(words, i);
  }

  void activate(const std::string& prefix, bool is_conda) {
    Environment& variables = target_.environment;
    variables.insert_or_assign(is_conda ? "CONDA_PREFIX" : "VIRTUAL_ENV", prefix);
    if (!is_conda) variables.erase("PYTHONHOME");
    const std::string path = variable("PATH");
    variables.insert_or_assign(
        "PATH", prefix + "/bin:" + (path.empty() ? "/usr/local/bin:/usr/bin:/bin" : path));
  }

  Result<Words> behind_conda(const Words& words) {
    std::string name;
    std::size_t i = 2;
    for (; i < words.size() && words[i].starts_with('-'); ++i) {
      const std::string& word = words[i];
      if (is_in(word, {"-n", "--name", "-p", "--prefix"}) && i + 1 < words.size())
        name = words[++i];
      else if (word.starts_with("--name=") || word.starts_with("--prefix="))
        name = word.substr(word.find('=') + 1);
      else if (word == "--cwd" && i + 1 < words.size())
        folder_ = absolute(words[++i]);
    }
    if (const Status done = activate_conda(name); !done) return done.error();
    return rest(words, i);
  }

  Status activate_conda(const std::string& name) {
    if (name.empty()) return Done{};
    const std::string python = conda_python(tree_, target_.environment, name);
    if (python.empty())
      return Error{ErrorCode::kInvalidArgument, "E0809",
                   text("there is no conda environment {}", printable(name)), "conda env list"};
    activate(python.substr(0, python.rfind("/bin/")), true);
    return Done{};
  }

  Result<Words> behind_uv(const Words& words) {
    const UvRun run = parse_uv_run(words);
    const std::string project = run.project.empty() ? folder_ : absolute(run.project);
    if (!run.directory.empty()) folder_ = project;
    if (run.adds) note(text("{}: the packages it adds are not checked", "uv run --with"));
    if (!run.python.empty()) note_other_environment("uv run --python " + run.python);
    if (run.isolated) note_other_environment("uv run --isolated");
    Words next = rest(words, run.command);
    const bool is_script = next.front().ends_with(".py");
    if (is_script &&
        has_script_metadata(tree_.read(absolute(next.front()), kMostScript).value_or("")))
      note_other_environment("uv run " + next.front() + " (PEP 723)");
    use(project_environment(tree_, target_.environment, project,
                            run.no_project ? "uv --no-project" : "uv"),
        "uv");
    if (run.is_module || is_script || next.front() == "-") next.insert(next.begin(), "python");
    return next;
  }
  void note_other_environment(const std::string& how) {
    note(text("{} may use a different environment from the one that was checked", printable(how)));
  }

  void use(const ProjectEnvironment& found, std::string_view tool) {
    if (!found.prefix.empty())
      activate(found.prefix, found.is_conda);
    else
      note(text(
          "{} has no environment for this folder yet, or keeps it where the doctor does not search",
          tool));
  }

  Result<Words> behind_project(const std::string& tool, const Words& words) {
    std::size_t i = 2;
    while (i < words.size() && words[i].starts_with('-') && words[i] != "--") ++i;
    if (i < words.size() && words[i] == "--") ++i;
    use(project_environment(tree_, target_.environment, folder_, tool), tool);
    return rest(words, i);
  }

  /// If the file is a script, returns the command that its first line starts. Other files are the
  /// final program.
  Result<Words> behind_file(const std::string& shim, const Words& words) {
    Environment here = target_.environment;
    here.insert_or_assign("PWD", folder_);
    const std::string path = behind_shim(tree_, here, shim);
    if (path.empty()) return no_version(shim, version_behind_shim(tree_, shim));
    if (base_name(path).starts_with("python") || base_name(path).starts_with("pypy")) {
      target_.program = target_.python = path;
      if (const Status read = read_python_words(words); !read) return read.error();
      return Words{};
    }
    const std::string head = tree_.read(path, 256).value_or("");
    if (!head.starts_with("#!")) {
      target_.program = path;
      return Words{};
    }
    const std::string_view line = trim(std::string_view(head).substr(2, head.find('\n') - 2));
    const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
    Words next{std::string(line.substr(0, end))};
    if (const std::string_view more = trim(line.substr(end)); !more.empty())
      next.emplace_back(more);
    next.push_back(path);
    next.insert(next.end(), words.begin() + 1, words.end());
    return next;
  }

  void add_file(const std::string& path) {
    if (is_file(path) && target_.files.size() < 16 &&
        std::find(target_.files.begin(), target_.files.end(), path) == target_.files.end())
      target_.files.push_back(path);
  }

  /// Finds the script in Python's arguments. If Python runs a launcher such as torchrun, the script
  /// is among the launcher's arguments.
  Status read_python_words(const Words& words) {
    const PythonWords seen = parse_python_words(words);
    // -E ignores variables, -s ignores the packages in the user's home folder, -I ignores both.
    if (seen.ignores_environment)
      std::erase_if(target_.environment,
                    [](const auto& one) { return one.first.starts_with("PYTHON"); });
    if (seen.no_user_packages) target_.environment.insert_or_assign("PYTHONNOUSERSITE", "1");
    if (!seen.module.empty() &&
        surely_lacks_module(tree_, target_.environment, target_.python, folder_, seen.module))
      if (Status sure = missing_module(seen.module); !sure) return sure;
    return seen.script.empty() ? Status(Done{}) : add_script(seen.script);
  }

  /// Adds a script. A folder with __main__.py is also a script.
  Status add_script(const std::string& script) {
    const std::string path = absolute(script);
    if (is_file(path)) {
      if (script.ends_with(".py") || path.find("/bin/") == std::string::npos) add_file(path);
      return Done{};
    }
    const auto node = tree_.node(path);
    const bool is_folder = node && node->type == NodeType::kFolder;
    if (!node.is_absent() && !(is_folder && tree_.node(path + "/__main__.py").is_absent()))
      return Done{};
    return unsure({ErrorCode::kInvalidArgument, "E0822",
                   text("there is no file {} for {}",
                        printable(script) + (is_folder ? "/__main__.py" : ""), target_.python),
                   "ls " + shell_word(printable(folder_))});
  }

  Status missing_module(const std::string& module) {
    const std::string package = module.substr(0, module.find('.'));
    return unsure(
        {ErrorCode::kInvalidArgument, "E0822",
         text("{} has no module {}", target_.python, printable(module)),
         shell_word(target_.python) + " -m pip install " + shell_word(printable(package))});
  }

  /// Returns `error`, unless a skipped option may have changed the folder or the variables. In that
  /// case, only adds a note with its message.
  Status unsure(Error error) {
    if (is_sure_) return error;
    note(error.message);
    return Done{};
  }

  Result<Words> behind_shell(const std::string& path, const Words& words) {
    target_.program = path;
    const auto [is_text, i] = parse_shell_words(words);
    if (i >= words.size()) return Words{};
    std::string script = is_text ? words[i] : "";
    if (!is_text) {
      const std::string file = absolute(words[i]);
      if (!is_file(file)) return not_found(words[i]);
      add_file(file);
      script = tree_.read(file, kMostScript).value_or("");
    }
    run_script(script, rest(words, i), is_text ? "-c" : words[i]);
    return Words{};
  }

  /// Marks the variable as known only at run time.
  void forget(const std::string& name) {
    unknown_.insert(name);
    target_.environment.erase(name);
  }

  Words expanded(const Words& words, const Words& given) {
    const auto known = [this](std::string_view name) { return variable(name); };
    Words out;
    for (const std::string& word : words) {
      if (word == "$@" || word == "$*") {
        out.insert(out.end(), given.begin() + 1, given.end());
      } else if (auto value =
                     names_any(word, unknown_) ? std::nullopt : expanded_word(word, given, known)) {
        if (!value->empty() || word.find('$') == std::string::npos)
          out.push_back(*std::move(value));
      } else if (const std::string name(assigned_name(word)); name.empty()) {
        out.push_back(word);
      } else {
        forget(name);
      }
    }
    return out;
  }

  /// Finds the script's first command that starts a Python. Conditions are not evaluated: the code
  /// inside conditions and loops counts as executed once.
  void run_script(std::string_view script, const Words& given, const std::string& shown) {
    std::size_t count = 0;
    for (const source::Command& command : source::shell_commands(script)) {
      if (++count > kMostCommands) break;
      Words words = expanded(command.words, given);
      while (!words.empty() &&
             is_in(words.front(), {"if", "then", "else", "do", "while", "until", "!", "{", "time"}))
        words.erase(words.begin());
      if (words.empty() || changes_shell(words)) continue;
      Resolver below(tree_, target_.environment, folder_, depth_ + 4);
      below.is_sure_ = false;
      auto found = below.resolve(words);
      if (!found || found->python.empty()) continue;
      found->files.insert(found->files.begin(), target_.files.begin(), target_.files.end());
      found->notes.insert(found->notes.begin(), target_.notes.begin(), target_.notes.end());
      target_ = std::move(*found);
      return;
    }
    note(text("found no command in {} that starts Python", printable(shown)));
  }

  void assign_all_in(const Words& words) {
    for (const std::string& word : words) assign(word);
  }

  bool changes_variables(const Words& words) {
    const std::string& first = words.front();
    if (std::all_of(words.begin(), words.end(),
                    [](const std::string& word) { return !assigned_name(word).empty(); })) {
      assign_all_in(words);
      return true;
    }
    if (is_in(first, {"export", "declare", "typeset", "local"})) {
      assign_all_in(words);
    } else if (first == "read") {
      for (std::size_t i = 1; i < words.size(); ++i)
        if (!words[i].starts_with('-')) forget(words[i]);
    } else if (first == "for" && words.size() > 1) {
      // A loop counts as executed once, with its first value. If that value contains "$(…)" or "*",
      // it is unknown.
      if (words.size() > 3 && words[3].find_first_of("$*?[") == std::string::npos)
        assign(words[1] + "=" + words[3]);
      else
        forget(words[1]);
    } else if (first == "unset") {
      for (std::size_t i = 1; i < words.size(); ++i) target_.environment.erase(words[i]);
    } else {
      return false;
    }
    return true;
  }

  /// Applies a shell's built-in command to variables, folders and environments. Returns false for
  /// other commands.
  bool changes_shell(const Words& words) {
    if (changes_variables(words)) return true;
    const std::string& first = words.front();
    const std::string second = words.size() > 1 ? words[1] : "";
    if (first == "cd") {
      if (!second.empty()) folder_ = absolute(second);
    } else if (first == "source" || first == ".") {
      const std::string file = absolute(second);
      if (file.ends_with("/bin/activate")) activate(file.substr(0, file.size() - 13), false);
    } else if (is_in(first, {"conda", "mamba", "micromamba"}) && second == "activate") {
      if (words.size() > 2 && !activate_conda(words[2]))
        note(text("there is no Python at {}", printable(words[2])));
    } else if (first == "module" || first == "ml" || first == "spack") {
      note(text("{}: the variables it sets are unknown", printable(first + " " + second)));
    } else {
      return is_in(first, {"set", "echo", "printf", "trap", "shift", "fi", "done", "esac", "}",
                           "return", "exit", "wait", "eval", "[", "[[", "test", "true", ":"});
    }
    return true;
  }

  const Tree& tree_;
  std::string folder_;
  int depth_;
  bool is_sure_ = true;
  std::set<std::string> unknown_;  // variables whose values are only known at run time
  CommandTarget target_;
};

}  // namespace

Result<CommandTarget> resolve_command(const Tree& tree, const Environment& environment,
                                      const std::string& folder,
                                      const std::vector<std::string>& words) {
  return Resolver(tree, environment, folder).resolve(words);
}

}  // namespace berth::doctor
