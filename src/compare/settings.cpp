#include "compare/settings.hpp"

#include <algorithm>

namespace berth::compare {

using model::RunSetting;

std::vector<int> thread_counts(int most) {
  std::vector<int> counts;
  for (const int part : {4, 2, 1})
    if (const int count = most / part; count > 0 && (counts.empty() || counts.back() != count))
      counts.push_back(count);
  return counts;
}

std::vector<RunSetting> settings_of(const Wish& wish, const Machine& machine) {
  std::vector<RunSetting> settings;
  const auto add = [&settings](int gpus, std::optional<int> threads) {
    settings.push_back({gpus, threads, "", {}, ""});
  };
  if (wish.cpu) add(0, std::nullopt);
  for (const int count : wish.threads) add(0, count);
  for (const int count : wish.gpus)
    if (machine.has_gpu) add(count, std::nullopt);
  if (wish.names_no_device() && machine.has_gpu) {
    if (wish.changes.empty()) add(0, std::nullopt);
    add(1, std::nullopt);
  }
  const bool lacks_gpu = wish.wants_gpu() && !machine.has_gpu;
  if (lacks_gpu && wish.changes.empty() && settings.size() < 2) {
    settings.clear();
    for (const int count : thread_counts(machine.threads)) add(0, count);
  }
  if (settings.empty()) add(0, std::nullopt);
  // The changes are applied to the last setting, which uses a GPU if any setting does.
  const RunSetting base = settings.back();
  for (const Change& change : wish.changes)
    settings.push_back(
        {base.gpus, base.threads, change.preset, change.variables, change.statement});
  return settings;
}

}  // namespace berth::compare
