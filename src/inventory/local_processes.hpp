// Joins the driver's list of processes with /proc: whose they are and where they live.
#pragma once

#include <vector>

#include "base/file.hpp"
#include "model/process.hpp"
#include "system/pid_namespace.hpp"
#include "system/process.hpp"

namespace berth::inventory {

/// Fills the /proc half of every row, each process once however many devices it uses. Rows with a
/// host_pid get their `pid` where the translator knows it; rows with only a pid (from a DRM client
/// list) keep it.
void fill_local(std::vector<model::DeviceProcess>& processes, const Roots& roots,
                const system::PidTranslator& translator, system::Depth depth);

}  // namespace berth::inventory
