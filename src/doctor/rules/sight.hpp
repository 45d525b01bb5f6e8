// What many rules look at first.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rule.hpp"

namespace berth::doctor {

/// NVIDIA's GPUs on the bus; none where the bus cannot be read (which is remembered), and those
/// that were given to a virtual machine do not count.
[[nodiscard]] std::vector<const PciFunction*> nvidia_gpus(Examination& look);

/// False where it is known that no NVIDIA GPU and no driver of it is here: then what is wrong with
/// them is no question, and nothing is left unchecked.
[[nodiscard]] bool may_concern_nvidia(const Facts& facts);

/// The GPUs that NVML described; none where it was not asked, which is remembered.
[[nodiscard]] const std::vector<GpuAnswer>& answers(Examination& look);

/// The newest line of the kernel's log that has all of these words; "" none.
[[nodiscard]] std::string newest_line(Examination& look,
                                      std::initializer_list<std::string_view> words);
[[nodiscard]] std::string newest_line(const std::vector<std::string>& log,
                                      std::initializer_list<std::string_view> words);
/// "dmesg: …", fit to be shown.
[[nodiscard]] std::string quoted(std::string_view line);

/// The word for a command that people paste: quoted, where a shell would see more in it than a
/// word.
[[nodiscard]] std::string pasted(std::string_view word);

/// Whether this module is loaded; false where that cannot be read, which is remembered.
[[nodiscard]] bool is_loaded(Examination& look, std::string_view module);
/// Known, and not loaded.
[[nodiscard]] bool is_not_loaded(Examination& look, std::string_view module);

/// The module drives a GPU of this machine's, as far as is known: not WSL's, nor a Jetson's.
[[nodiscard]] bool driver_runs(Examination& look);
/// "cuInit(0): 999".
[[nodiscard]] std::string cuda_says(int code);
/// "nvmlInit: 18; Driver/library version mismatch", in its own words where it had any.
[[nodiscard]] std::string nvml_says(Examination& look);

/// Before Turing: no GPU System Processor, so NVIDIA's open modules cannot drive it.
[[nodiscard]] bool is_before_turing(const PciFunction& gpu);

/// The first number of "580.95.05"; 0 where it has none.
[[nodiscard]] int branch_of(std::string_view version);
/// -1, 0, 1 by numbers, part by part. A version that is cut short equals those it begins.
[[nodiscard]] int compare_versions(std::string_view a, std::string_view b);

/// What keeps the kernel from loading a module: modprobe's configuration, or the kernel's command
/// line.
struct Ban {
  std::string evidence;            // "/etc/modprobe.d/x.conf: blacklist nvidia"; "" nothing does
  std::string file;                // of modprobe's; "" the command line
  std::vector<std::string> words;  // of the command line
};
[[nodiscard]] Ban ban_of(Examination& look, std::string_view module);
/// How it is taken back.
[[nodiscard]] model::Fix without_ban(Examination& look, const Ban& ban, std::string_view module);

}  // namespace berth::doctor
