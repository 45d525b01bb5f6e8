// What a job asks of this machine and of its broker. Tests replace it by recorded answers.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "client/lease.hpp"
#include "model/ledger.hpp"
#include "model/snapshot.hpp"

namespace berth::job {

/// Tells the user something while the job is planned and runs: a sentence, and hints.
using Note =
    std::function<void(const std::string& sentence, const std::vector<std::string>& hints)>;

class Machine {
 public:
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  virtual ~Machine() = default;

  /// Reads the state of the devices. `details`: also reads which programs use the devices, because
  /// errors name them. That takes longer.
  [[nodiscard]] virtual model::Snapshot look(bool details) = 0;
  /// The leases of running jobs; empty if no broker runs. Fails with kUnavailable if the broker
  /// does not answer.
  [[nodiscard]] virtual Result<model::Ledger> ledger() = 0;
  /// The lease in which this process already runs. See client::Lease::around_us().
  [[nodiscard]] virtual Result<std::optional<client::Lease>> lease_around(
      const model::Request& request) = 0;
  /// Takes a new lease. See client::Lease::take().
  [[nodiscard]] virtual Result<client::Lease> take_lease(const client::Lease::Wishes& wishes,
                                                         const model::Snapshot& snapshot,
                                                         client::IfNone if_none) = 0;
  /// Sleeps until the next look.
  virtual void pause(std::chrono::milliseconds duration) = 0;
};

/// The machine that this process runs on, which may be simulated or recorded.
class ThisMachine : public Machine {
 public:
  /// `opencl`: include OpenCL devices. They are never given to a job; they only matter if the user
  /// names a device. `note` reports a driver that is slow to start.
  ThisMachine(bool opencl, Note note) : opencl_(opencl), note_(std::move(note)) {}

  [[nodiscard]] model::Snapshot look(bool details) override;
  [[nodiscard]] Result<model::Ledger> ledger() override;
  [[nodiscard]] Result<std::optional<client::Lease>> lease_around(
      const model::Request& request) override;
  [[nodiscard]] Result<client::Lease> take_lease(const client::Lease::Wishes& wishes,
                                                 const model::Snapshot& snapshot,
                                                 client::IfNone if_none) override;
  void pause(std::chrono::milliseconds duration) override;

 private:
  bool opencl_;
  Note note_;
};

}  // namespace berth::job
