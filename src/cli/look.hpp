// What `berth`, `ls` and `ps` share: their options, one look at the machine, and the part of it
// that was asked for.
#pragma once

#include <string>

#include "cli/verb.hpp"
#include "inventory/observe.hpp"
#include "model/snapshot.hpp"
#include "output/view.hpp"

namespace berth::cli {

/// How much of the processes a verb shows; each file of /proc that is not read is time saved.
enum class Processes { kUsers, kAll };
/// Looks at the machine this process sees; says on stderr when the driver takes long to start.
/// `opencl`: whether OpenCL devices matter where the user does not say so (a runtime takes 0.1 s to
/// load). Fails with kInvalidArgument (E0010) where --opencl and --no-opencl are both given.
[[nodiscard]] Result<model::Snapshot> look(const Context& context, Processes processes,
                                           bool opencl = true);
/// What is leased, and which processes belong to the jobs that have it; nothing where no broker
/// runs.
void add_leases(model::Snapshot& snapshot);
/// --device, --user, --mine and --sort.
[[nodiscard]] output::View view_of(const Arguments& arguments);

}  // namespace berth::cli
