// The machine's CPU utilization, from two reads of /proc/stat.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/reading.hpp"

namespace berth::watch {

struct CpuTicks {
  std::uint64_t busy = 0, all = 0;
};
/// From the line "cpu …" in /proc/stat; nullopt if it is invalid.
[[nodiscard]] std::optional<CpuTicks> parse_cpu_ticks(std::string_view text);

class CpuLoad {
 public:
  /// The mean since the last call, in percent of all cores.
  [[nodiscard]] model::Reading<double> read(const std::string& proc);
  /// Like the function above, but for a text that was already read.
  [[nodiscard]] model::Reading<double> read_text(std::string_view text);

 private:
  std::optional<CpuTicks> last_;
};

}  // namespace berth::watch
