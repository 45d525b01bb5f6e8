// Outsiders: processes without a lease, and what the broker of all users does about them. Observe:
// they are seen. Warn: whose they are is told, once for each process, on their terminals. Enforce:
// the kernel refuses them the GPUs.
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
[[nodiscard]] std::optional<Mode> mode_named(std::string_view name);  // as in Settings

class Outsiders {
 public:
  /// Takes back what a broker before left that enforced something else. Fails with
  /// kInvalidArgument (E0942) where there is no such user or group, or no control group to enforce
  /// on, and with kUnsupported (E0940).
  [[nodiscard]] static Result<Outsiders> begin(const DaemonOptions& options);

  /// A look at the machine is wanted that often; 0: none for their sake.
  [[nodiscard]] std::chrono::seconds wants_look() const;
  /// `jobs`: the processes that have a lease. Tells and enforces. Sentences for people about what
  /// went wrong.
  [[nodiscard]] std::vector<std::string> see(const model::Snapshot& snapshot,
                                             const std::vector<model::JobProcess>& jobs,
                                             const model::GpuNodes& nodes);
  /// Puts the filter back where somebody dropped it.
  [[nodiscard]] std::vector<std::string> keep();
  /// What is enforced ends.
  void take_back();

 private:
  Outsiders(Mode mode, Roots roots, model::Exempt exempt, std::string group, std::string note)
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
  std::string group_, note_;  // what is enforced on, and the file that says so
  std::vector<model::NodeRule> rules_;
  std::optional<system::DeviceFilter> filter_;
  std::set<std::pair<std::int64_t, std::uint64_t>> told_;  // by pid and start
};

}  // namespace berth::serve
