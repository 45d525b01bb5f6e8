// Shared by `berth`, `ls` and `ps`: their options, a snapshot of the machine, and its selected
// part.
#pragma once

#include <string>

#include "cli/verb.hpp"
#include "inventory/observe.hpp"
#include "model/snapshot.hpp"
#include "output/view.hpp"

namespace berth::cli {

/// How much of the processes to read; every unread file of /proc saves time.
enum class Processes { kUsers, kAll };
/// Takes a snapshot; reports on stderr if the driver is slow to start. `opencl`: whether to include
/// OpenCL devices by default (loading a runtime takes 0.1 s). Fails with kInvalidArgument (E0010)
/// if both --opencl and --no-opencl are given.
[[nodiscard]] Result<model::Snapshot> look(const Context& context, Processes processes,
                                           bool opencl = true);
/// Adds the leases and the jobs of processes; nothing if no broker runs.
void add_leases(model::Snapshot& snapshot);
/// --device, --user, --mine and --sort.
[[nodiscard]] output::View view_of(const Arguments& arguments);

}  // namespace berth::cli
