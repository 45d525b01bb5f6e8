// Builds the report from the child's messages (frames) and from the PCI bus. Pure, so that tests
// can simulate every driver failure without a process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inventory/nvml_frames.hpp"
#include "inventory/nvml_reader.hpp"

namespace berth::inventory {

/// The NVIDIA GPUs of the list, without those passed through to virtual machines.
[[nodiscard]] std::vector<system::PciDevice> nvidia_gpus(const std::vector<system::PciDevice>& pci);
/// Returns the addresses of the awake GPUs if some GPUs are awake and others are asleep; empty if
/// all are awake.
[[nodiscard]] std::vector<std::string> awake_beside_asleep(
    const std::vector<system::PciDevice>& gpus);
[[nodiscard]] bool all_asleep(const std::vector<system::PciDevice>& gpus);

/// How the communication with the child ended.
struct Ending {
  bool no_child = false;
  bool closed = false;  // the pipe was closed, or its data was invalid
  int signal = -1;      // if closed: the result of ending_of()
};

class Collector {
 public:
  Collector(std::vector<system::PciDevice> gpus, std::vector<std::string> only_addresses)
      : gpus_(std::move(gpus)), only_addresses_(std::move(only_addresses)) {}
  void take(frames::Frame&& frame);
  /// Whether the child has sent its last frame.
  [[nodiscard]] bool over() const { return done_ || failed_.has_value(); }
  /// The time (CLOCK_MONOTONIC) since which the parent has waited for the child's answer; nullopt
  /// during initialization.
  [[nodiscard]] std::optional<std::int64_t> owes_since() const { return owes_since_; }
  /// The positions of devices without a complete answer, if the number of devices is known.
  [[nodiscard]] std::vector<std::uint32_t> unfinished() const;
  [[nodiscard]] NvmlReport report(const Sources& sources, const Options& options, Ending ending);
  /// Returns the report without calling the driver, because no library is configured or all its
  /// GPUs are asleep.
  [[nodiscard]] NvmlReport report_unasked(const Sources& sources) const;

 private:
  void describe_driver(const Sources& sources, const Options& options, Ending ending,
                       model::Driver& driver) const;
  void add_answers(NvmlReport& report);
  void add_row(frames::Device&& frame, NvmlReport& report);
  void add_from_bus(const Sources& sources, NvmlReport& report) const;

  std::vector<system::PciDevice> gpus_;
  std::vector<std::string> only_addresses_;
  bool loaded_ = false;
  bool done_ = false;
  std::optional<std::int64_t> owes_since_;
  std::optional<frames::Ready> ready_;
  std::optional<frames::Failed> failed_;
  std::vector<std::optional<frames::Device>> devices_;  // the device's position is the index
};

}  // namespace berth::inventory
