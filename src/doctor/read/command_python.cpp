#include "doctor/read/command_python.hpp"

#include <algorithm>

#include "base/text_parts.hpp"
#include "doctor/facts/python.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/command_words.hpp"

namespace berth::doctor {
namespace {

constexpr std::string_view kLaunchers[] = {"torchrun",
                                           "accelerate",
                                           "deepspeed",
                                           "horovodrun",
                                           "lightning",
                                           "fabric",
                                           "ray",
                                           "streamlit",
                                           "mprof",
                                           "kernprof",
                                           "viztracer",
                                           "py-spy",
                                           "torch.distributed.run",
                                           "torch.distributed.launch",
                                           "accelerate.commands.launch"};

bool is_launcher(std::string_view name) {
  return std::find(std::begin(kLaunchers), std::end(kLaunchers), name) != std::end(kLaunchers);
}

/// Parses short options ("-uE", "-Wignore", "-mtorch.utils"). Returns the number of words that they
/// take; 0 for -c, whose following words belong to the program.
std::size_t take_letters(const std::vector<std::string>& words, std::size_t at, PythonWords& seen) {
  const std::string& word = words[at];
  for (std::size_t i = 1; i < word.size(); ++i) {
    const char letter = word[i];
    if (letter == 'c') return 0;
    if (letter == 'm' || letter == 'W' || letter == 'X') {
      const bool joined = i + 1 < word.size();
      if (letter != 'm') return joined ? 1 : 2;
      if (joined)
        seen.module = word.substr(i + 1);
      else if (at + 1 < words.size())
        seen.module = words[at + 1];
      return joined ? 1 : 2;
    }
    if (letter == 'E' || letter == 'I') seen.ignores_environment = true;
    if (letter == 's' || letter == 'I') seen.no_user_packages = true;
  }
  return 1;
}

bool is_module_in(const Tree& tree, const std::string& folder, const std::string& module) {
  std::string path = folder;
  for (const std::string_view part : split(module, '.')) {
    if (part.empty()) return true;  // an empty part, as in ".module": not a valid name
    path += "/" + std::string(part);
  }
  if (tree.exists(path) || tree.exists(path + ".py") || tree.exists(path + ".pyc")) return true;
  const std::size_t slash = path.rfind('/');
  const std::string name = path.substr(slash + 1) + ".";
  for (const std::string& one : tree.list(path.substr(0, slash)).value_or({}))
    if (one.starts_with(name) && one.ends_with(".so")) return true;
  return false;
}

/// Whether a folder has packages that may import modules from elsewhere: editable installs, eggs
/// and egg links.
bool has_finders(const Tree& tree, const std::string& folder) {
  const auto names = tree.list(folder);
  if (!names) return !names.is_absent();
  return std::any_of(names->begin(), names->end(), [](const std::string& name) {
    return name.starts_with("__editable__") || name.ends_with(".egg-link") ||
           name.ends_with(".egg");
  });
}

}  // namespace

PythonWords parse_python_words(const std::vector<std::string>& words) {
  PythonWords seen;
  std::size_t i = 1;
  while (i < words.size() && seen.module.empty() && words[i].starts_with('-') &&
         words[i].size() > 1) {
    if (words[i].starts_with("--")) {
      i += words[i] == "--check-hash-based-pycs" ? 2 : 1;
      continue;
    }
    const std::size_t taken = take_letters(words, i, seen);
    if (taken == 0) return seen;
    i += taken;
  }
  const bool is_module = !seen.module.empty();
  if (!is_module && (i >= words.size() || words[i] == "-")) return seen;
  const std::string first = is_module ? seen.module : words[i++];
  if (!is_launcher(is_module ? first : base_name(first))) {
    if (!is_module) seen.script = first;
    return seen;
  }
  for (; i < words.size(); ++i)
    if (words[i].ends_with(".py")) {
      seen.script = words[i];
      return seen;
    }
  return seen;
}

bool surely_lacks_module(const Tree& tree, const Environment& environment,
                         const std::string& python, const std::string& folder,
                         const std::string& module) {
  const PythonFacts facts = collect_python(tree, environment, python);
  if (!facts.path.is_whole() || !facts.version) return false;
  const std::string standard = facts.base + "/lib/python" + *facts.version;
  if (!tree.exists(standard + "/os.py")) return false;
  std::vector<std::string> folders{folder, standard, standard + "/lib-dynload"};
  for (const PathEntry& entry : *facts.path) folders.push_back(entry.folder);
  return std::none_of(folders.begin(), folders.end(), [&](const std::string& one) {
    return is_module_in(tree, one, module) || has_finders(tree, one);
  });
}

}  // namespace berth::doctor
