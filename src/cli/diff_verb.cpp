// `berth diff`: what changed on the devices between two periods, from the daemon's history.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "cli/history_file.hpp"
#include "cli/verbs.hpp"
#include "output/json_writer.hpp"
#include "output/table.hpp"
#include "output/words.hpp"
#include "serve/changes.hpp"

namespace berth::cli {
namespace {

using serve::DeviceChanges;
using serve::Windows;
using watch::Series;

constexpr std::int64_t kMinutesKept = 7 * watch::kDay;

/// Parses the whole text with strptime(3). Fields of `parts` that the format does not set keep
/// their values.
bool reads_as(const std::string& text, const char* form, std::tm& parts) {
  std::tm read = parts;
  const char* const end = ::strptime(text.c_str(), form, &read);
  if (end == nullptr || *end != '\0') return false;
  parts = read;
  return true;
}

/// Parses "14:02", "14:02:30", "2026-11-23 14:02" in local time, or in UTC with a "Z". A time of
/// day without date means its last occurrence.
std::optional<std::int64_t> time_in(std::string text, std::int64_t now) {
  const bool is_utc = text.ends_with('Z');
  if (is_utc) text.pop_back();
  std::replace(text.begin(), text.end(), 'T', ' ');
  const std::time_t today = now;
  std::tm parts = {};
  if ((is_utc ? ::gmtime_r(&today, &parts) : ::localtime_r(&today, &parts)) == nullptr)
    return std::nullopt;
  parts.tm_sec = 0;
  parts.tm_isdst = -1;
  const bool is_of_day = reads_as(text, "%H:%M:%S", parts) || reads_as(text, "%H:%M", parts);
  if (!is_of_day && !reads_as(text, "%Y-%m-%d %H:%M:%S", parts) &&
      !reads_as(text, "%Y-%m-%d %H:%M", parts))
    return std::nullopt;
  const auto seconds_of = [&] { return is_utc ? ::timegm(&parts) : ::mktime(&parts); };
  std::time_t time = seconds_of();
  if (is_of_day && time > now) {
    --parts.tm_mday;
    parts.tm_isdst = -1;
    time = seconds_of();
  }
  return time;
}

std::string local_time_of(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts = {};
  std::array<char, 32> text{};
  if (::localtime_r(&time, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%F %T", &parts) == 0)
    return "-";
  return text.data();
}

struct Asked {
  Windows windows;
  std::int64_t at = 0, length = 0;
};

Result<std::int64_t> seconds_in(const Arguments& arguments, const char* option,
                                std::int64_t usual) {
  const auto given = arguments.value(option);
  if (!given) return usual;
  const auto duration = parse_duration(*given);
  if (!duration) return Error(duration.error()).during(option);
  return std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(*duration).count());
}

Result<Asked> asked_of(const Arguments& arguments, std::int64_t now) {
  const auto at = arguments.value("--at");
  if (at && arguments.has("--since")) return contradiction("--at", "--since");
  const auto length = seconds_in(arguments, "--window", 300);
  if (!length) return length.error();
  const auto since = seconds_in(arguments, "--since", 600);
  if (!since) return since.error();
  Asked asked;
  asked.length = *length;
  asked.at = now - *since;
  if (at) {
    const auto time = time_in(*at, now);
    if (!time)
      return Error{
          ErrorCode::kInvalidArgument, "E0964",
          text("--at is a time such as 14:02 or 2026-11-23T14:02Z, not '{}'", printable(*at)),
          "berth diff --at 14:02"};
    if (*time > now)
      return Error{ErrorCode::kInvalidArgument, "E0964",
                   text("{} is in the future", local_time_of(*time)), "berth diff --since 10m"};
    asked.at = *time;
  }
  // With --since, the two periods are a past time and now. With --at, they are the time before the
  // moment and the time after it.
  const std::int64_t after = at ? asked.at : std::max(asked.at, now - *length);
  asked.windows = {asked.at - *length, asked.at, after, std::min(after + *length, now + 1)};
  return asked;
}

std::string word_of(Series series) {
  switch (series) {
    case Series::kUtilization:
      return text("use");
    case Series::kMemoryUtilization:
      return text("memory bus");
    case Series::kMemoryUsed:
      return text("memory");
    case Series::kTemperature:
      return text("temperature");
    case Series::kPower:
      return text("power");
    case Series::kClockSm:
      break;
  }
  return "SM MHz";
}

std::string shown(Series series, const std::optional<double>& value) {
  if (!value) return "-";
  switch (series) {
    case Series::kMemoryUsed:
      return show_bytes(static_cast<std::uint64_t>(*value));
    case Series::kPower:
      return show_power(static_cast<std::uint64_t>(*value));
    case Series::kTemperature:
      return fmt::format("{:.0f} °C", *value);
    case Series::kClockSm:
      return fmt::format("{:.0f}", *value);
    default:
      return fmt::format("{:.0f} %", *value);
  }
}

std::string shown_amount(const serve::ConditionChange& one, std::optional<double> amount,
                         double recorded_seconds) {
  if (!amount) return text("not known");
  const auto minutes = static_cast<std::int64_t>(recorded_seconds / 60);
  return one.what.starts_with("xid:")
             ? text_n("{1:.0f}× in 1 minute", "{1:.0f}× in {0} minutes", minutes, minutes, *amount)
             : text("{:.0f} s a minute", *amount);
}

std::string process_words(const serve::ProcessChange& one) {
  std::string words = one.key.user.empty() ? "?" : one.key.user;
  words += " " + (one.key.program.empty() ? "?" : one.key.program);
  if (one.key.job != 0) words += " " + text("(job {})", one.key.job);
  if (one.memory_bytes) words += " " + show_bytes(static_cast<std::uint64_t>(*one.memory_bytes));
  return words;
}

std::string silence_words(const serve::Silence& silence) {
  const std::string since = local_time_of(silence.since);
  if (silence.reason == "lost") return text("lost since {}", since);
  if (silence.reason == "no_answer") return text("no answer since {}", since);
  return text("no readings since {}", since);
}

/// A line for each device that has stopped answering or answers again: "GPU 2: lost since
/// 2026-11-28 18:02:03".
std::string state_lines(const std::vector<DeviceChanges>& all) {
  std::string lines;
  for (const DeviceChanges& one : all) {
    if (!serve::has_other_state(one)) continue;
    const std::string name = one.key == "cpu" ? "CPU" : text("device {}", one.index);
    if (!one.silent_after)
      lines += text("{}: has readings again; before: {}", name, silence_words(*one.silent_before));
    else
      lines += fmt::format("{}: {}", name, silence_words(*one.silent_after));
    lines += "\n";
  }
  return lines;
}

bool has_changed(const serve::ConditionChange& one) {
  constexpr double kLeast = 1;  // the least change that is shown, in seconds per minute
  if (!one.before || !one.after) return true;
  return one.what.starts_with("xid:") ? *one.after != *one.before
                                      : std::abs(*one.after - *one.before) >= kLeast;
}

/// The lengths of the two compared periods in minutes.
struct Minutes {
  explicit Minutes(const Windows& windows)
      : before(serve::whole_minutes(windows.before_from, windows.before_to)),
        after(serve::whole_minutes(windows.after_from, windows.after_to)) {}
  std::int64_t before, after;
};

output::Table table_of(const std::vector<DeviceChanges>& all, bool has_processes) {
  output::Table table({{text("device"), true},
                       {text("what")},
                       {text("before"), true, output::kLeastText},
                       {text("after"), true, output::kLeastText}});
  for (const DeviceChanges& one : all) {
    const std::string name = one.key == "cpu" ? "CPU" : std::to_string(one.index);
    for (std::size_t i = 0; i < watch::kSeriesCount; ++i) {
      const auto series = static_cast<Series>(i);
      if (serve::is_notable(series, one.before[i], one.after[i]))
        table.add(
            {name, word_of(series), shown(series, one.before[i]), shown(series, one.after[i])});
    }
    for (const serve::ConditionChange& each : one.conditions)
      if (has_changed(each))
        table.add({name, output::reason_words(each.what),
                   shown_amount(each, each.before, one.recorded_before),
                   shown_amount(each, each.after, one.recorded_after)});
    for (const serve::ProcessChange& each : one.processes)
      if (has_processes)
        table.add({name, text("process"), each.is_new ? "-" : process_words(each),
                   each.is_new ? process_words(each) : "-"});
  }
  return table;
}

std::string json_of(const std::vector<DeviceChanges>& all, const Asked& asked, bool has_processes) {
  output::JsonWriter json;
  const auto period = [&](const char* key, std::int64_t from, std::int64_t to) {
    json.key(key);
    json.open('{');
    json.field("from", output::show_time(from * 1000));
    json.field("to", output::show_time(to * 1000));
    json.field("minutes", serve::whole_minutes(from, to));
    json.close('}');
  };
  json.open('{');
  json.field("schema", 1);
  json.field("at", output::show_time(asked.at * 1000));
  period("before", asked.windows.before_from, asked.windows.before_to);
  period("after", asked.windows.after_from, asked.windows.after_to);
  json.field("processes_known", has_processes);
  json.rows("devices", all, [&](const DeviceChanges& one) {
    json.field("device", one.index);
    json.field("uuid", one.key);
    json.text_field("name", one.name);
    const auto moment = [&](const char* key, const watch::Moment& values) {
      json.key(key);
      json.open('{');
      for (std::size_t i = 0; i < watch::kSeriesCount; ++i)
        json.field(watch::name(static_cast<Series>(i)), values[i]);
      json.close('}');
    };
    moment("before", one.before);
    moment("after", one.after);
    const auto silence = [&](const char* key, const std::optional<serve::Silence>& silent) {
      json.key(key);
      if (!silent) return json.value(nullptr);
      json.open('{');
      json.field("since", output::show_time(silent->since * 1000));
      json.text_field("reason", silent->reason);
      json.close('}');
    };
    silence("silent_before", one.silent_before);
    silence("silent_after", one.silent_after);
    json.field("recorded_before_seconds", one.recorded_before);
    json.field("recorded_after_seconds", one.recorded_after);
    json.rows("conditions", one.conditions, [&](const serve::ConditionChange& each) {
      json.field("what", each.what);
      json.field("before", each.before);
      json.field("after", each.after);
    });
    json.rows("processes", has_processes ? one.processes : std::vector<serve::ProcessChange>{},
              [&](const serve::ProcessChange& each) {
                json.field("change", each.is_new ? "new" : "gone");
                json.text_field("user", each.key.user);
                json.field("job", each.key.job == 0 ? std::nullopt : std::optional(each.key.job));
                json.text_field("program", each.key.program);
                json.field("memory_bytes", each.memory_bytes);
              });
  });
  json.close('}');
  return json.finish();
}

/// A note if the daemon recorded only a part of the compared periods; "" if it recorded all.
std::string gaps_in(const std::vector<DeviceChanges>& all, const Minutes& minutes) {
  double before = 0, after = 0;
  for (const DeviceChanges& one : all) {
    before = std::max(before, one.recorded_before);
    after = std::max(after, one.recorded_after);
  }
  // On a loaded machine, the daemon misses some seconds. It is a gap if less than 90 % of the
  // seconds were recorded.
  const auto is_gap = [](double seconds, std::int64_t of) {
    return seconds < 0.9 * 60 * static_cast<double>(of);
  };
  if (!is_gap(before, minutes.before) && !is_gap(after, minutes.after)) return "";
  const auto duration = [](double seconds) {
    return show_duration(std::chrono::seconds(static_cast<std::int64_t>(seconds)));
  };
  return text("note: {}",
              text("only {} before and {} after the change are recorded; throttling covers only "
                   "these times, and comparing processes needs a minute of each",
                   duration(before), duration(after))) +
         "\n";
}

bool has_any(const watch::Moment& moment) {
  return std::any_of(moment.begin(), moment.end(), [](const auto& one) { return one.has_value(); });
}

}  // namespace

Result<int> run_diff(const Context& context) {
  const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  const auto asked = asked_of(context.arguments, now);
  if (!asked) return asked.error();
  const auto reader = open_history();
  if (!reader) return reader.error();
  std::vector<std::string> names;
  for (const std::string& list : context.arguments.values("--device"))
    for (const std::string_view one : split(list, ',')) names.emplace_back(one);
  const Windows& windows = asked->windows;
  const std::int64_t minute = 60;
  const serve::Recorded recorded = {
      reader->devices({windows.before_from, windows.after_to, 0, names}),
      reader->usage(windows.before_from - minute, windows.after_to),
      reader->conditions(windows.before_from - minute, windows.after_to)};
  const auto all = serve::changes_between(recorded, windows);
  const bool is_known = std::any_of(all.begin(), all.end(), [](const DeviceChanges& one) {
    return has_any(one.before) && has_any(one.after);
  });
  if (!is_known)
    return nothing_kept(
        *reader, now, now,
        text("nothing is recorded both before and after {}", local_time_of(asked->at)), "history");
  const Minutes minutes(windows);
  const bool is_recent = windows.before_from >= now - kMinutesKept;
  const bool has_processes = is_recent && minutes.before > 0 && minutes.after > 0;
  if (context.json) {
    context.out(json_of(all, *asked, has_processes));
    return 0;
  }
  context.out(text("before: {} to {}; after: {} to {} (local time)",
                   local_time_of(windows.before_from), local_time_of(windows.before_to),
                   local_time_of(windows.after_from), local_time_of(windows.after_to)) +
              "\n");
  const std::string states = state_lines(all);
  const output::Table table = table_of(all, has_processes);
  if (states.empty() && table.empty()) context.out(text("nothing changed much") + "\n");
  if (!states.empty()) context.out("\n" + states);
  if (!table.empty()) context.out("\n" + table.render(context.out_terminal));
  if (!is_recent)
    context.err(
        text("note: {}",
             text("processes are not compared: usage older than a week is kept only per hour")) +
        "\n");
  else if (!has_processes)
    context.err(
        text("note: {}", text("processes, throttling and Xids are not compared: Berth records them "
                              "per minute, and one of the periods contains no whole minute")) +
        "\n");
  else
    context.err(gaps_in(all, minutes));
  return 0;
}

}  // namespace berth::cli
