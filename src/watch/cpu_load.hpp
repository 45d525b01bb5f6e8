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
/// Parses the line "cpu …" of /proc/stat; nullopt if it is invalid.
[[nodiscard]] std::optional<CpuTicks> parse_cpu_ticks(std::string_view text);

class CpuLoad {
 public:
  /// Returns the mean utilization of all cores since the last call, in percent.
  [[nodiscard]] model::Reading<double> read(const std::string& proc);
  /// Does the same as read(), with the text of /proc/stat.
  [[nodiscard]] model::Reading<double> read_text(std::string_view text);

 private:
  std::optional<CpuTicks> last_;
};

}  // namespace berth::watch
