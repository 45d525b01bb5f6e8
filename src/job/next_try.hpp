// What a job changes for its next try (--retries), after memory ran out or a device failed. Pure.
//
// The same program would fail again on a device that failed, or with as much memory as before. So
// the job avoids a device that failed. If memory ran out, it takes a device with more of it, waits
// for memory that other programs hold, or asks its program for a smaller batch, in this order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/ledger.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "model/tries.hpp"

namespace berth::job {

struct FailedTry {
  model::TryClass kind = model::TryClass::kOk;
  bool lacked_host_memory = false;  // host memory ran out, not the memory of a device
  bool met_own_limit = false;       // the guard refused memory above the job's --memory
  bool may_move = false;            // the job may take another lease
  std::vector<int> devices;         // Device::index of the devices of the rank that failed
};

/// Corrects the class and the evidence of the last try in two cases: a device failed meanwhile, or
/// memory was refused to a program that prints no Python exception. `refusals`: how often the guard
/// refused memory. Returns the devices that failed.
std::vector<int> correct_class(model::Try& last, const model::Snapshot& before,
                               const model::Snapshot& after, const std::vector<int>& devices,
                               std::uint64_t refusals);

/// Summarises a try for next_try(). `placed`: the devices of the job.
[[nodiscard]] FailedTry failed_try(const model::Try& last, const std::vector<int>& placed,
                                   std::uint64_t refusals);

struct NextTry {
  model::TryChange change = model::TryChange::kNothing;
  std::vector<std::string> without;  // the new Request::without; only used for kOtherDevice
};
/// Decides what the next try changes. It takes another lease only for a change that needs one.
/// `after`: the machine when no process of the job is left.
[[nodiscard]] NextTry next_try(const FailedTry& failed, const model::Request& request,
                               const model::Snapshot& after, const model::Ledger& ledger);

/// The memory that other programs use on these devices. A device counts only if enough of its
/// memory is in use to matter. Call it when no process of the job is left.
[[nodiscard]] std::uint64_t memory_of_others(const std::vector<int>& devices,
                                             const model::Snapshot& after);

/// The next value of BERTH_BATCH_SCALE: half of the current one.
[[nodiscard]] double smaller_scale(double scale);
/// The variable that asks the program for a smaller batch.
inline constexpr const char* kBatchScale = "BERTH_BATCH_SCALE";
/// The scale in the variable. It must be above 0 and at most 1. For any other value, the scale is
/// 1.
[[nodiscard]] double parse_scale(const std::string& value);
/// The scale as text, such as "0.5" or "0.125".
[[nodiscard]] std::string show_scale(double scale);

}  // namespace berth::job
