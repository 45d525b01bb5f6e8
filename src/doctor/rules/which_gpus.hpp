// Questions that many rules begin with: is there a GPU of that vendor, how many, does anybody
// expect one? Each asks the least that answers it, so that a rule is "not checked" only for want of
// what it needs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rule.hpp"

namespace berth::doctor {

using model::Fix;

inline constexpr std::uint32_t kVendorNvidia = 0x10de, kVendorAmd = 0x1002, kVendorIntel = 0x8086;

/// The bus, the loaded module or the driver itself shows one. From inside of a container: the
/// machine's, not the container's.
[[nodiscard]] bool machine_has_nvidia(Examination& look);
/// GPUs of a vendor on the bus.
[[nodiscard]] std::vector<PciFunction> gpus_on_bus(Examination& look, std::uint32_t vendor);
/// AMD's or Intel's that are cards of their own, or that ROCm's list says are.
[[nodiscard]] std::vector<PciFunction> cards_on_bus(Examination& look, std::uint32_t vendor);
/// A card of Intel's: its other GPUs are parts of processors.
[[nodiscard]] bool is_intel_card(const PciFunction& one);
/// NVIDIA GPUs that this process can name by index: as the driver lists them, else by their nodes.
[[nodiscard]] std::optional<std::size_t> nvidia_count(Examination& look);
/// The image was made for a GPU: it sets variables that only such images set.
[[nodiscard]] std::string gpu_variable_of_image(Examination& look);
/// WSL, by its kernel's name or its folder.
[[nodiscard]] bool in_wsl(Examination& look);
/// The kind of container: "" none, or not known (which is remembered).
[[nodiscard]] std::string container_kind(Examination& look);

[[nodiscard]] bool contains(std::string_view text, std::string_view part);
/// "NAME=value"; "" where it is not set.
[[nodiscard]] std::string shown_variable(Examination& look, const char* name);
/// The value; "" where it is not set.
[[nodiscard]] std::string variable_or_empty(Examination& look, const char* name);
/// A line of a TOML text that is not a comment sets the key so.
[[nodiscard]] bool toml_sets(std::string_view toml, std::string_view key, std::string_view value);
/// The job runs on several machines, by what its launcher says.
[[nodiscard]] bool spans_machines(Examination& look);
/// "1", "true", "yes", "on", in any case.
[[nodiscard]] bool is_on(std::string_view value);

}  // namespace berth::doctor
