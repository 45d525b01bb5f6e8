// Questions about the facts that many rules ask.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// NVIDIA GPUs on the bus, except those that are passed through to a virtual machine. Empty if the
/// bus is unreadable (which is recorded).
[[nodiscard]] std::vector<const PciFunction*> nvidia_gpus(Examination& look);

/// False if this machine is known to have neither an NVIDIA GPU nor an NVIDIA driver. Rules about
/// NVIDIA then do not apply, and do not count as "not checked".
[[nodiscard]] bool may_concern_nvidia(const Facts& facts);

/// The GPUs that NVML reported. Empty if NVML was not queried (which is recorded).
[[nodiscard]] const std::vector<GpuAnswer>& answers(Examination& look);

/// The newest kernel log line that contains all these words; "" none.
[[nodiscard]] std::string newest_line(Examination& look,
                                      std::initializer_list<std::string_view> words);
[[nodiscard]] std::string newest_line(const std::vector<std::string>& log,
                                      std::initializer_list<std::string_view> words);
/// "dmesg: …", printable.
[[nodiscard]] std::string quoted_line(std::string_view line);

/// A word for a command to paste, quoted for a shell if necessary.
[[nodiscard]] std::string pasted(std::string_view word);

/// Whether this module is loaded. False if that is unreadable (which is recorded).
[[nodiscard]] bool is_loaded(Examination& look, std::string_view module);
/// Whether this module is known not to be loaded.
[[nodiscard]] bool is_not_loaded(Examination& look, std::string_view module);

/// Whether the module drives a GPU of this machine, as far as that is known. Always false on WSL
/// and Jetson.
[[nodiscard]] bool driver_runs(Examination& look);
/// "cuInit(0): 999".
[[nodiscard]] std::string cuda_says(int code);
/// What NVML answered: "nvmlInit: 18; Driver/library version mismatch", with its message if it had
/// one.
[[nodiscard]] std::string nvml_says(Examination& look);

/// Whether the GPU is older than Turing. It then has no GPU System Processor, and NVIDIA's open
/// modules do not support it.
[[nodiscard]] bool is_before_turing(const PciFunction& gpu);

/// The driver branch, which is the first number of "580.95.05"; 0 if there is none.
[[nodiscard]] int branch_of(std::string_view version);

/// What prevents the kernel from loading a module: modprobe's configuration or the kernel's command
/// line.
struct Ban {
  std::string evidence;  // "/etc/modprobe.d/x.conf: blacklist nvidia"; "" if nothing prevents it
  std::string file;      // path of modprobe's file; "" for the kernel's command line
  std::vector<std::string> words;  // the words on the kernel's command line
};
[[nodiscard]] Ban ban_of(Examination& look, std::string_view module);
/// A fix that removes this setting.
[[nodiscard]] model::Fix without_ban(Examination& look, const Ban& ban, std::string_view module);

}  // namespace berth::doctor
