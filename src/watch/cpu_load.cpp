#include "watch/cpu_load.hpp"

#include "base/file.hpp"

namespace berth::watch {

std::optional<CpuTicks> parse_cpu_ticks(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  if (!line.starts_with("cpu ")) return std::nullopt;
  CpuTicks ticks;
  int column = 0;
  for (const std::string_view word : split(trim(line.substr(4)), ' ')) {
    if (word.empty()) continue;
    const auto number = to_number(word);
    if (!number || *number < 0) return std::nullopt;
    const auto count = static_cast<std::uint64_t>(*number);
    // The columns are user, nice, system, idle, iowait, irq, softirq and steal. Ignore the guest
    // columns, because guest time is already a part of user.
    if (column == 8) break;
    ticks.all += count;
    if (column != 3 && column != 4) ticks.busy += count;
    ++column;
  }
  if (column < 4) return std::nullopt;
  return ticks;
}

model::Reading<double> CpuLoad::read(const std::string& proc) {
  const auto text = slurp(proc + "/stat", 4096);
  return text ? read_text(*text) : model::Reading<double>(model::Absence::kNotSupported);
}

model::Reading<double> CpuLoad::read_text(std::string_view text) {
  const auto now = parse_cpu_ticks(text);
  const auto before = last_;
  last_ = now;
  if (!now) return model::Absence::kFailed;
  // The kernel's counters may decrease slightly when cores go offline or online.
  if (!before || now->all <= before->all || now->busy < before->busy)
    return model::Absence::kNeedsTwoReadings;
  return static_cast<double>(now->busy - before->busy) /
         static_cast<double>(now->all - before->all) * 100;
}

}  // namespace berth::watch
