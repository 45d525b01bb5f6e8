// Queries of facts that many rules need. Unreadable facts are recorded in the examination.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// NVIDIA GPUs on the bus, except those that are assigned to a virtual machine. Empty if the bus is
/// unreadable.
[[nodiscard]] std::vector<const PciFunction*> nvidia_gpus(Examination& look);

/// False if this machine certainly has neither an NVIDIA GPU nor an NVIDIA driver. Rules about
/// NVIDIA do not apply then, and do not count as "not checked".
[[nodiscard]] bool may_concern_nvidia(const Facts& facts);

/// The GPUs that NVML listed. Empty if NVML was not queried.
[[nodiscard]] const std::vector<GpuAnswer>& answers(Examination& look);

/// The newest line of the kernel log that contains all these words; "" if there is none.
[[nodiscard]] std::string newest_line(Examination& look,
                                      std::initializer_list<std::string_view> words);
[[nodiscard]] std::string newest_line(const std::vector<std::string>& log,
                                      std::initializer_list<std::string_view> words);
/// The line as evidence: "dmesg: …", printable.
[[nodiscard]] std::string quoted_line(std::string_view line);

/// The word as a part of a command that the user can paste: quoted for a shell if necessary.
[[nodiscard]] std::string pasted(std::string_view word);

/// Whether this module is loaded. False if the list of modules is unreadable.
[[nodiscard]] bool is_loaded(Examination& look, std::string_view module);
/// Whether this module is certainly not loaded.
[[nodiscard]] bool is_not_loaded(Examination& look, std::string_view module);

/// Whether NVIDIA's module is loaded, or may be loaded because the list of modules is unreadable.
/// False on WSL and Jetson, and if the machine certainly has no NVIDIA GPU.
[[nodiscard]] bool driver_runs(Examination& look);
/// The result of cuInit as evidence: "cuInit(0): 999".
[[nodiscard]] std::string cuda_says(int code);
/// The result of NVML as evidence, with its message if it has one: "nvmlInit: 18; Driver/library
/// version mismatch".
[[nodiscard]] std::string nvml_says(Examination& look);

/// Whether the GPU is older than Turing. It then has no GPU System Processor, which NVIDIA's open
/// module needs.
[[nodiscard]] bool is_before_turing(const PciFunction& gpu);

/// The driver branch: 580 for "580.95.05"; 0 if there is none.
[[nodiscard]] int branch_of(std::string_view version);

/// The setting that prevents the kernel from loading a module, in modprobe's configuration or on
/// the kernel's command line.
struct Ban {
  // "/etc/modprobe.d/x.conf: blacklist nvidia"; "" if there is no such setting
  std::string evidence;
  std::string file;                // the modprobe file with the setting; "" for the command line
  std::vector<std::string> words;  // the words of the setting on the kernel's command line
};
[[nodiscard]] Ban ban_of(Examination& look, std::string_view module);
/// A fix that removes the setting in `ban`.
[[nodiscard]] model::Fix without_ban(Examination& look, const Ban& ban, std::string_view module);

}  // namespace berth::doctor
