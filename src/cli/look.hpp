// Functions that `berth`, `ls` and `ps` share: their options, and the snapshot of the machine with
// the selected devices.
#pragma once

#include <string>

#include "cli/verb.hpp"
#include "inventory/observe.hpp"
#include "model/snapshot.hpp"
#include "output/view.hpp"

namespace berth::cli {

/// How much to read about processes. kUsers: only which processes use a device. kAll: also their
/// details, and which of them have a device node open. kUsers is faster, because it reads fewer
/// files in /proc.
enum class Processes { kUsers, kAll };
/// Takes a snapshot; reports on stderr if the driver is slow to start. `opencl`: whether to include
/// OpenCL devices by default (loading a runtime takes 0.1 s). Fails with kInvalidArgument (E0010)
/// if both --opencl and --no-opencl are given.
[[nodiscard]] Result<model::Snapshot> look(const Context& context, Processes processes,
                                           bool opencl = true);
/// Adds the leases, the job of each process, and what the guard counted. Does nothing if there is
/// no broker.
void add_leases(model::Snapshot& snapshot);
/// Which columns, users and order --device, --user, --mine and --sort select.
[[nodiscard]] output::View view_of(const Arguments& arguments);

}  // namespace berth::cli
