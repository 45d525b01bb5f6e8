#include "top/draw.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "output/table.hpp"
#include "output/words.hpp"
#include "top/graph.hpp"
#include "top/rows.hpp"

namespace berth::top {

namespace {

using model::Device;
using model::DeviceProcess;
using output::Style;

constexpr int kBar = 8, kNumber = 4;
constexpr int kLeastProcessLines = 4;  // one line for the heading and three for rows
constexpr double kHot = 85;  // degrees Celsius, shown as hot; the alert BerthHot begins at 90

bool is_shown(const Device& device, const Settings& settings) {
  return settings.devices.empty() || settings.devices.contains(device.index);
}

int devices_shown(const watch::Frame& frame, const Settings& settings) {
  const auto& devices = frame.snapshot.devices;
  return static_cast<int>(std::count_if(
      devices.begin(), devices.end(), [&](const Device& one) { return is_shown(one, settings); }));
}

Line title_line(const watch::Frame& frame, int width) {
  const model::Snapshot& snapshot = frame.snapshot;
  Line line;
  put(line, width, Style::kBold, "berth top");
  std::vector<std::string> parts;
  if (!snapshot.host.hostname.empty()) parts.push_back(printable(snapshot.host.hostname));
  if (!snapshot.driver.version.empty())
    parts.push_back(text("driver {}", printable(snapshot.driver.version)));
  const std::string time = output::show_time(snapshot.unix_milliseconds);
  if (time.size() > 19) parts.push_back(time.substr(11, 8) + " UTC");
  put(line, width, Style::kDim, "   " + output::join(parts, "   "));
  return line;
}

/// Shows the activity values that are known: "SM 60 %, tensor 30 %, NVLink 18 links, 6.3 GiB/s in,
/// 4.7 GiB/s out".
std::string activity_words(const model::DeviceReadings& readings) {
  std::vector<std::string> parts;
  if (readings.sm_active_percent)
    parts.push_back(text("SM {}", output::show_percent(readings.sm_active_percent)));
  if (readings.tensor_active_percent)
    parts.push_back(text("tensor {}", output::show_percent(readings.tensor_active_percent)));
  if (readings.nvlink_rx_bytes_per_second && readings.nvlink_tx_bytes_per_second)
    parts.push_back(text("NVLink {}/s in, {}/s out",
                         show_bytes(*readings.nvlink_rx_bytes_per_second),
                         show_bytes(*readings.nvlink_tx_bytes_per_second)));
  return output::join(parts, ", ");
}

/// Shows NVLinks that are down: "NVLink 16 of 18" if 2 of 18 are down; "" if none is.
std::string missing_links(const model::DeviceReadings& readings) {
  const auto &links = readings.nvlink_links, &most = readings.nvlink_links_max;
  if (!links || !most || *links >= *most) return "";
  return text("NVLink {} of {}", *links, *most);
}

Line device_line(const Device& device, const std::map<int, output::Use>& uses,
                 const Settings& settings, int width) {
  Line line;
  const auto& readings = device.readings;
  const bool is_cpu = device.kind == model::DeviceKind::kCpu;
  put(line, width, Style::kBold,
      column(is_cpu ? std::string(model::word_for(device.kind)) : std::to_string(device.index),
             kNumber, true));
  const auto& use = readings.utilization_percent;
  put(line, width, style_of_use(use.value), draw_bar(use.value, kBar, settings.utf8) + " ");
  put(line, width, Style::kPlain, column(output::show_percent(use), 5, true));
  put(line, width, Style::kPlain,
      column(output::show_used(readings.memory_used_bytes, readings.memory_total_bytes), 18, true));
  put(line, width, Style::kPlain,
      column(readings.power_milliwatts ? show_power(*readings.power_milliwatts) : "-", 6, true));
  const bool is_hot = readings.temperature_celsius.value_or(0) >= kHot;
  put(line, width, is_hot ? Style::kRed : Style::kPlain,
      column(output::show_celsius(readings.temperature_celsius), 6, true));
  const bool is_quiet =
      device.health == model::Health::kOk || device.health == model::Health::kNotChecked;
  if (!is_quiet) {
    std::string words(output::word_for(device.health));
    if (!device.health_reasons.empty()) words += ": " + output::health_words(device);
    if (device.age_seconds) words += ", " + output::show_age(*device.age_seconds);
    put(line, width, output::style_for(device.health), words + "  ");
  }
  if (const std::string links = missing_links(readings); !links.empty())
    put(line, width, Style::kYellow, links + "  ");
  if (const auto found = uses.find(device.index); found != uses.end())
    put(line, width, Style::kCyan, output::show_users(found->second) + "  ");
  else if (model::users_unknown(device) && !model::mute(device))
    put(line, width, Style::kYellow, text("users not known") + "  ");
  put(line, width, Style::kDim, output::short_name(device));
  put(line, width, Style::kDim, "   " + activity_words(readings));
  return line;
}

/// "0:1"
std::string partition_number(const Device& device, const model::Partition& part) {
  return std::to_string(device.index) + ":" + std::to_string(part.index);
}

Line partition_line(const Device& device, const model::Partition& part,
                    const model::Snapshot& snapshot, int width) {
  Line line;
  put(line, width, Style::kPlain, column(partition_number(device, part), kNumber, true));
  const auto& use = part.utilization_percent;
  put(line, width, style_of_use(use.value), std::string(kBar + 1, ' '));
  put(line, width, Style::kPlain, column(output::show_percent(use), 5, true));
  put(line, width, Style::kPlain,
      column(output::show_used(part.memory_used_bytes, part.memory_total_bytes), 18, true));
  std::set<std::string> users;
  for (const DeviceProcess& one : snapshot.processes)
    if (one.partition_uuid == part.uuid && !part.uuid.empty())
      users.insert(one.user.empty() ? "?" : printable(one.user));
  put(line, width, Style::kCyan, output::join({users.begin(), users.end()}, ", ") + "  ");
  put(line, width, Style::kDim, printable(part.name));
  return line;
}

int partitions_shown(const watch::Frame& frame, const Settings& settings) {
  std::size_t count = 0;
  for (const Device& device : frame.snapshot.devices)
    if (is_shown(device, settings)) count += device.partitions.size();
  return static_cast<int>(count);
}

/// Draws the list of devices in at most `most` lines (0: no limit). Leaves out all partitions if
/// there is no room for every one.
std::vector<Line> device_lines(const watch::Frame& frame, const Settings& settings, int width,
                               int most) {
  const auto uses = output::uses_of(frame.snapshot);
  const bool has_room =
      most == 0 || devices_shown(frame, settings) + partitions_shown(frame, settings) <= most;
  std::vector<Line> lines;
  int hidden = 0;
  for (const Device& device : frame.snapshot.devices) {
    if (!is_shown(device, settings)) continue;
    if (most > 0 && static_cast<int>(lines.size()) >= most) {
      ++hidden;
      continue;
    }
    lines.push_back(device_line(device, uses, settings, width));
    if (!has_room && !device.partitions.empty())
      put(lines.back(), width, Style::kDim, text("   {} partitions", device.partitions.size()));
    for (const model::Partition& part : device.partitions)
      if (has_room) lines.push_back(partition_line(device, part, frame.snapshot, width));
  }
  if (hidden > 0) {
    lines.pop_back();
    Line more;
    put(more, width, Style::kDim, text("    and {} more devices", hidden + 1));
    lines.push_back(std::move(more));
  }
  return lines;
}

/// Returns the index of the graph in `settings` within kGraphs.
std::size_t graph_number(const Settings& settings) {
  const auto names = split(std::string_view(kGraphs), '|');
  const auto found = std::find(names.begin(), names.end(), settings.graph);
  return found == names.end() ? 0 : static_cast<std::size_t>(found - names.begin());
}

std::string graph_title(const Device& device, std::size_t reading) {
  const auto& now = device.readings;
  switch (reading) {
    case 1:
      return text("memory {}",
                  now.memory_used_bytes ? show_bytes(*now.memory_used_bytes) : std::string("-"));
    case 2:
      return text("power {}",
                  now.power_milliwatts ? show_power(*now.power_milliwatts) : std::string("-"));
    case 3:
      return text("temperature {}", output::show_celsius(now.temperature_celsius));
    default:
      return text("use {}", output::show_percent(now.utilization_percent));
  }
}

/// Draws the graphs of the first devices, side by side.
std::vector<Line> graph_lines(const watch::Frame& frame, const Series& series,
                              const Settings& settings, int width, int rows) {
  constexpr int kNarrowest = 24;
  std::vector<const Device*> devices;
  for (const Device& device : frame.snapshot.devices)
    if (is_shown(device, settings) && device.kind != model::DeviceKind::kCpu)
      devices.push_back(&device);
  if (devices.empty())
    for (const Device& device : frame.snapshot.devices)
      if (is_shown(device, settings)) devices.push_back(&device);
  if (devices.empty() || rows < 3) return {};
  const auto fits = static_cast<std::size_t>(std::max(1, width / kNarrowest));
  if (devices.size() > fits) devices.resize(fits);
  const int each = width / static_cast<int>(devices.size());
  const std::size_t reading = graph_number(settings);
  std::vector<Line> lines(static_cast<std::size_t>(rows));
  for (const Device* device : devices) {
    const bool is_cpu = device->kind == model::DeviceKind::kCpu;
    const std::string name = (is_cpu ? std::string() : std::to_string(device->index) + " ") +
                             graph_title(*device, reading);
    lines[0].push_back({Style::kBold, output::pad(output::clip(name, each - 1), each)});
    std::vector<std::optional<double>> values;
    for (const Point& point : series.of(*device)) values.push_back(point.value(reading));
    const auto graph = draw_graph(values, each - 1, rows - 1, settings.utf8);
    for (std::size_t row = 0; row < graph.size(); ++row)
      lines[row + 1].push_back({Style::kGreen, graph[row] + " "});
  }
  return lines;
}

struct Column {
  const char* key;    // the column's name in kSortKeys; "": the list cannot be sorted by it
  const char* title;  // msgid
  int width;
  bool to_the_right;
  int drop = 0;  // order in which columns are left out on a narrow screen, largest first; 0: never
};
constexpr std::array<Column, 9> kColumns = {{
    {"device", "dev", kNumber + 1, true},
    {"pid", "pid", 7, true},
    {"user", msgid("user"), 9, false},
    {"", msgid("job"), 5, true, 1},
    {"memory", msgid("memory"), 9, true},
    {"sm", "SM", 5, true},
    {"cpu", "CPU", 6, true, 2},
    {"rss", msgid("host"), 9, true, 3},
    {"age", msgid("age"), 9, true, 4},
}};

/// Returns which columns fit if `least` columns of the screen must stay free. The column by which
/// the list is sorted is always shown.
template <typename Columns>
std::vector<bool> fitting(const Columns& columns, const Settings& settings, int width, int least) {
  std::vector<bool> fits(columns.size(), true);
  int total = least;
  for (const Column& one : columns) total += one.width + 1;
  while (total > width) {
    std::size_t victim = columns.size();
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (fits[i] && columns[i].drop > 0 && order_of(settings) != columns[i].key &&
          (victim == columns.size() || columns[i].drop > columns[victim].drop))
        victim = i;
    if (victim == columns.size()) break;
    fits[victim] = false;
    total -= columns[victim].width + 1;
  }
  return fits;
}

template <typename Columns>
Line heading(const Columns& columns, const std::vector<bool>& fits, const Settings& settings,
             int width) {
  Line line;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (!fits[i]) continue;
    const Column& one = columns[i];
    const bool is_sorted = order_of(settings) == one.key;
    std::string title(tr(one.title));
    if (is_sorted) title += settings.utf8 ? (settings.is_reversed ? "▲" : "▼") : "*";
    put(line, width, is_sorted ? Style::kBold : Style::kDim,
        column(title, one.width, one.to_the_right));
  }
  if (!settings.by_user) put(line, width, Style::kDim, std::string(tr(msgid("command"))));
  return line;
}

/// Returns the indent and the "└" before a child process in the tree.
std::string branch(int depth, bool utf8) {
  if (depth == 0) return "";
  return std::string(2 * static_cast<std::size_t>(std::min(depth, 8) - 1), ' ') +
         (utf8 ? "└ " : "`-");
}

/// Names the device of a process: "0", or "0:1" if the process uses partition 1 of device 0.
std::string place_of(const DeviceProcess& process, const model::Snapshot& snapshot) {
  const Device* const device =
      process.partition_uuid.empty() ? nullptr : output::find_device(snapshot, process.device);
  if (device != nullptr)
    for (const model::Partition& part : device->partitions)
      if (part.uuid == process.partition_uuid) return partition_number(*device, part);
  return std::to_string(process.device);
}

Line process_line(const Row& row, bool is_selected, const model::Snapshot& snapshot,
                  const std::vector<bool>& fits, bool utf8, int width) {
  const DeviceProcess& process = *row.process;
  const auto size = [](const model::Reading<std::uint64_t>& bytes) {
    return bytes ? show_bytes(*bytes) : std::string("-");
  };
  const std::array<std::string, kColumns.size()> cells = {
      (is_selected ? ">" : "") + place_of(process, snapshot),
      process.pid        ? std::to_string(*process.pid)
      : process.host_pid ? "(" + std::to_string(*process.host_pid) + ")"
                         : "-",
      process.user.empty() ? "?" : printable(process.user),
      process.job ? std::to_string(*process.job) : "-",
      size(process.memory_bytes),
      output::show_percent(process.sm_percent),
      output::show_percent(process.cpu_percent),
      size(process.rss_bytes),
      process.age_seconds ? output::show_age(*process.age_seconds) : "-"};
  Line line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!fits[i]) continue;
    put(line, width,
        is_selected                                     ? Style::kBold
        : kColumns[i].title == std::string_view("user") ? Style::kCyan
                                                        : Style::kPlain,
        column(cells[i], kColumns[i].width, kColumns[i].to_the_right));
  }
  if (process.guard_percent)
    put(line, width, Style::kCyan, text("guard {:.0f} %", *process.guard_percent) + " ");
  if (!process.container.empty())
    put(line, width, Style::kDim, output::clip(printable(process.container), 20) + " ");
  put(line, width, is_selected ? Style::kBold : Style::kPlain,
      branch(row.depth, utf8) +
          (process.command.empty() ? "?" : output::short_command(process.command)));
  return line;
}

/// Returns the text for an empty list. It says "no process" only if the users of every device are
/// known.
std::string nobody(const watch::Frame& frame) {
  const model::Snapshot& snapshot = frame.snapshot;
  if (frame.is_early) return text("reading the processes ...");
  if (!snapshot.processes.empty()) return text("no process matches");
  const auto& devices = snapshot.devices;
  return std::any_of(devices.begin(), devices.end(), model::users_unknown)
             ? text("no process is known to use a device")
             : text("no process is on a device");
}

/// Returns the index of the selected row, limited to the number of rows.
int row_of(const Settings& settings, std::size_t rows) {
  return std::clamp(settings.row, 0, std::max(0, static_cast<int>(rows) - 1));
}

constexpr std::array<Column, 7> kUserColumns = {{
    {"user", msgid("user"), 16, false},
    {"", msgid("processes"), 10, true},
    {"device", msgid("devices"), 14, true},
    {"memory", msgid("memory"), 10, true},
    {"sm", "SM", 7, true},
    {"cpu", "CPU", 7, true, 1},
    {"rss", msgid("host"), 10, true, 2},
}};

/// Formats a sum. A "+" at the end means that some processes' values are unknown, so the real sum
/// may be larger.
std::string sum_text(const Sum& sum, bool is_bytes) {
  if (!sum.is_known) return "-";
  return (is_bytes ? show_bytes(static_cast<std::uint64_t>(sum.value))
                   : fmt::format("{:.0f} %", sum.value)) +
         (sum.is_whole ? "" : "+");
}

Line user_line(const UserRow& row, bool is_selected, const std::vector<bool>& fits, int width) {
  std::vector<std::string> devices;
  for (const int one : row.devices) devices.push_back(std::to_string(one));
  const std::array<std::string, kUserColumns.size()> cells = {
      (is_selected ? ">" : "") + (row.user.empty() ? std::string("?") : printable(row.user)),
      std::to_string(row.processes),
      output::join(devices, ","),
      sum_text(row.memory_bytes, true),
      sum_text(row.sm_percent, false),
      sum_text(row.cpu_percent, false),
      sum_text(row.rss_bytes, true)};
  Line line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!fits[i]) continue;
    put(line, width,
        is_selected ? Style::kBold
        : i == 0    ? Style::kCyan
                    : Style::kPlain,
        column(cells[i], kUserColumns[i].width, kUserColumns[i].to_the_right));
  }
  return line;
}

/// Returns which columns of the list that the settings choose fit into this width.
std::vector<bool> columns_that_fit(const Settings& settings, int width) {
  return settings.by_user ? fitting(kUserColumns, settings, width, 0)
                          : fitting(kColumns, settings, width, output::kLeastText);
}

/// The index of the first visible row in a list that shows `room` rows.
int first_row(const Settings& settings, std::size_t rows, int room) {
  const int last = std::max(0, static_cast<int>(rows) - room);
  return std::clamp(row_of(settings, rows) - room / 2, 0, last);
}

std::vector<Line> list_lines(const watch::Frame& frame, const Settings& settings, int width,
                             int most) {
  const auto users = settings.by_user ? users_of(frame, settings) : std::vector<UserRow>{};
  const auto rows = settings.by_user ? std::vector<Row>{} : rows_of(frame, settings);
  const std::size_t count = settings.by_user ? users.size() : rows.size();
  std::vector<Line> lines;
  const std::vector<bool> fits = columns_that_fit(settings, width);
  lines.push_back(settings.by_user ? heading(kUserColumns, fits, settings, width)
                                   : heading(kColumns, fits, settings, width));
  const int room = most > 0 ? most - 1 : static_cast<int>(count);
  const int first = first_row(settings, count, room), selected = row_of(settings, count);
  for (int i = first; i < static_cast<int>(count) && i - first < room; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool is_selected = settings.has_row && i == selected;
    lines.push_back(settings.by_user ? user_line(users[at], is_selected, fits, width)
                                     : process_line(rows[at], is_selected, frame.snapshot, fits,
                                                    settings.utf8, width));
  }
  if (count == 0 && (room > 0 || most == 0)) {
    Line none;
    put(none, width, Style::kDim, nobody(frame));
    lines.push_back(std::move(none));
  }
  return lines;
}

/// Returns the sort key of the column at position `x` of the heading; "" if the list cannot be
/// sorted by it.
template <typename Columns>
std::string key_at(const Columns& columns, const std::vector<bool>& fits, int x) {
  int begin = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (!fits[i]) continue;
    const Column& one = columns[i];
    if (x >= begin && x <= begin + one.width) return one.key;
    begin += one.width + 1;
  }
  return "";
}

Line bottom_line(const Settings& settings, int width) {
  Line line;
  if (const std::string& said = settings.question.empty() ? settings.message : settings.question;
      !said.empty()) {
    put(line, width, settings.question.empty() ? Style::kYellow : Style::kBold, said);
    return line;
  }
  if (settings.types_filter) {
    put(line, width, Style::kBold, text("filter: {}", printable(settings.filter)) + "_");
    put(line, width, Style::kDim, "   " + text("Enter keeps it, Esc clears it"));
    return line;
  }
  if (settings.shows_queue) {
    put(line, width, Style::kDim,
        text("q quit   up, down select   c cancel   H hold or release   Q processes   ? help"));
    return line;
  }
  put(line, width, Style::kDim,
      text("q quit   s sort: {}   / filter   t tree   u users   g graphs   ? help",
           order_of(settings)));
  if (!settings.filter.empty())
    put(line, width, Style::kBold, "   " + text("filter: {}", printable(settings.filter)));
  return line;
}

std::vector<Line> help_lines(const watch::Frame& frame, int width) {
  std::vector<std::string> rows = {
      text("q            quit"),
      text("s            sort by the next column; M memory, P SM, U user"),
      text("r            reverse the order"),
      text("/            show only processes that contain what you type"),
      text("t            children below their parents; again: a list"),
      text("u            one row per user; +: at least this much, because some values are unknown"),
      text("g            graphs on or off"),
      text("G            the graphs show use, memory, power (of its limit) or temperature"),
      text("T            the next theme: dark, light, mono"),
      text("up, down     select a process, also j, k, page up, page down, the mouse"),
      text("click        selects a process; on a column: sorts by it"),
      text("x            send a signal to the selected process; asks before it does"),
      text("Q            the queue: what runs, what waits and why; c cancels, H holds or releases"),
      text("space        in a replay: pause; left, right: one frame back or forward"),
      text("left, right  with --host: another machine"),
      "",
      text("SM is a process's share of the device's time, as the driver reports it. All processes "
           "of a device share 100 %."),
      text("guard: the device time of your own guarded processes, as measured by Berth's guard."),
      text("A reading that the driver does not have is \"-\", never 0."),
      text("watching costs {:.2f} % of a core, and {:.1f} ms of the driver's time per second",
           frame.cost.cpu_seconds / std::max(frame.cost.wall_seconds, 1.0) * 100,
           frame.cost.driver_seconds / std::max(frame.cost.wall_seconds, 1.0) * 1000)};
  for (const std::string& note : frame.snapshot.notes) rows.push_back(printable(note));
  std::vector<Line> lines;
  for (const std::string& row : rows) {
    Line line;
    put(line, width, Style::kPlain, row);
    lines.push_back(std::move(line));
  }
  return lines;
}

/// The number of lines that each part of the screen gets.
struct Shares {
  int devices = 0, graphs = 0, processes = 0;  // 0: no limit
  int list_top = 0;                            // line number of the list's heading
};

Shares shares_of(const watch::Frame& frame, const Settings& settings, int height) {
  const int devices = devices_shown(frame, settings);
  Shares shares;
  const int room = std::max(3, height - 3);  // without the title, the gap and the line of keys
  const int all = devices + partitions_shown(frame, settings);
  // Show partitions only if all devices and partitions take at most 3/5 of the room. The processes
  // get the rest.
  const int wanted = all <= room * 3 / 5 ? all : devices;
  shares.devices = std::max(1, std::min(wanted, std::max(1, room - kLeastProcessLines)));
  int left = room - shares.devices;
  if (settings.has_graphs && left >= kLeastProcessLines + 5) {
    shares.graphs = std::min(8, left - kLeastProcessLines - 1);
    left -= shares.graphs + 1;
  }
  shares.processes = std::max(1, left);
  shares.list_top = 1 + shares.devices + 1 + (shares.graphs > 0 ? shares.graphs + 1 : 0);
  return shares;
}

}  // namespace

const model::DeviceProcess* selected_process(const watch::Frame& frame, const Settings& settings) {
  if (!settings.has_row || settings.by_user) return nullptr;
  const auto rows = rows_of(frame, settings);
  if (rows.empty()) return nullptr;
  return rows[static_cast<std::size_t>(row_of(settings, rows.size()))].process;
}

void click(const watch::Frame& frame, Settings& settings, int width, int height, int x, int y) {
  const Shares shares = shares_of(frame, settings, height);
  const int top = shares.list_top;
  if (y == top) {
    const std::vector<bool> fits = columns_that_fit(settings, width);
    const std::string key =
        settings.by_user ? key_at(kUserColumns, fits, x) : key_at(kColumns, fits, x);
    if (key.empty()) return;
    settings.is_reversed = order_of(settings) == key && !settings.is_reversed;
    settings.sort = key;
    return;
  }
  const std::size_t count =
      settings.by_user ? users_of(frame, settings).size() : rows_of(frame, settings).size();
  const int row = first_row(settings, count, shares.processes - 1) + y - top - 1;
  if (y <= top || y >= top + shares.processes || row >= static_cast<int>(count)) return;
  settings.row = row;
  settings.has_row = true;
}

std::vector<Line> draw(const watch::Frame& frame, const Series& series, const Settings& settings,
                       int width, int height, const Queue& queue) {
  const bool is_bounded = height > 0;
  const Shares shares = is_bounded ? shares_of(frame, settings, height) : Shares{};
  std::vector<Line> lines;
  const auto add = [&lines](std::vector<Line>&& more) {
    std::move(more.begin(), more.end(), std::back_inserter(lines));
  };
  lines.push_back(title_line(frame, width));
  if (settings.shows_help) {
    lines.emplace_back();
    add(help_lines(frame, width));
  } else {
    add(device_lines(frame, settings, width, shares.devices));
    lines.emplace_back();
    if (shares.graphs > 0) {
      add(graph_lines(frame, series, settings, width, shares.graphs));
      lines.emplace_back();
    }
    if (settings.shows_queue)
      add(queue_lines(queue, settings.row, settings.has_row, width, shares.processes));
    else
      add(list_lines(frame, settings, width, shares.processes));
  }
  if (!is_bounded) return lines;
  lines.resize(static_cast<std::size_t>(std::max(1, height - 1)));
  if (height > 1) lines.push_back(bottom_line(settings, width));
  return lines;
}

}  // namespace berth::top
