#include "doctor/knowledge/systems.hpp"

#include <algorithm>

#include "doctor/knowledge/version.hpp"

namespace berth::doctor {

const SystemTask* SystemCommands::task(std::string_view name) const {
  const auto found = std::find_if(tasks.begin(), tasks.end(),
                                  [&](const SystemTask& one) { return one.name == name; });
  return found == tasks.end() ? nullptr : &*found;
}

const SystemCommands* commands_of(const std::vector<SystemCommands>& rows,
                                  const OsRelease& system) {
  std::vector<std::string> names{system.id};
  names.insert(names.end(), system.like.begin(), system.like.end());
  for (const std::string& name : names)
    for (const SystemCommands& row : rows) {
      if (row.image && !system.is_image) continue;
      // A row with a release number is only for its own system: derived distributions have other
      // numbers.
      if (!row.from.empty() && (name != system.id || is_older(system.version, row.from))) continue;
      if (std::find(row.ids.begin(), row.ids.end(), name) != row.ids.end()) return &row;
    }
  return nullptr;
}

}  // namespace berth::doctor
