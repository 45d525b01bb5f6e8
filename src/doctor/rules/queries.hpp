// Questions about the facts that many rules share.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// NVIDIA GPUs on the bus, without those passed through to a virtual machine; empty if the bus is
/// unreadable (which is recorded).
[[nodiscard]] std::vector<const PciFunction*> nvidia_gpus(Examination& look);

/// False if this machine is known to have no NVIDIA GPU and no NVIDIA driver. Then rules about them
/// do not apply, and nothing counts as unchecked.
[[nodiscard]] bool may_concern_nvidia(const Facts& facts);

/// The GPUs that NVML reported; empty if it was not queried, which is recorded.
[[nodiscard]] const std::vector<GpuAnswer>& answers(Examination& look);

/// The newest kernel log line that contains all these words; "" none.
[[nodiscard]] std::string newest_line(Examination& look,
                                      std::initializer_list<std::string_view> words);
[[nodiscard]] std::string newest_line(const std::vector<std::string>& log,
                                      std::initializer_list<std::string_view> words);
/// "dmesg: …", printable.
[[nodiscard]] std::string quoted_line(std::string_view line);

/// A word in a command to paste, quoted for a shell if necessary.
[[nodiscard]] std::string pasted(std::string_view word);

/// Whether this module is loaded; false if that is unreadable, which is recorded.
[[nodiscard]] bool is_loaded(Examination& look, std::string_view module);
/// Whether it is known not to be loaded.
[[nodiscard]] bool is_not_loaded(Examination& look, std::string_view module);

/// Whether the module drives a GPU of this machine, as far as known; false on WSL and Jetson.
[[nodiscard]] bool driver_runs(Examination& look);
/// "cuInit(0): 999".
[[nodiscard]] std::string cuda_says(int code);
/// "nvmlInit: 18; Driver/library version mismatch", with NVML's message if it had one.
[[nodiscard]] std::string nvml_says(Examination& look);

/// Before Turing: it has no GPU System Processor, so NVIDIA's open modules do not support it.
[[nodiscard]] bool is_before_turing(const PciFunction& gpu);

/// The first number of "580.95.05"; 0 if there is none.
[[nodiscard]] int branch_of(std::string_view version);

/// What prevents the kernel from loading a module: modprobe's configuration or the kernel's command
/// line.
struct Ban {
  std::string evidence;            // "/etc/modprobe.d/x.conf: blacklist nvidia"; "" nothing
  std::string file;                // modprobe's; "" the command line
  std::vector<std::string> words;  // of the command line
};
[[nodiscard]] Ban ban_of(Examination& look, std::string_view module);
/// How to remove it.
[[nodiscard]] model::Fix without_ban(Examination& look, const Ban& ban, std::string_view module);

}  // namespace berth::doctor
