// Reads the user, the command and other /proc fields of each process in the driver's list.
#pragma once

#include <vector>

#include "base/file.hpp"
#include "model/process.hpp"
#include "system/pid_namespace.hpp"
#include "system/process.hpp"

namespace berth::inventory {

/// Fills the /proc fields of every row. Each process is read only once, even if it has several
/// rows. A row with a host_pid also gets a `pid` if the translator knows it. A row that only has a
/// `pid` (DRM clients) keeps it.
void fill_local(std::vector<model::DeviceProcess>& processes, const Roots& roots,
                const system::PidTranslator& translator, system::Depth depth);

/// Copies the /proc fields from another row of the same process.
void copy_local_half(const model::DeviceProcess& from, model::DeviceProcess& to);

}  // namespace berth::inventory
