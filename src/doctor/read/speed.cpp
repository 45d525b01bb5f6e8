// Finds devices that are slower than before, or than others of their name, in results that `berth
// bench --keep` has stored. Measures nothing.
#include <set>

#include "bench/results.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/place.hpp"
#include "system/runtime_folder.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kMostResults = 16 << 20;

/// The state folders of this user and of the broker for all users (system/runtime_folder.hpp).
std::set<std::string> state_folders(const Fact<Environment>& environment,
                                    const Fact<std::string>& host_name) {
  std::set<std::string> folders{system::kSystemState};
  const std::string own = variable(environment, "BERTH_STATE_DIR"),
                    home = variable(environment, "HOME");
  std::string base = variable(environment, "XDG_STATE_HOME");
  if (!base.starts_with('/')) base = home.starts_with('/') ? home + "/.local/state" : "";
  if (own.starts_with('/'))
    folders.insert(own);
  else if (!base.empty() && host_name)
    folders.insert(base + "/berth/" + *host_name);
  return folders;
}

Fact<bench::EarlierResults> results_in(const Tree& tree, const std::string& file) {
  const auto document = tree.read(file, kMostResults);
  Fact<bench::EarlierResults> out;
  if (document)
    if (auto results = bench::parse_results(*document, file)) out = *std::move(results);
  out.doubt(document);
  return out;
}

}  // namespace

Fact<std::vector<SlowDevice>> collect_slow_devices(const Tree& tree,
                                                   const Fact<Environment>& environment,
                                                   const Fact<std::string>& host_name) {
  Fact<std::vector<SlowDevice>> out;
  // The folder with this user's results depends on the environment and the host name. If one of
  // them is unreadable, this folder is unknown.
  out.doubt(environment);
  out.doubt(host_name);
  std::vector<SlowDevice> slow;
  for (const std::string& folder : state_folders(environment, host_name)) {
    const std::string file = bench::kept_file(folder);
    const auto latest = results_in(tree, file);
    const auto baseline = results_in(tree, bench::kept_baseline_file(folder));
    out.doubt(latest);
    if (!latest) continue;
    std::set<std::string> seen;
    for (const auto& [key, result] : *latest) {
      const std::string device = key.substr(0, key.find('\n'));
      if (!seen.insert(device).second) continue;
      const bench::Speed speed = bench::speed_of(device, *latest, baseline.value_or({}));
      if (!speed.slower.empty()) slow.push_back({result.name, device, file, speed.slower});
    }
  }
  if (slow.empty()) return out;
  Fact<std::vector<SlowDevice>> found(std::move(slow));
  found.doubt(out);
  return found;
}

}  // namespace berth::doctor
