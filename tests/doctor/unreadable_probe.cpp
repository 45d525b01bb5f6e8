// unreadable_probe FOLDER OWN STRIDE: diagnoses each .machine file in the folder, then again with
// one thing unreadable (EACCES): every OWN-th path that the diagnosis read and found, and every
// STRIDE-th that it found only on another machine. Prints each error on a line: a finding that
// disappeared although its rule is not "not checked" ("silent"), or a new error finding ("new").
// The last line has the totals.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/text_parts.hpp"
#include "doctor/read/collect.hpp"
#include "doctor/rules/diagnose.hpp"

namespace {

using namespace berth;

/// Made unreadable: parts of the recording, or paths in its tree.
struct Change {
  std::string name;
  std::vector<std::string> paths;
};

constexpr doctor::Special kRefused{std::nullopt, EACCES};

void refuse(doctor::Sources& sources, const Change& change) {
  const doctor::Unreadable why{change.name, EACCES};
  if (change.name == "kernel.log") sources.kernel_log = why;
  if (change.name == "environment") sources.process.environment = why;
  for (const std::string& path : change.paths) sources.tree.add_special(path, kRefused);
}

/// Each path alone; each folder also with everything read below it.
std::vector<Change> changes_of(const doctor::Recording& seen) {
  std::set<std::string> paths;
  for (const auto& [path, file] : seen.files) paths.insert(path);
  for (const auto& [path, names] : seen.folders) paths.insert(path);
  for (const auto& [path, target] : seen.links) paths.insert(path);
  for (const auto& [path, special] : seen.specials)
    paths.erase(path);  // a device's errno is a value
  std::vector<Change> changes{{"kernel.log", {}}, {"environment", {}}};
  for (const std::string& path : paths) {
    changes.push_back({path, {path}});
    const std::string below = path + "/";
    Change all{below, {path}};
    for (auto one = paths.lower_bound(below); one != paths.end() && one->starts_with(below); ++one)
      all.paths.push_back(*one);
    if (all.paths.size() > 1) changes.push_back(std::move(all));
  }
  return changes;
}

bool has(const std::vector<model::Finding>& findings, const std::string& id,
         model::Severity at_least) {
  for (const model::Finding& one : findings)
    if (one.id == id && one.severity >= at_least) return true;
  return false;
}

bool is_admitted(const model::Diagnosis& diagnosis, const std::string& id) {
  for (const model::NotChecked& one : diagnosis.not_checked)
    if (one.id == id) return true;
  return false;
}

/// Whether an earlier finding that is now "not checked" explains this one. Then it is right to show
/// this one alone.
bool is_consequence(const std::string& id, const model::Diagnosis& before,
                    const model::Diagnosis& after) {
  for (const doctor::Rule& rule : doctor::all_rules()) {
    if (!has(before.findings, rule.id, model::Severity::kInfo) || !is_admitted(after, rule.id))
      continue;
    for (const std::string_view pattern : split(std::string_view(rule.explains), ' '))
      if (pattern == id ||
          (pattern.ends_with('*') && id.starts_with(pattern.substr(0, pattern.size() - 1))))
        return true;
  }
  return false;
}

int compare(const std::string& machine, const Change& change, const model::Diagnosis& before,
            const model::Diagnosis& after) {
  int wrong = 0;
  const auto tell = [&](const char* kind, const std::string& id) {
    std::printf("%s: %s: %s %s\n", machine.c_str(), change.name.c_str(), kind, id.c_str());
    ++wrong;
  };
  for (const model::Finding& one : before.findings)
    if (!has(after.findings, one.id, model::Severity::kInfo) && !is_admitted(after, one.id))
      tell("silent", one.id);
  for (const model::Finding& one : after.findings)
    if (one.severity >= model::Severity::kError &&
        !has(before.findings, one.id, model::Severity::kError) && one.explained_by.empty() &&
        !is_consequence(one.id, before, after))
      tell("new", one.id);
  return wrong;
}

bool has_seen(const doctor::Recording& seen, const std::string& path) {
  return seen.files.contains(path) || seen.folders.contains(path) || seen.links.contains(path) ||
         seen.specials.contains(path);
}

struct Machine {
  std::string file, name;
  doctor::Recording seen;
  model::Diagnosis before;
};

Machine look_at(const std::string& file) {
  Machine machine{file, file.substr(file.rfind('/') + 1), {}, {}};
  auto sources = doctor::from_bundle(file);
  if (!sources) std::exit(2);
  const auto seen = std::make_shared<doctor::Recording>();
  sources->tree.record_into(seen);
  machine.before = doctor::diagnose(doctor::collect(*sources), {});
  machine.seen = *seen;
  return machine;
}

int wrong_with(const Machine& machine, const Change& change) {
  auto changed = doctor::from_bundle(machine.file);
  if (!changed) std::exit(2);
  refuse(*changed, change);
  return compare(machine.name, change, machine.before,
                 doctor::diagnose(doctor::collect(*changed), {}));
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) return 2;
  const std::size_t own = std::strtoul(words[2], nullptr, 10);
  const std::size_t stride = std::strtoul(words[3], nullptr, 10);
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(words[1]))
    if (entry.path().extension() == ".machine") files.insert(entry.path().string());
  std::vector<Machine> machines;
  std::map<std::string, Change> everywhere;
  std::size_t number = 0;
  int there = 0, elsewhere = 0, wrong = 0;
  for (const std::string& file : files) {
    machines.push_back(look_at(file));
    for (Change& change : changes_of(machines.back().seen)) {
      if (number++ % own == 0) {
        wrong += wrong_with(machines.back(), change);
        ++there;
      }
      if (change.paths.size() == 1) everywhere.emplace(change.name, std::move(change));
    }
  }
  number = 0;
  for (const Machine& machine : machines) {
    for (const auto& [name, change] : everywhere) {
      if (has_seen(machine.seen, name) || number++ % stride != 0) continue;
      wrong += wrong_with(machine, change);
      ++elsewhere;
    }
  }
  std::printf("%zu machines: %d things that are there made unreadable, %d that are not: %d wrong\n",
              machines.size(), there, elsewhere, wrong);
  return wrong == 0 && there > 0 ? 0 : 1;
}
