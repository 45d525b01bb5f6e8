#include "system/cpu_model.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/text_parts.hpp"

namespace berth::system {
namespace {

struct Implementer {
  std::int64_t id;
  std::string_view name;
};
// MIDR_EL1: implementers and part numbers from Linux arch/arm64/include/asm/cputype.h and the Arm
// ARM.
constexpr std::array<Implementer, 9> kImplementers = {{
    {0x41, "Arm"},
    {0x42, "Broadcom"},
    {0x43, "Cavium"},
    {0x46, "Fujitsu"},
    {0x48, "HiSilicon"},
    {0x4e, "NVIDIA"},
    {0x51, "Qualcomm"},
    {0x61, "Apple"},
    {0xc0, "Ampere"},
}};

struct Part {
  std::int64_t implementer, part;
  std::string_view name;
};
constexpr std::array<Part, 33> kParts = {{
    {0x41, 0xd03, "Cortex-A53"},   {0x41, 0xd04, "Cortex-A35"},  {0x41, 0xd05, "Cortex-A55"},
    {0x41, 0xd07, "Cortex-A57"},   {0x41, 0xd08, "Cortex-A72"},  {0x41, 0xd09, "Cortex-A73"},
    {0x41, 0xd0a, "Cortex-A75"},   {0x41, 0xd0b, "Cortex-A76"},  {0x41, 0xd0c, "Neoverse-N1"},
    {0x41, 0xd0d, "Cortex-A77"},   {0x41, 0xd40, "Neoverse-V1"}, {0x41, 0xd41, "Cortex-A78"},
    {0x41, 0xd42, "Cortex-A78AE"}, {0x41, 0xd44, "Cortex-X1"},   {0x41, 0xd46, "Cortex-A510"},
    {0x41, 0xd47, "Cortex-A710"},  {0x41, 0xd48, "Cortex-X2"},   {0x41, 0xd49, "Neoverse-N2"},
    {0x41, 0xd4d, "Cortex-A715"},  {0x41, 0xd4e, "Cortex-X3"},   {0x41, 0xd4f, "Neoverse-V2"},
    {0x41, 0xd80, "Cortex-A520"},  {0x41, 0xd81, "Cortex-A720"}, {0x41, 0xd82, "Cortex-X4"},
    {0x41, 0xd84, "Neoverse-V3"},  {0x41, 0xd85, "Cortex-X925"}, {0x41, 0xd87, "Cortex-A725"},
    {0x41, 0xd8e, "Neoverse-N3"},  {0x46, 0x001, "A64FX"},       {0x48, 0xd01, "TSV110"},
    {0x4e, 0x004, "Carmel"},       {0xc0, 0xac3, "AmpereOne"},   {0xc0, 0xac4, "AmpereOne AC04"},
}};

struct Line {
  std::string_view key, value;
};
std::optional<Line> line_of(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  return Line{trim(text.substr(0, colon)), trim(text.substr(colon + 1))};
}

std::string part_name(std::int64_t implementer, std::int64_t part) {
  for (const Part& known : kParts)
    if (known.implementer == implementer && known.part == part) return std::string(known.name);
  return {};
}

std::string vendor_of_id(std::string_view vendor_id) {
  if (vendor_id == "GenuineIntel") return "Intel";
  if (vendor_id == "AuthenticAMD") return "AMD";
  if (vendor_id == "HygonGenuine") return "Hygon";
  if (vendor_id == "CentaurHauls" || vendor_id == "  Shanghai  ") return "Zhaoxin";
  return {};
}

/// A chip may have different kinds of cores. Lists each kind once, in the order of the file.
CpuModel arm_model(std::string_view cpuinfo) {
  CpuModel model;
  std::int64_t implementer = -1;
  std::vector<std::string> kinds;
  for (const std::string_view text : split(cpuinfo, '\n')) {
    const auto line = line_of(text);
    if (!line) continue;
    if (line->key == "CPU implementer") implementer = to_number(line->value).value_or(-1);
    if (line->key != "CPU part") continue;
    std::string name = part_name(implementer, to_number(line->value).value_or(-1));
    if (name.empty() || std::find(kinds.begin(), kinds.end(), name) != kinds.end()) continue;
    kinds.push_back(std::move(name));
  }
  for (const Implementer& known : kImplementers)
    if (known.id == implementer) model.vendor_name = known.name;
  for (const std::string& kind : kinds) model.name += (model.name.empty() ? "" : " + ") + kind;
  return model;
}

}  // namespace

CpuModel parse_cpu_model(std::string_view cpuinfo) {
  CpuModel model;
  bool arm = false;
  for (const std::string_view text : split(cpuinfo, '\n')) {
    const auto line = line_of(text);
    if (!line) continue;
    arm = arm || line->key == "CPU implementer";
    if (model.vendor_name.empty() && line->key == "vendor_id")
      model.vendor_name = vendor_of_id(line->value);
    // These are the keys on x86 and LoongArch, POWER, RISC-V, and old ARM boards.
    const bool names_it = line->key == "model name" || line->key == "Model Name" ||
                          line->key == "cpu" || line->key == "uarch";
    if (model.name.empty() && names_it) model.name = printable(line->value);
  }
  if (!arm) return model;
  CpuModel by_part = arm_model(cpuinfo);
  if (by_part.name.empty()) by_part.name = model.name;
  return by_part;
}

}  // namespace berth::system
