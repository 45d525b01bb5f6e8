// Shared by `berth`, `ls` and `ps`: their options, a snapshot of the machine, and its selected
// part.
#pragma once

#include <string>

#include "cli/verb.hpp"
#include "inventory/observe.hpp"
#include "model/snapshot.hpp"
#include "output/view.hpp"

namespace berth::cli {

/// How much to read about processes. kUsers: which processes use a device. kAll: also their
/// details, and which of them have a device node open. Each file in /proc that is not read saves
/// time.
enum class Processes { kUsers, kAll };
/// Takes a snapshot; reports on stderr if the driver is slow to start. `opencl`: whether to include
/// OpenCL devices by default (loading a runtime takes 0.1 s). Fails with kInvalidArgument (E0010)
/// if both --opencl and --no-opencl are given.
[[nodiscard]] Result<model::Snapshot> look(const Context& context, Processes processes,
                                           bool opencl = true);
/// Adds the leases, and the job of each process. Does nothing if there is no broker. Also adds what
/// the guard counted.
void add_leases(model::Snapshot& snapshot);
/// The view that --device, --user, --mine and --sort describe.
[[nodiscard]] output::View view_of(const Arguments& arguments);

}  // namespace berth::cli
