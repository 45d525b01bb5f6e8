#include "top/hosts.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "output/words.hpp"
#include "top/graph.hpp"

namespace berth::top {
namespace {

using output::Style;

constexpr int kName = 16, kGpus = 4, kUseBar = 8, kMemory = 18;
// The least number of lines for the selected machine, below the table.
constexpr int kLeastBelow = 6;

/// Sums over the GPUs of a machine. A sum is absent if one of its values is absent.
struct Total {
  std::size_t gpus = 0;
  std::optional<double> use;  // the mean
  std::optional<std::uint64_t> used, memory, milliwatts;
  std::optional<double> hottest;  // the highest known temperature
  std::vector<std::string> unwell;
};

template <typename T>
void add_to(std::optional<T>& sum, const model::Reading<T>& reading) {
  if (sum && reading)
    *sum += *reading;
  else
    sum.reset();
}

Total total_of(const watch::Frame& frame) {
  Total total;
  total.use = 0.0;
  total.used = total.memory = total.milliwatts = std::uint64_t{0};
  for (const model::Device& device : frame.snapshot.devices) {
    if (device.kind == model::DeviceKind::kCpu) continue;
    ++total.gpus;
    const auto& readings = device.readings;
    add_to(total.use, readings.utilization_percent);
    add_to(total.used, readings.memory_used_bytes);
    add_to(total.memory, readings.memory_total_bytes);
    add_to(total.milliwatts, readings.power_milliwatts);
    if (readings.temperature_celsius)
      total.hottest = std::max(total.hottest.value_or(0), *readings.temperature_celsius);
    if (device.health != model::Health::kOk && device.health != model::Health::kNotChecked)
      total.unwell.push_back(std::to_string(device.index) + " " +
                             std::string(output::word_for(device.health)));
  }
  if (total.gpus == 0) return {};
  if (total.use) *total.use /= static_cast<double>(total.gpus);
  return total;
}

std::string users_in(const watch::Frame& frame) {
  std::set<std::string> users;
  for (const model::DeviceProcess& one : frame.snapshot.processes)
    users.insert(one.user.empty() ? "?" : printable(one.user));
  return output::join({users.begin(), users.end()}, ", ");
}

template <typename T>
model::Reading<T> reading_of(const std::optional<T>& value) {
  return value ? model::Reading<T>(*value) : model::Reading<T>(model::Absence::kNotAsked);
}

Line host_line(const HostState& host, bool is_selected, const Settings& settings, int width) {
  Line line;
  put(line, width, is_selected ? Style::kBold : Style::kPlain,
      column((is_selected ? "> " : "  ") + printable(host.name), kName, false));
  if (!host.frame) {
    put(line, width, host.problem.empty() ? Style::kDim : Style::kYellow,
        host.problem.empty() ? text("asked, no answer yet") : host.problem);
    return line;
  }
  const Total total = total_of(*host.frame);
  put(line, width, Style::kPlain, column(std::to_string(total.gpus), kGpus, true));
  put(line, width, style_of_use(total.use), draw_bar(total.use, kUseBar, settings.utf8) + " ");
  put(line, width, Style::kPlain, column(output::show_percent(reading_of(total.use)), 5, true));
  put(line, width, Style::kPlain,
      column(output::show_used(reading_of(total.used), reading_of(total.memory)), kMemory, true));
  put(line, width, Style::kPlain,
      column(total.milliwatts ? show_power(*total.milliwatts) : "-", 8, true));
  put(line, width, Style::kPlain, column(output::show_celsius(reading_of(total.hottest)), 6, true));
  if (!total.unwell.empty())
    put(line, width, Style::kYellow, output::join(total.unwell, ", ") + "  ");
  put(line, width, Style::kCyan, users_in(*host.frame));
  return line;
}

Line table_heading(int width) {
  Line line;
  for (const auto& [title, columns, is_number] :
       {std::tuple(text("  machine"), kName, false), std::tuple(text("GPUs"), kGpus, true),
        std::tuple(text("mean use"), kUseBar + 6, true), std::tuple(text("memory"), kMemory, true),
        std::tuple(text("power"), 8, true), std::tuple(text("max."), 6, true)})
    put(line, width, Style::kDim, column(title, columns, is_number));
  put(line, width, Style::kDim, text("users"));
  return line;
}

/// Which rows of the table are shown: their number, and the index of the first. The selected
/// machine is always among them.
struct Table {
  int rows = 0, first = 0;
  [[nodiscard]] int lines() const { return rows + 2; }  // the rows, the heading and a gap
};

Table table_of(std::size_t hosts, std::size_t selected, int height) {
  Table table;
  table.rows = std::clamp(height - kLeastBelow - 2, 1, static_cast<int>(hosts));
  table.first = std::clamp(static_cast<int>(selected) - table.rows / 2, 0,
                           static_cast<int>(hosts) - table.rows);
  return table;
}

}  // namespace

std::vector<Line> draw_hosts(const std::vector<HostState>& hosts, std::size_t selected,
                             const Settings& settings, int width, int height) {
  const Table table = table_of(hosts.size(), selected, height);
  std::vector<Line> lines = {table_heading(width)};
  for (int row = table.first; row < table.first + table.rows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    lines.push_back(host_line(hosts[at], at == selected, settings, width));
  }
  lines.emplace_back();
  const HostState& host = hosts[selected];
  const watch::Frame none;
  const int left = std::max(1, height - table.lines());
  auto below = draw(host.frame ? *host.frame : none, host.series, settings, width, left);
  if (!host.frame && !settings.shows_help && below.size() > 1) {
    // Show only the machine's name, because no frame has arrived. An empty frame would look like a
    // machine without devices.
    Line bottom = std::move(below.back());
    below = std::vector<Line>(below.size() - 1);
    put(below[0], width, Style::kBold, printable(host.name));
    below.push_back(std::move(bottom));
  }
  std::move(below.begin(), below.end(), std::back_inserter(lines));
  lines.resize(static_cast<std::size_t>(std::max(1, height)));
  return lines;
}

void click_hosts(const std::vector<HostState>& hosts, std::size_t& selected, Settings& settings,
                 int width, int height, int x, int y) {
  const Table table = table_of(hosts.size(), selected, height);
  if (y >= 1 && y <= table.rows)
    selected = static_cast<std::size_t>(table.first + y - 1);
  else if (y >= table.lines() && hosts[selected].frame)
    click(*hosts[selected].frame, settings, width, std::max(1, height - table.lines()), x,
          y - table.lines());
}

}  // namespace berth::top
