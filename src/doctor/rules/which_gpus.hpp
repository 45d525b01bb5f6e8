// Questions at the start of many rules: is there a GPU of this vendor, how many are there, is one
// expected? Each function reads as little as possible, so that a rule is "not checked" only if a
// fact is missing that it really needs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

using model::Fix;

inline constexpr std::uint32_t kVendorNvidia = 0x10de, kVendorAmd = 0x1002, kVendorIntel = 0x8086;

/// Whether the bus, the loaded module or the driver itself shows an NVIDIA GPU. In a container,
/// this is about the host.
[[nodiscard]] bool machine_has_nvidia(Examination& look);
/// The GPUs of a vendor on the bus.
[[nodiscard]] std::vector<PciFunction> gpus_on_bus(Examination& look, std::uint32_t vendor);
/// The AMD or Intel GPUs that are discrete cards, or that ROCm lists as such.
[[nodiscard]] std::vector<PciFunction> cards_on_bus(Examination& look, std::uint32_t vendor);
/// Whether this is a card from Intel; its other GPUs are integrated.
[[nodiscard]] bool is_intel_card(const PciFunction& one);
/// The number of NVIDIA GPUs that this process can select by index, from the driver or from device
/// nodes.
[[nodiscard]] std::optional<std::size_t> nvidia_count(Examination& look);
/// The name of a variable that only images for GPUs set; "" if it is not set.
[[nodiscard]] std::string gpu_variable_of_image(Examination& look);
/// Whether this is WSL, according to the kernel's name or to a folder.
[[nodiscard]] bool in_wsl(Examination& look);
/// The kind of container: "" if there is none, or if it is unknown (which is recorded).
[[nodiscard]] std::string container_kind(Examination& look);

[[nodiscard]] bool contains(std::string_view text, std::string_view part);
/// The variable as "NAME=value"; "" if it is not set.
[[nodiscard]] std::string shown_variable(Examination& look, const char* name);
/// The value of the variable; "" if it is not set.
[[nodiscard]] std::string variable_or_empty(Examination& look, const char* name);
/// Whether a line of TOML (not a comment) sets the key to this value.
[[nodiscard]] bool toml_sets(std::string_view toml, std::string_view key, std::string_view value);
/// Whether the job runs on several machines, according to its launcher.
[[nodiscard]] bool spans_machines(Examination& look);
/// Whether the value is "1", "true", "yes" or "on", in upper or lower case.
[[nodiscard]] bool is_on(std::string_view value);

}  // namespace berth::doctor
