// The name of the CPU, from the text of /proc/cpuinfo.
#pragma once

#include <string>
#include <string_view>

namespace berth::system {

struct CpuModel {
  std::string name;         // "Intel(R) Xeon(R) Platinum 8480+", "Neoverse-V2"; empty if unknown
  std::string vendor_name;  // "Intel", "AMD", "Arm", "NVIDIA", …; empty if unknown
};
[[nodiscard]] CpuModel parse_cpu_model(std::string_view cpuinfo);

}  // namespace berth::system
