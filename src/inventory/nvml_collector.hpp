// From the child's frames and the PCI bus to the report: pure, so that every way a driver can fail
// is a test without a process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inventory/nvml_frames.hpp"
#include "inventory/nvml_reader.hpp"

namespace berth::inventory {

/// NVIDIA's GPUs among all, those given away to virtual machines excepted.
[[nodiscard]] std::vector<system::PciDevice> nvidia_gpus(const std::vector<system::PciDevice>& pci);
/// The addresses that may be asked, where at least one GPU sleeps; empty where all are awake.
[[nodiscard]] std::vector<std::string> awake_beside_asleep(
    const std::vector<system::PciDevice>& gpus);
[[nodiscard]] bool all_asleep(const std::vector<system::PciDevice>& gpus);

/// How the asking ended.
struct Ending {
  bool no_child = false;
  bool closed = false;  // the pipe ended, or what came was damaged
  int signal = -1;      // then: what killed the child, as ending_of() says it
};

class Collector {
 public:
  Collector(std::vector<system::PciDevice> gpus, std::vector<std::string> only_addresses)
      : gpus_(std::move(gpus)), only_addresses_(std::move(only_addresses)) {}
  void take(frames::Frame&& frame);
  /// The child said its last word.
  [[nodiscard]] bool over() const { return done_ || failed_.has_value(); }
  /// Since when it owes the next answer, by CLOCK_MONOTONIC; nullopt while it initialises.
  [[nodiscard]] std::optional<std::int64_t> owes_since() const { return owes_since_; }
  /// The positions without a whole answer, once it is known how many there are.
  [[nodiscard]] std::vector<std::uint32_t> unfinished() const;
  [[nodiscard]] NvmlReport report(const Sources& sources, const Options& options, Ending ending);
  /// What there is to say where the driver was not asked: no library is named, or all its GPUs
  /// sleep.
  [[nodiscard]] NvmlReport report_unasked(const Sources& sources) const;

 private:
  void describe_driver(const Sources& sources, const Options& options, Ending ending,
                       model::Driver& driver) const;
  void add_answers(NvmlReport& report);
  void add_row(frames::Device&& frame, NvmlReport& report);
  void add_from_bus(NvmlReport& report) const;

  std::vector<system::PciDevice> gpus_;
  std::vector<std::string> only_addresses_;
  bool loaded_ = false;
  bool done_ = false;
  std::optional<std::int64_t> owes_since_;
  std::optional<frames::Ready> ready_;
  std::optional<frames::Failed> failed_;
  std::vector<std::optional<frames::Device>> devices_;  // by position
};

}  // namespace berth::inventory
