// Shell completion scripts (berth help --completion SHELL), generated from the verb table: verbs,
// options and their values. Once a command for Berth to run has begun, the completion of that
// command takes over.
#include "base/text.hpp"
#include "cli/manual.hpp"
#include "cli/verb.hpp"
#include "sim/machine.hpp"
#include "wire/sim_state.hpp"

namespace berth::cli {
namespace {

std::vector<std::string_view> names_of(const Option& option) {
  std::vector<std::string_view> out;
  std::string_view rest = option.names;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    out.push_back(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return out;
}

/// Puts text in single quotes for bash, zsh or fish. `apostrophe` replaces each single quote in it.
/// The texts contain no backslashes.
std::string quoted(std::string_view text, std::string_view apostrophe) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string(apostrophe) : std::string(1, c);
  return out + "'";
}

/// Words to suggest for an option that has no fixed list of values: names of simulated machines (a
/// file is also allowed), kinds of faults (a device and a time may follow), and devices.
struct Suggestions {
  std::vector<std::string_view> words;
  bool or_file = false;
  bool devices = false;  // suggest the devices of this machine, from `berth help --words devices`
};
Suggestions suggestions(const Option& option) {
  const std::string_view value = option.value == nullptr ? "" : option.value;
  const std::string_view names = option.names;
  Suggestions out{{}, value == "NAME|FILE", names.find("--device") != names.npos};
  if (out.or_file)
    for (const sim::BuiltIn& built_in : sim::built_in_machines())
      out.words.push_back(built_in.name);
#define BERTH_ROW(name, word) out.words.push_back(word);
  if (value.substr(0, 5) == "KIND[") {
    BERTH_SIM_FAULTS(BERTH_ROW)
  }
#undef BERTH_ROW
  return out;
}

template <typename Visit>
void each_option(const Verb& verb, Visit visit) {
  for (const auto& options : {verb.options, common_options()})
    for (const Option& option : options) visit(option);
}

/// Whether the verb's operands are jobs, so that completion suggests jobs.
bool names_jobs(const Verb& verb) {
  return std::string_view(verb.operands).find("JOB") != std::string_view::npos;
}

std::string verb_names() {
  std::string out;
  for (const Verb& verb : verbs())
    if (verb.name[0] != '\0') out += (out.empty() ? "" : " ") + std::string(verb.name);
  return out;
}

std::string joined(const std::vector<std::string_view>& words, char with) {
  std::string out;
  for (const std::string_view word : words) {
    if (!out.empty()) out += with;
    out += word;
  }
  return out;
}

/// The branches of a bash `case` for one verb: its options, which of them take a value, and the
/// possible values.
std::string bash_arm(const Verb& verb) {
  std::string all, with_value, values;
  each_option(verb, [&](const Option& option) {
    const auto names = names_of(option);
    all += joined(names, ' ') + " ";
    if (option.value == nullptr) return;
    with_value += joined(names, ' ') + " ";
    const Suggestions others = suggestions(option);
    std::string words = joined(choices(option), ' ') + joined(others.words, ' ');
    if (others.or_file) words += " $(compgen -G '*.toml')";
    if (others.devices) words += "$(berth help --words devices 2>/dev/null)";
    if (!words.empty())
      values += "        " + joined(names, '|') + ") words=\"" + words + "\" ;;\n";
  });
  std::string out = "    '" + std::string(verb.name) + "')\n      options='" + all +
                    "'\n      valued=' " + with_value +
                    "'\n      command=" + (verb.takes_command ? "1" : "0") +
                    "\n      jobs=" + (names_jobs(verb) ? "1" : "0") +
                    "\n      case $previous in\n" + values + "      esac ;;\n";
  return out;
}

std::string bash() {
  std::string out = R"(# bash completion for berth; made by: berth help --completion bash
_berth() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local verb='' options='' valued=' ' words='' command=0 jobs=0 at=1
  case ${COMP_WORDS[1]} in
    -*) ;;
    *) if ((COMP_CWORD > 1)); then verb=${COMP_WORDS[1]}; at=2; fi ;;
  esac
  case $verb in
)";
  for (const Verb& verb : verbs()) out += bash_arm(verb);
  out += R"(  esac
  local i
  if ((command)); then
    for ((i = at; i < COMP_CWORD; i++)); do
      case ${COMP_WORDS[i]} in
        --) ((i++)) ; break ;;
        -*) [[ $valued == *" ${COMP_WORDS[i]} "* ]] && ((i++)) ;;
        *) break ;;
      esac
    done
    if ((i < COMP_CWORD)) || [[ $i == "$COMP_CWORD" && $previous == -- ]]; then
      if declare -F _command_offset >/dev/null; then _command_offset "$i"; else COMPREPLY=($(compgen -c -f -- "$current")); fi
      return
    fi
  fi
  if [[ -n $words && $current != */* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  elif [[ $valued == *" $previous "* ]]; then
    COMPREPLY=($(compgen -f -- "$current"))
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif [[ -z $verb || $verb == help ]]; then
    COMPREPLY=($(compgen -W ")" +
         verb_names() + R"~(" -- "$current"))
  elif ((jobs)); then
    COMPREPLY=($(compgen -W "$(berth help --words jobs 2>/dev/null)" -- "$current"))
  elif ((command)); then
    COMPREPLY=($(compgen -c -- "$current"))
  fi
}
complete -F _berth berth
)~";
  return out;
}

/// An option in the syntax of zsh's _arguments: "(-d --device)"{-d,--device}"[help]:LIST:(a b)".
std::string zsh_option(const Option& option) {
  const auto names = names_of(option);
  std::string says;
  for (const char c : tr(option.help)) {
    if (c == '[' || c == ']' || c == ':') says += '\\';
    says += c;
  }
  std::string tail = "[" + says + "]";
  if (option.value != nullptr) {
    const auto words = choices(option);
    std::string label;
    for (const char c : std::string_view(option.value)) label += c == ':' ? ' ' : c;
    const Suggestions others = suggestions(option);
    tail += ":" + label + ":" +
            (!words.empty()          ? "(" + joined(words, ' ') + ")"
             : others.devices        ? "{compadd $(berth help --words devices 2>/dev/null)}"
             : others.or_file        ? "{compadd " + joined(others.words, ' ') + "; _files}"
             : !others.words.empty() ? "(" + joined(others.words, ' ') + ")"
                                     : "_files");
  }
  std::string out;
  for (const std::string_view name : names)
    out += "        " + quoted((option.repeatable ? "*" : "") + std::string(name) + tail, "'\\''") +
           " \\\n";
  return out;
}

std::string zsh() {
  std::string out =
      "#compdef berth\n# zsh completion for berth; made by: berth help --completion zsh\n";
  out += "_berth() {\n  local -a verbs\n  verbs=(\n";
  for (const Verb& verb : verbs())
    if (verb.name[0] != '\0')
      out += "    " +
             quoted(std::string(verb.name) + ":" + std::string(tr(verb.summary)), "'\\''") + "\n";
  out +=
      "  )\n  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n    _describe verb verbs\n    "
      "return\n  fi\n";
  out +=
      "  local verb=$words[2]\n  [[ $verb == -* ]] && verb=''\n  [[ -n $verb ]] && shift words && "
      "(( CURRENT-- ))\n";
  out += "  case $verb in\n";
  for (const Verb& verb : verbs()) {
    out += "    " + quoted(verb.name, "'\\''") + ")\n      _arguments -s \\\n";
    each_option(verb, [&](const Option& option) { out += zsh_option(option); });
    const bool topic = std::string_view(verb.name) == "help";
    out += std::string("        ") +
           (verb.takes_command ? "'*::command: _normal'"
            : topic            ? "'*:verb:(" + verb_names() + ")'"
            : names_jobs(verb) ? "'*:job:{compadd $(berth help --words jobs 2>/dev/null)}'"
                               : "'*:operand:_files'") +
           " ;;\n";
  }
  return out + "  esac\n}\n_berth \"$@\"\n";
}

std::string fish_option(const Verb& verb, const Option& option) {
  std::string out = "complete -c berth -n ";
  out += verb.name[0] == '\0' ? "__fish_use_subcommand"
                              : "'__fish_seen_subcommand_from " + std::string(verb.name) + "'";
  for (const std::string_view name : names_of(option))
    out += name.substr(0, 2) == "--" ? " -l " + std::string(name.substr(2))
                                     : " -s " + std::string(name.substr(1));
  if (option.value != nullptr) {
    const auto words = choices(option);
    const Suggestions others = suggestions(option);
    const bool free_words = words.empty() && (others.or_file || others.words.empty());
    out += free_words && !others.devices ? " -r" : " -x";
    if (others.devices) out += " -a '(berth help --words devices 2>/dev/null)'";
    if (const std::string all = joined(words, ' ') + joined(others.words, ' '); !all.empty())
      out += " -a '" + all + "'";
  }
  return out + " -d " + quoted(tr(option.help), "\\'") + "\n";
}

std::string fish() {
  std::string out = "# fish completion for berth; made by: berth help --completion fish\n";
  for (const Verb& verb : verbs()) {
    if (verb.name[0] != '\0')
      out += "complete -c berth -f -n __fish_use_subcommand -a " + std::string(verb.name) + " -d " +
             quoted(tr(verb.summary), "\\'") + "\n";
    each_option(verb, [&](const Option& option) { out += fish_option(verb, option); });
    if (names_jobs(verb))
      out += "complete -c berth -f -n '__fish_seen_subcommand_from " + std::string(verb.name) +
             "' -a '(berth help --words jobs 2>/dev/null)'\n";
    if (verb.takes_command)
      out += "complete -c berth -n '__fish_seen_subcommand_from " + std::string(verb.name) +
             "' -a '(__fish_complete_subcommand --fcs-skip=2)'\n";
  }
  return out + "complete -c berth -n '__fish_seen_subcommand_from help' -f -a '" + verb_names() +
         "'\n";
}

}  // namespace

std::string completion(std::string_view shell) {
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  return bash();
}

}  // namespace berth::cli
