// Questions at the start of many rules: is there a GPU of this vendor, how many, is one expected?
// Each reads as little as possible, so that a rule counts as "not checked" only if it lacks what it
// needs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

using model::Fix;

inline constexpr std::uint32_t kVendorNvidia = 0x10de, kVendorAmd = 0x1002, kVendorIntel = 0x8086;

/// The bus, the loaded module or the driver itself shows one. Inside a container this is about the
/// host.
[[nodiscard]] bool machine_has_nvidia(Examination& look);
/// GPUs of a vendor on the bus.
[[nodiscard]] std::vector<PciFunction> gpus_on_bus(Examination& look, std::uint32_t vendor);
/// AMD or Intel GPUs that are discrete, or that are in ROCm's list.
[[nodiscard]] std::vector<PciFunction> cards_on_bus(Examination& look, std::uint32_t vendor);
/// An Intel card; Intel's other GPUs are integrated.
[[nodiscard]] bool is_intel_card(const PciFunction& one);
/// The number of NVIDIA GPUs this process can select by index, from the driver or from device
/// nodes.
[[nodiscard]] std::optional<std::size_t> nvidia_count(Examination& look);
/// A variable that only GPU images set; "" if the image is not one.
[[nodiscard]] std::string gpu_variable_of_image(Examination& look);
/// Whether this is WSL, by kernel name or folder.
[[nodiscard]] bool in_wsl(Examination& look);
/// The kind of container: "" none, or unknown (which is recorded).
[[nodiscard]] std::string container_kind(Examination& look);

[[nodiscard]] bool contains(std::string_view text, std::string_view part);
/// "NAME=value"; "" if it is not set.
[[nodiscard]] std::string shown_variable(Examination& look, const char* name);
/// The value; "" if it is not set.
[[nodiscard]] std::string variable_or_empty(Examination& look, const char* name);
/// Whether a line of TOML, not a comment, sets the key to this value.
[[nodiscard]] bool toml_sets(std::string_view toml, std::string_view key, std::string_view value);
/// Whether the job runs on several machines, according to its launcher.
[[nodiscard]] bool spans_machines(Examination& look);
/// "1", "true", "yes", "on", in upper or lower case.
[[nodiscard]] bool is_on(std::string_view value);

}  // namespace berth::doctor
