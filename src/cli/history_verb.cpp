// `berth history` and `berth usage`: the daemon's records of devices and their users.
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/history_file.hpp"
#include "cli/plan_request.hpp"
#include "cli/verbs.hpp"
#include "job/prices.hpp"
#include "output/table.hpp"
#include "output/words.hpp"
#include "serve/watch_json.hpp"
#include "system/runtime_folder.hpp"
#include "top/graph.hpp"
#include "watch/history.hpp"

namespace berth::cli {
namespace {

using serve::Period;
using watch::DeviceHistory;
using watch::Moment;
using watch::Series;
using watch::UsageRow;

Result<Period> asked_of(const Arguments& arguments, std::chrono::milliseconds usual) {
  Period asked;
  asked.to = std::chrono::duration_cast<std::chrono::seconds>(
                 std::chrono::system_clock::now().time_since_epoch())
                 .count() +
             1;
  auto since = usual;
  if (const auto given = arguments.value("--since")) {
    const auto duration = parse_duration(*given);
    if (!duration) return Error(duration.error()).during("--since");
    since = *duration;
  }
  asked.from =
      asked.to - std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(since).count());
  if (const auto given = arguments.value("--step")) {
    const auto duration = parse_duration(*given);
    if (!duration) return Error(duration.error()).during("--step");
    asked.step =
        std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(*duration).count());
  }
  return asked;
}

/// The time step in seconds with which the table has about thirty rows.
std::int64_t table_step(const Period& asked) {
  constexpr std::int64_t kMostRows = 30;
  for (const std::int64_t step : {1, 10, 30, 60, 300, 600, 1800, 3600, 10'800, 21'600, 86'400})
    if ((asked.to - asked.from) / step <= kMostRows) return step;
  return 7 * watch::kDay;
}

std::string time_of(std::int64_t seconds) {
  const std::string time = output::show_time(seconds * 1000);
  return time.size() < 19 ? "-" : time.substr(0, 10) + " " + time.substr(11, 8);
}

const std::optional<double>& value_of(const Moment& moment, Series series) {
  return moment[static_cast<std::size_t>(series)];
}

std::string history_table(const std::vector<DeviceHistory>& devices, const Period& asked,
                          const output::Terminal& terminal) {
  output::Table table({{text("time (UTC)")},
                       {text("device"), true},
                       {text("use"), true},
                       {text("memory"), true},
                       {text("power"), true},
                       {text("temperature"), true},
                       {"SM MHz", true}});
  const std::int64_t step = asked.step != 0 ? asked.step : table_step(asked);
  for (const DeviceHistory& device : devices)
    for (const auto& [time, moment] : serve::in_steps(device, std::max(step, device.step))) {
      const auto number = [&m = moment](Series series, const char* unit) {
        const auto& value = value_of(m, series);
        return value ? fmt::format("{:.0f}{}", *value, unit) : std::string("-");
      };
      const auto& memory = value_of(moment, Series::kMemoryUsed);
      const auto& power = value_of(moment, Series::kPower);
      table.add({time_of(time), device.key == "cpu" ? "CPU" : std::to_string(device.index),
                 number(Series::kUtilization, " %"),
                 memory ? show_bytes(static_cast<std::uint64_t>(*memory)) : "-",
                 power ? show_power(static_cast<std::uint64_t>(*power)) : "-",
                 number(Series::kTemperature, " °C"), number(Series::kClockSm, "")});
    }
  return table.render(terminal);
}

/// Formats a number without an exponent, because not every program can read exponents.
std::string csv_number(double value) {
  constexpr double kLarge = 1e6;  // larger values are bytes or millijoules, which need no fraction
  return value < kLarge ? fmt::format(",{:.10g}", value) : fmt::format(",{:.0f}", value);
}

std::string history_csv(const std::vector<DeviceHistory>& devices, const Period& asked) {
  std::string csv = "time,device,uuid";
  for (std::size_t i = 0; i < watch::kSeriesCount; ++i)
    csv += fmt::format(",{}", watch::name(static_cast<Series>(i)));
  csv += "\n";
  for (const DeviceHistory& device : devices)
    for (const auto& [time, moment] : serve::in_steps(device, std::max(asked.step, device.step))) {
      csv += fmt::format("{},{},{}", output::show_time(time * 1000), device.index, device.key);
      for (const auto& value : moment) csv += value ? csv_number(*value) : ",";
      csv += "\n";
    }
  return csv;
}

std::string history_plot(const std::vector<DeviceHistory>& devices, const Period& asked,
                         const output::Terminal& terminal) {
  constexpr int kHeight = 4, kLabels = 6;
  const int columns = std::max(10, terminal.width - kLabels);
  const auto slots = static_cast<std::size_t>(columns) * (terminal.utf8 ? 2 : 1);
  std::string plot;
  for (const DeviceHistory& device : devices) {
    const auto values = serve::in_parts(device, asked, Series::kUtilization, slots);
    plot += fmt::format("{} {}\n", device.key == "cpu" ? "CPU" : std::to_string(device.index),
                        device.name);
    const auto lines = top::draw_graph(values, columns, kHeight, terminal.utf8);
    for (std::size_t row = 0; row < lines.size(); ++row)
      plot += (row == 0                  ? "100 % "
               : row + 1 == lines.size() ? "  0 % "
                                         : "      ") +
              lines[row] + "\n";
  }
  return plot + "      " + time_of(asked.from) + "  –  " + time_of(asked.to) + " UTC\n";
}

std::string hours(double seconds) {
  return fmt::format("{:.2f}", seconds / 3600);
}

std::string bytes_or_dash(const std::optional<double>& bytes) {
  return bytes ? show_bytes(static_cast<std::uint64_t>(*bytes)) : "-";
}

std::string asked_words(const watch::Usage& usage) {
  if (!usage.asked_memory_bytes) return "-";
  return *usage.asked_memory_bytes == 0 ? text("whole GPUs")
                                        : bytes_or_dash(usage.asked_memory_bytes);
}

std::string usage_table(const std::vector<serve::UsageSum>& sums, const std::string& by,
                        const model::UsagePrices& prices, const output::Terminal& terminal) {
  std::vector<output::Column> columns = {{std::string(tr(by == "job"       ? msgid("job")
                                                         : by == "command" ? msgid("command")
                                                                           : msgid("user")))},
                                         {text("GPU-hours held"), true},
                                         {text("used"), true},
                                         {text("held without use"), true},
                                         {text("use, p95"), true, 0, 2},
                                         {text("requested"), true, 0, 1},
                                         {text("memory, p95"), true},
                                         {text("peak"), true, 0, 3},
                                         {text("next time")},
                                         {text("energy"), true, 0, 4}};
  if (prices.any()) columns.push_back({text("cost"), true});
  output::Table table(std::move(columns));
  for (const serve::UsageSum& one : sums) {
    const watch::Usage& usage = one.usage;
    const bool is_known = usage.known_seconds > 0;
    const auto& share = one.utilization_p95_percent;
    std::vector<output::Cell> cells = {one.name,
                                       hours(usage.held_seconds),
                                       is_known ? hours(usage.used_seconds) : "-",
                                       is_known ? hours(usage.idle_seconds) : "-",
                                       share ? fmt::format("{:.0f} %", *share) : "-",
                                       by == "user" ? "" : asked_words(usage),
                                       bytes_or_dash(one.memory_p95_bytes),
                                       bytes_or_dash(usage.peak_memory_bytes),
                                       one.next,
                                       fmt::format("{:.1f} Wh", usage.energy_joules / 3600)};
    if (prices.any()) {
      const auto cost = model::cost_of(usage.held_seconds, usage.energy_joules, prices);
      cells.push_back(cost ? output::show_price(*cost, prices.currency) : "-");
    }
    table.add(std::move(cells));
  }
  return table.render(terminal);
}

/// Seconds as a value for --since, rounded up: "45m", "3h", "12d".
std::string since_words(std::int64_t seconds) {
  constexpr std::int64_t kHour = 3600;
  const auto rounded_up = [&](std::int64_t unit) { return (seconds + unit - 1) / unit; };
  if (seconds < kHour) return fmt::format("{}m", rounded_up(60));
  if (seconds < 2 * watch::kDay) return fmt::format("{}h", rounded_up(kHour));
  return fmt::format("{}d", rounded_up(watch::kDay));
}

Result<model::UsagePrices> prices_of(const Arguments& arguments) {
  auto prices = job::read_prices();
  if (!prices) return prices.error();
  for (const auto& [option, price] : {std::pair{"--gpu-hour-price", &prices->gpu_hour},
                                      std::pair{"--power-price", &prices->kwh}}) {
    if (!arguments.has(option)) continue;
    const auto given = amount(arguments, option, 0, 1e6, true, "berth help usage");
    if (!given) return given.error();
    *price = *given;
  }
  return prices;
}

Result<int> print_usage(const Context& context, const char* verb,
                        const watch::HistoryReader& reader, const Period& asked,
                        const std::string& by, const model::UsagePrices& prices) {
  const auto user = context.arguments.value("--user"), job = context.arguments.value("--job");
  const auto sums =
      serve::usage_sums(reader.usage(asked.from, asked.to), by, [&](const UsageRow& row) {
        return (!user || row.key.user == *user) && (!job || std::to_string(row.key.job) == *job);
      });
  if (context.json) {
    context.out(serve::usage_json(sums, by, asked, prices));
    return 0;
  }
  if (sums.empty())
    return nothing_kept(reader, asked.from, asked.to,
                        text("no use of a device is recorded for this period"), verb);
  context.out(usage_table(sums, by, prices, context.out_terminal));
  return 0;
}

}  // namespace

Result<watch::HistoryReader> open_history() {
  const std::string own = watch::history_file(system::state_folder());
  const std::string shared = watch::history_file(system::kSystemState);
  const bool has_own = ::access(own.c_str(), F_OK) == 0;
  return watch::HistoryReader::open(!has_own && ::access(shared.c_str(), F_OK) == 0 ? shared : own);
}

Error nothing_kept(const watch::HistoryReader& reader, std::int64_t from, std::int64_t now,
                   const std::string& what, const std::string& verb) {
  const auto first = reader.begin();
  if (!first)
    return {ErrorCode::kNotFound, "E0986",
            text("nothing is recorded yet: {} writes the first readings {} s after its start",
                 "berth serve", watch::kWriteEvery),
            "berth " + verb};
  if (*first >= from)
    return {ErrorCode::kNotFound, "E0986",
            text("{}; the oldest readings are from {} (UTC)", what, time_of(*first)),
            "berth history"};
  return {ErrorCode::kNotFound, "E0986", what,
          fmt::format("berth {} --since {}", verb, since_words(now - *first))};
}

Result<int> run_history(const Context& context) {
  const Arguments& arguments = context.arguments;
  const auto asked = asked_of(arguments, std::chrono::hours(1));
  if (!asked) return asked.error();
  const auto reader = open_history();
  if (!reader) return reader.error();
  if (arguments.has("--user") || arguments.has("--job"))
    return print_usage(context, "history", *reader, *asked,
                       arguments.has("--job") ? "command" : "job", {});
  std::vector<std::string> names;
  for (const std::string& list : arguments.values("--device"))
    for (const std::string_view one : split(list, ',')) names.emplace_back(one);
  const auto devices = reader->devices({asked->from, asked->to, asked->step, names});
  const std::string format = context.json ? "json" : arguments.value("--format").value_or("table");
  if (format == "json") {
    context.out(serve::history_json(devices, *asked));
    return 0;
  }
  const bool is_empty = std::all_of(devices.begin(), devices.end(),
                                    [](const auto& one) { return one.moments.empty(); });
  if (is_empty)
    return nothing_kept(*reader, asked->from, asked->to,
                        text("no readings of these devices are recorded for this period"),
                        "history");
  context.out(format == "csv" ? history_csv(devices, *asked)
              : format == "plot"
                  ? context.out_terminal.spell(history_plot(devices, *asked, context.out_terminal))
                  : history_table(devices, *asked, context.out_terminal));
  return 0;
}

Result<int> run_usage(const Context& context) {
  const auto asked = asked_of(context.arguments, std::chrono::hours(24 * 30));
  if (!asked) return asked.error();
  const auto reader = open_history();
  if (!reader) return reader.error();
  const auto prices = prices_of(context.arguments);
  if (!prices) return prices.error();
  return print_usage(context, "usage", *reader, *asked,
                     context.arguments.value("--by").value_or("user"), *prices);
}

}  // namespace berth::cli
