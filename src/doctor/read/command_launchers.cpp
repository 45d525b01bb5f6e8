#include "doctor/read/command_launchers.hpp"

#include "base/text_parts.hpp"
#include "doctor/read/command_words.hpp"

namespace berth::doctor {
namespace {

using Words = std::vector<std::string>;

void assign(const std::string& word, LauncherVariables& out) {
  if (const std::string name(assigned_name(word)); !name.empty())
    out.set.emplace_back(name, word.substr(name.size() + 1));
}

/// Parses "ALL,A=1,B". A name without a value stands for a variable that keeps its value.
void read_export(std::string_view list, LauncherVariables& out) {
  out.drops_others = true;
  for (const std::string_view one : split(list, ',')) {
    if (one == "ALL") out.drops_others = false;
    assign(std::string(one), out);
  }
}

/// The value of `option` if the word at `at` is this option: from "--NAME=value" or from the next
/// word. Otherwise nullopt.
std::optional<std::string> value_of(const Words& words, std::size_t& at, std::string_view option) {
  const std::string& word = words[at];
  if (word == option && at + 1 < words.size()) return words[++at];
  if (option.starts_with("--") && word.size() > option.size() && word.starts_with(option) &&
      word[option.size()] == '=')
    return word.substr(option.size() + 1);
  return std::nullopt;
}

void read_option(const Words& words, std::string_view launcher, std::size_t& at,
                 LauncherVariables& out) {
  if (launcher == "srun") {
    if (const auto list = value_of(words, at, "--export")) read_export(*list, out);
  } else if (launcher == "systemd-run") {
    for (const char* option : {"-E", "--setenv"})
      if (const auto one = value_of(words, at, option)) return assign(*one, out);
  } else if (launcher == "strace") {
    const auto one = value_of(words, at, "-E");
    if (one && one->find('=') == std::string::npos)
      out.set.emplace_back(*one, std::nullopt);
    else if (one)
      assign(*one, out);
  } else if (launcher == "sudo") {
    assign(words[at], out);
  } else if (launcher == "mpirun" || launcher == "mpiexec") {
    if (is_in(words[at], {"-env", "--env", "-genv", "--genv"}) && at + 1 < words.size()) {
      // Intel's mpiexec takes a variable as one word "A=1", MPICH's as two words "A 1".
      if (const std::string& next = words[++at]; !assigned_name(next).empty())
        assign(next, out);
      else if (at + 1 < words.size())
        out.set.emplace_back(next, words[++at]);
    } else if (const auto one = value_of(words, at, "-x")) {
      assign(*one, out);
    }
  }
}

}  // namespace

LauncherVariables launcher_variables(const Words& words) {
  LauncherVariables out;
  if (words.empty()) return out;
  const std::string launcher = base_name(words.front());
  for (std::size_t at = 1; at < words.size(); ++at) read_option(words, launcher, at, out);
  return out;
}

UvRun parse_uv_run(const Words& words) {
  constexpr std::string_view kValues =
      " --with --with-requirements --with-editable --extra --group --only-group --env-file --index "
      "--index-url --default-index --extra-index-url --find-links -f --package --no-group ";
  UvRun run;
  std::size_t at = 2;
  for (; at < words.size() && words[at].starts_with('-') && words[at] != "--"; ++at) {
    const std::string& word = words[at];
    run.is_module = word == "-m" || word == "--module";
    if (run.is_module) break;
    if (word.starts_with("--with")) run.adds = true;
    if (word == "--no-project") run.no_project = true;
    if (word == "--isolated") run.isolated = true;
    if (const auto project = value_of(words, at, "--project")) {
      run.project = *project;
    } else if (const auto folder = value_of(words, at, "--directory")) {
      run.project = run.directory = *folder;
    } else if (const auto python = value_of(words, at, "--python")) {
      run.python = *python;
    } else if (const auto short_python = value_of(words, at, "-p")) {
      run.python = *short_python;
    } else if (kValues.find(" " + word + " ") != std::string_view::npos) {
      ++at;
    }
  }
  run.command = at < words.size() && words[at] == "--" ? at + 1 : at;
  return run;
}

ShellWords parse_shell_words(const Words& words) {
  ShellWords seen;
  std::size_t& i = seen.script;
  for (; i < words.size() && words[i].size() > 1 && (words[i][0] == '-' || words[i][0] == '+');
       ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (word.starts_with("--")) {
      if (word == "--rcfile" || word == "--init-file") ++i;
      continue;
    }
    if (word.find('c') != std::string::npos) seen.is_text = true;
    // o and O take the next word as their value: "-euo pipefail"
    if (word.find_first_of("oO") != std::string::npos) ++i;
  }
  return seen;
}

bool has_script_metadata(std::string_view script) {
  for (const std::string_view line : split(script, '\n'))
    if (trim(line) == "# /// script") return true;
  return false;
}

}  // namespace berth::doctor
