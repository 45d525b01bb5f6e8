// Queries at the start of many rules: whether there is a GPU of a vendor, how many there are, and
// whether one is expected. Each function reads as few facts as possible, so that a rule is "not
// checked" only if a fact that it needs is unreadable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

using model::Fix;

inline constexpr std::uint32_t kVendorNvidia = 0x10de, kVendorAmd = 0x1002, kVendorIntel = 0x8086;

/// Whether the machine has an NVIDIA GPU, according to the bus, the loaded module or the driver. In
/// a container, this means the host.
[[nodiscard]] bool machine_has_nvidia(Examination& look);
/// The GPUs of a vendor on the bus.
[[nodiscard]] std::vector<PciFunction> gpus_on_bus(Examination& look, std::uint32_t vendor);
/// The cards of a vendor on the bus. Cards are the AMD or Intel GPUs that are not integrated.
[[nodiscard]] std::vector<PciFunction> cards_on_bus(Examination& look, std::uint32_t vendor);
/// Whether this is an Intel card, and not an integrated GPU.
[[nodiscard]] bool is_intel_card(const PciFunction& one);
/// The number of NVIDIA GPUs that this process can select by index, according to the driver or to
/// device nodes; nullopt if it is unknown.
[[nodiscard]] std::optional<std::size_t> nvidia_count(Examination& look);
/// A variable that images for GPUs set, as "NAME=value"; "" if none is set.
[[nodiscard]] std::string gpu_variable_of_image(Examination& look);
/// Whether this is WSL, according to the name of the kernel or to WSL's folder.
[[nodiscard]] bool in_wsl(Examination& look);
/// The kind of container; "" if there is none, or if it is unknown (the examination records this).
[[nodiscard]] std::string container_kind(Examination& look);

[[nodiscard]] bool contains(std::string_view text, std::string_view part);
/// The variable as "NAME=value"; "" if it is not set.
[[nodiscard]] std::string shown_variable(Examination& look, const char* name);
/// The value of the variable; "" if it is not set.
[[nodiscard]] std::string variable_or_empty(Examination& look, const char* name);
/// Whether a line of TOML that is not a comment sets the key to this value.
[[nodiscard]] bool toml_sets(std::string_view toml, std::string_view key, std::string_view value);
/// Whether the job runs on several machines, according to variables of its launcher.
[[nodiscard]] bool spans_machines(Examination& look);
/// Whether the value is "1", "true", "yes", "on", "y" or "t", in upper or lower case.
[[nodiscard]] bool is_on(std::string_view value);

}  // namespace berth::doctor
