#include "top/draw.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "output/words.hpp"
#include "top/graph.hpp"

namespace berth::top {

namespace {

using model::Device;
using model::DeviceProcess;
using output::Style;

constexpr int kBar = 8;
constexpr int kLeastProcessLines = 4;  // one line for the heading and three for rows
constexpr double kHot = 85;            // degrees Celsius

int width_of(const Line& line) {
  int width = 0;
  for (const Span& span : line) width += output::display_width(span.text);
  return width;
}

/// Adds as much of the text as fits, followed by a blank.
void put(Line& line, int width, Style style, const std::string& text) {
  const int left = width - width_of(line);
  if (left > 0) line.push_back({style, output::clip(text, left)});
}

std::string column(std::string_view text, int columns, bool to_the_right) {
  return output::pad(output::clip(text, columns), columns, to_the_right) + " ";
}

Style style_of_use(std::optional<double> percent) {
  if (!percent) return Style::kDim;
  return *percent >= 50 ? Style::kGreen : Style::kPlain;
}

bool is_shown(const Device& device, const Settings& settings) {
  return settings.devices.empty() || settings.devices.contains(device.index);
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

Line device_line(const Device& device, const std::map<int, output::Use>& uses,
                 const Settings& settings, int width) {
  Line line;
  const auto& readings = device.readings;
  const bool is_cpu = device.kind == model::DeviceKind::kCpu;
  put(line, width, Style::kBold,
      column(is_cpu ? std::string(model::word_for(device.kind)) : std::to_string(device.index), 3,
             true));
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
  if (const auto found = uses.find(device.index); found != uses.end())
    put(line, width, Style::kCyan, output::show_users(found->second) + "  ");
  else if (model::users_unknown(device) && !model::mute(device))
    put(line, width, Style::kYellow, text("users not known") + "  ");
  put(line, width, Style::kDim, output::short_name(device));
  return line;
}

std::vector<Line> device_lines(const watch::Frame& frame, const Settings& settings, int width,
                               int most) {
  const auto uses = output::uses_of(frame.snapshot);
  std::vector<Line> lines;
  int hidden = 0;
  for (const Device& device : frame.snapshot.devices) {
    if (!is_shown(device, settings)) continue;
    if (most > 0 && static_cast<int>(lines.size()) >= most) {
      ++hidden;
      continue;
    }
    lines.push_back(device_line(device, uses, settings, width));
  }
  if (hidden > 0) {
    lines.pop_back();
    Line more;
    put(more, width, Style::kDim, text("    and {} more devices", hidden + 1));
    lines.push_back(std::move(more));
  }
  return lines;
}

/// The graphs of the first devices, side by side.
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
  std::vector<Line> lines(static_cast<std::size_t>(rows));
  for (const Device* device : devices) {
    const bool is_cpu = device->kind == model::DeviceKind::kCpu;
    const std::string name =
        (is_cpu ? std::string() : std::to_string(device->index) + " ") +
        text("use {}", output::show_percent(device->readings.utilization_percent));
    lines[0].push_back({Style::kBold, output::pad(output::clip(name, each - 1), each)});
    std::vector<std::optional<double>> values;
    for (const Point& point : series.of(*device)) values.push_back(point.use);
    const auto graph = draw_graph(values, each - 1, rows - 1, settings.utf8);
    for (std::size_t row = 0; row < graph.size(); ++row)
      lines[row + 1].push_back({Style::kGreen, graph[row] + " "});
  }
  return lines;
}

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return small;
}

bool matches(const DeviceProcess& process, const Settings& settings) {
  if (!settings.devices.empty() && !settings.devices.contains(process.device)) return false;
  if (!settings.user.empty() && process.user != settings.user &&
      !(process.uid && std::to_string(*process.uid) == settings.user))
    return false;
  if (settings.filter.empty()) return true;
  const std::string all = fmt::format(
      "{} {} {} {} {}", process.pid.value_or(process.host_pid.value_or(0)), process.user,
      process.job ? "job " + std::to_string(*process.job) : "", process.container, process.command);
  return lower(all).find(lower(settings.filter)) != std::string::npos;
}

/// Whether `a` is sorted before `b`. Numbers are in descending order, unknown ones last; texts are
/// in ascending order.
bool comes_before(const DeviceProcess& a, const DeviceProcess& b, const std::string& sort) {
  const auto by = [](const auto& x, const auto& y) {
    if (x.has_value() != y.has_value()) return x.has_value();
    return x && *x > *y;
  };
  if (sort == "sm") return by(a.sm_percent.value, b.sm_percent.value);
  if (sort == "cpu") return by(a.cpu_percent.value, b.cpu_percent.value);
  if (sort == "rss") return by(a.rss_bytes.value, b.rss_bytes.value);
  if (sort == "age") return by(a.age_seconds.value, b.age_seconds.value);
  if (sort == "user") return a.user < b.user;
  if (sort == "pid") return a.host_pid.value_or(0) < b.host_pid.value_or(0);
  if (sort == "device") return a.device < b.device;
  return by(a.memory_bytes.value, b.memory_bytes.value);
}

std::vector<const DeviceProcess*> shown_processes(const watch::Frame& frame,
                                                  const Settings& settings) {
  std::vector<const DeviceProcess*> rows;
  for (const DeviceProcess& process : frame.snapshot.processes)
    if (matches(process, settings)) rows.push_back(&process);
  std::stable_sort(rows.begin(), rows.end(), [&](const auto* a, const auto* b) {
    return comes_before(*a, *b, settings.sort);
  });
  if (settings.is_reversed) std::reverse(rows.begin(), rows.end());
  return rows;
}

struct Column {
  const char* key;    // one of kSortKeys; "": cannot be sorted
  const char* title;  // msgid
  int width;
  bool to_the_right;
};
constexpr std::array<Column, 9> kColumns = {{
    {"device", "dev", 3, true},
    {"pid", "pid", 7, true},
    {"user", msgid("user"), 9, false},
    {"", msgid("job"), 5, true},
    {"memory", msgid("memory"), 9, true},
    {"sm", "SM", 5, true},
    {"cpu", "CPU", 6, true},
    {"rss", msgid("host"), 9, true},
    {"age", msgid("age"), 9, true},
}};

Line heading(const Settings& settings, int width) {
  Line line;
  for (const Column& one : kColumns) {
    const bool is_sorted = settings.sort == one.key;
    std::string title(tr(one.title));
    if (is_sorted) title += settings.utf8 ? (settings.is_reversed ? "▲" : "▼") : "*";
    put(line, width, is_sorted ? Style::kBold : Style::kDim,
        column(title, one.width, one.to_the_right));
  }
  put(line, width, Style::kDim, std::string(tr(msgid("command"))));
  return line;
}

Line process_line(const DeviceProcess& process, bool is_selected, int width) {
  const auto size = [](const model::Reading<std::uint64_t>& bytes) {
    return bytes ? show_bytes(*bytes) : std::string("-");
  };
  const std::array<std::string, kColumns.size()> cells = {
      (is_selected ? ">" : "") + std::to_string(process.device),
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
  for (std::size_t i = 0; i < cells.size(); ++i)
    put(line, width,
        is_selected                                     ? Style::kBold
        : kColumns[i].title == std::string_view("user") ? Style::kCyan
                                                        : Style::kPlain,
        column(cells[i], kColumns[i].width, kColumns[i].to_the_right));
  if (!process.container.empty())
    put(line, width, Style::kDim, output::clip(printable(process.container), 20) + " ");
  put(line, width, is_selected ? Style::kBold : Style::kPlain,
      process.command.empty() ? "?" : output::short_command(process.command));
  return line;
}

/// An empty list means "no process" only if every device answered.
std::string nobody(const model::Snapshot& snapshot) {
  if (!snapshot.processes.empty()) return text("no process matches");
  const auto& devices = snapshot.devices;
  return std::any_of(devices.begin(), devices.end(), model::users_unknown)
             ? text("no process is known to use a device")
             : text("no process is on a device");
}

/// The selected row, within the list.
int row_of(const Settings& settings, std::size_t rows) {
  return std::clamp(settings.row, 0, std::max(0, static_cast<int>(rows) - 1));
}

std::vector<Line> process_lines(const watch::Frame& frame, const Settings& settings, int width,
                                int most) {
  const auto rows = shown_processes(frame, settings);
  std::vector<Line> lines;
  lines.push_back(heading(settings, width));
  const int room = most > 0 ? most - 1 : static_cast<int>(rows.size());
  const int last = std::max(0, static_cast<int>(rows.size()) - room);
  const int selected = row_of(settings, rows.size());
  const int first = std::clamp(selected - room / 2, 0, last);
  for (int i = first; i < static_cast<int>(rows.size()) && i - first < room; ++i)
    lines.push_back(
        process_line(*rows[static_cast<std::size_t>(i)], settings.has_row && i == selected, width));
  if (rows.empty() && (room > 0 || most == 0)) {
    Line none;
    put(none, width, Style::kDim, nobody(frame.snapshot));
    lines.push_back(std::move(none));
  }
  return lines;
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
      text("q quit   s sort: {}   r reverse   / filter   g graphs   ? help", settings.sort));
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
      text("g            graphs on or off"),
      text("up, down     select a process, also j, k, page up, page down, the mouse wheel"),
      text("x            send a signal to the selected process, after a question"),
      text("Q            the queue: what runs, what waits and why; c cancels, H holds or releases"),
      text("space        of a replay: pause; left, right: one frame back or on"),
      "",
      text("SM is the driver's time share of a process; a device in use by several shares 100 %."),
      text("A reading that the driver does not have is \"-\", never 0."),
      text("watching costs {:.2f} % of a core, and {:.1f} ms of the driver's time a second",
           frame.cost.cpu_seconds / std::max(frame.cost.wall_seconds, 1.0) * 100,
           frame.cost.driver_seconds / std::max(frame.cost.wall_seconds, 1.0) * 1000)};
  std::vector<Line> lines;
  for (const std::string& row : rows) {
    Line line;
    put(line, width, Style::kPlain, row);
    lines.push_back(std::move(line));
  }
  return lines;
}

/// The number of lines of each part.
struct Shares {
  int devices = 0, graphs = 0, processes = 0;  // 0: no limit
};

Shares shares_of(const watch::Frame& frame, const Settings& settings, int height) {
  const auto devices =
      static_cast<int>(std::count_if(frame.snapshot.devices.begin(), frame.snapshot.devices.end(),
                                     [&](const Device& one) { return is_shown(one, settings); }));
  Shares shares;
  const int room =
      std::max(3, height - 3);  // height without the title, the gap and the line of keys
  shares.devices = std::max(1, std::min(devices, std::max(1, room - kLeastProcessLines)));
  int left = room - shares.devices;
  if (settings.has_graphs && left >= kLeastProcessLines + 5) {
    shares.graphs = std::min(8, left - kLeastProcessLines - 1);
    left -= shares.graphs + 1;
  }
  shares.processes = std::max(1, left);
  return shares;
}

}  // namespace

const model::DeviceProcess* selected_process(const watch::Frame& frame, const Settings& settings) {
  const auto rows = shown_processes(frame, settings);
  if (!settings.has_row || rows.empty()) return nullptr;
  return rows[static_cast<std::size_t>(row_of(settings, rows.size()))];
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
      add(process_lines(frame, settings, width, shares.processes));
  }
  if (!is_bounded) return lines;
  lines.resize(static_cast<std::size_t>(std::max(1, height - 1)));
  if (height > 1) lines.push_back(bottom_line(settings, width));
  return lines;
}

}  // namespace berth::top
