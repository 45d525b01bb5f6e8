#include "doctor/rules/unread_words.hpp"

#include <algorithm>
#include <array>

#include "base/error_words.hpp"
#include "base/text.hpp"

namespace berth::doctor {
namespace {

struct Words {
  std::string_view key;  // in driver.json, process.json and similar
  const char* says;      // msgid
};
constexpr auto kWords = std::to_array<Words>({
    {"bar1_bytes", msgid("how much of a GPU's memory the host sees")},
    {"cc_ready", msgid("confidential computing")},
    {"cgroup_processes_limit", msgid("the limit of processes")},
    {"clock_graphics_locked_mhz", msgid("locked clocks")},
    {"clock_graphics_max_mhz", msgid("the highest clocks")},
    {"compute_capability", msgid("the GPUs' compute capability")},
    {"compute_mode", msgid("the GPUs' compute mode")},
    {"cpus", msgid("on which cores the process may run")},
    {"sched_getaffinity", msgid("on which cores the process may run")},
    {"cuda_init", msgid("what CUDA's cuInit() returns")},
    {"cuda_version", msgid("the driver's CUDA")},
    {"display_active", msgid("whether a GPU shows the desktop")},
    {"driver_version", msgid("the driver's version")},
    {"ecc_uncorrected", msgid("errors of the GPUs' memory")},
    {"environment", msgid("the process's variables")},
    {"error", msgid("whether a GPU answers")},
    {"fabric_state", msgid("the state of the fabric")},
    {"failure", msgid("why the driver does not answer")},
    {"gcc", msgid("which compiler is here")},
    {"gpus", msgid("what the driver says of its GPUs")},
    {"kernel.log", msgid("the kernel's log")},
    {"memory_total_bytes", msgid("the GPUs' memory")},
    {"memory_used_bytes", msgid("memory that is in use")},
    {"memlock_limit_bytes", msgid("the limit of locked memory")},
    {"mig_enabled", msgid("whether MIG is on")},
    {"mig_instances", msgid("MIG's instances")},
    {"mig_pending", msgid("whether MIG is on")},
    {"name", msgid("the GPUs' names")},
    {"nvcc", msgid("which nvcc is here")},
    {"nvml_init", msgid("whether NVML can be opened")},
    {"address_space_limit_bytes", msgid("the limit of addresses")},
    {"nvml_message", msgid("why the driver does not answer")},
    {"open_files_limit", msgid("the limit of open files")},
    {"peer_pairs_unsupported", msgid("direct transfers between GPUs")},
    {"persistence", msgid("persistence mode")},
    {"power_limit_default_milliwatts", msgid("the GPUs' power limits")},
    {"power_limit_milliwatts", msgid("the GPUs' power limits")},
    {"processes_limit", msgid("the limit of processes")},
    {"processes_memory_bytes", msgid("memory of each process")},
    {"ptxas", msgid("which ptxas is here")},
    {"python", msgid("which Python is meant")},
    {"Python.h", msgid("Python's headers")},
    {"ninja", msgid("whether ninja is here")},
    {"quota_cores", msgid("the quota of cores")},
    {"remap_failed", msgid("remapped rows of memory")},
    {"remap_pending", msgid("remapped rows of memory")},
    {"retired_pages_pending", msgid("retired pages of memory")},
    {"rooms", msgid("how much disk space is left")},
    {"has_account", msgid("whether the user has an account")},
    {"shm_total_bytes", msgid("the size of /dev/shm")},
    {"shm_used_bytes", msgid("the size of /dev/shm")},
    {"silent", msgid("whether a GPU answers")},
    {"stack_limit_bytes", msgid("the limit of the stack")},
    {"getrlimit", msgid("the process's limits")},
    {"limits", msgid("the process's limits")},
    {"getgroups", msgid("the process's user")},
    {"status", msgid("the process's user")},
    {"throttle", msgid("what slows the GPUs down")},
    {"uid", msgid("the process's user")},
    {"utilization_percent", msgid("how busy the GPUs are")},
    {"uuid", msgid("the GPUs' names")},
    {"vgpu_licence", msgid("a vGPU's licence")},
});

}  // namespace

std::string said_of(const Unreadable& why) {
  // A simulated machine only has its own bus and driver.
  if (why.error_number == ENODATA) return text("a simulated machine does not have it");
  // The kernel's own folders, which contain files on every Linux.
  if (is_unmounted(why)) return text("nothing of {} can be seen here", why.where);
  const auto row = std::find_if(kWords.begin(), kWords.end(),
                                [&](const Words& one) { return one.key == why.where; });
  const std::string where = row == kWords.end() ? why.where : std::string(tr(row->says));
  if (why.error_number == 0) return where;
  return fmt::format("{}: {}", where, error_words(why.error_number));
}

}  // namespace berth::doctor
