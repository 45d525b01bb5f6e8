// ForeignProcesses: processes without a lease that use a GPU, and what the system broker does about
// them. Observe: it lists them. Warn: it notifies their owners once, on their terminals. Enforce:
// the kernel denies them the GPUs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "model/access.hpp"
#include "model/ledger.hpp"
#include "model/snapshot.hpp"
#include "serve/daemon.hpp"
#include "system/device_filter.hpp"

namespace berth::serve {

enum class Mode : unsigned char { kObserve, kWarn, kEnforce };
/// The mode with this name. The names are those of Settings::mode.
[[nodiscard]] std::optional<Mode> mode_named(std::string_view name);

class ForeignProcesses {
 public:
  /// Also undoes what an earlier broker enforced, if the settings changed. Fails with
  /// kInvalidArgument (E0942) if a user, a group, or the control group to restrict does not exist,
  /// and with kUnsupported (E0940).
  [[nodiscard]] static Result<ForeignProcesses> begin(const DaemonOptions& options);

  /// How often this class needs a new snapshot; 0: it needs none.
  [[nodiscard]] std::chrono::seconds wants_look() const;
  /// Warns or enforces, as mode_ says. `jobs`: the processes with a lease. Returns problems to be
  /// logged.
  [[nodiscard]] std::vector<std::string> see(const model::Snapshot& snapshot,
                                             const std::vector<model::JobProcess>& jobs,
                                             const model::GpuNodes& nodes);
  /// Restores the filter if it was removed.
  [[nodiscard]] std::vector<std::string> keep();
  /// Removes the filter, so that foreign processes can use the GPUs again.
  void take_back();

 private:
  ForeignProcesses(Mode mode, Roots roots, model::Exempt exempt, std::string group,
                   std::string note)
      : mode_(mode),
        roots_(std::move(roots)),
        exempt_(std::move(exempt)),
        group_(std::move(group)),
        note_(std::move(note)) {}
  void warn(const model::Snapshot& snapshot, const std::vector<model::JobProcess>& jobs);
  [[nodiscard]] bool is_exempt(std::uint32_t uid) const;
  [[nodiscard]] std::vector<std::string> enforce(const model::Snapshot& snapshot,
                                                 const model::GpuNodes& nodes);

  Mode mode_;
  Roots roots_;
  model::Exempt exempt_;
  std::string group_, note_;  // the restricted group, and the file in which it is recorded
  std::vector<model::NodeRule> rules_;
  std::optional<system::DeviceFilter> filter_;
  std::set<std::pair<std::int64_t, std::uint64_t>>
      told_;  // processes whose owners were warned, by pid and start time
};

}  // namespace berth::serve
