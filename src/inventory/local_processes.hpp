// Adds the user, command and home of each process in the driver's list, from /proc.
#pragma once

#include <vector>

#include "base/file.hpp"
#include "model/process.hpp"
#include "system/pid_namespace.hpp"
#include "system/process.hpp"

namespace berth::inventory {

/// Fills the /proc fields of every row, and reads each process once even if it uses several
/// devices. Rows with a host_pid get a `pid` if the translator knows one. Rows that only have a
/// `pid` (DRM clients) keep it.
void fill_local(std::vector<model::DeviceProcess>& processes, const Roots& roots,
                const system::PidTranslator& translator, system::Depth depth);

/// Copies the /proc fields from another row of the same process.
void copy_local_half(const model::DeviceProcess& from, model::DeviceProcess& to);

}  // namespace berth::inventory
