#include "cli/bench_results.hpp"

#include <algorithm>
#include <cmath>

#include "base/file.hpp"
#include "base/text.hpp"
#include "output/json_writer.hpp"
#include "output/svg.hpp"
#include "output/table.hpp"
#include "output/words.hpp"

namespace berth::cli {
namespace {

constexpr std::size_t kLargestFile = 16 << 20;

/// A value with three significant digits and a decimal prefix: "148 G" for 148e9.
std::string show_metric(double value) {
  constexpr std::string_view kPrefixes = " kMGTPE";
  std::size_t prefix = 0;
  while (value >= 999.5 && prefix + 1 < kPrefixes.size()) value /= 1000, ++prefix;
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  const std::string number = fmt::format("{:.{}f} ", value, digits);
  return prefix == 0 ? number : number + kPrefixes[prefix];
}

std::string show_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

const char* unit_of(bench::Kind kind) {
  return kind == bench::Kind::kGemm ? "FLOP/s" : "B/s";
}

/// The result of a row as text: a rate, or the time of a kernel launch.
std::string show_figure(const BenchRow& row, double seconds) {
  const double work = row.measured->work;
  if (work <= 0 || seconds <= 0) return show_seconds(seconds);
  return show_metric(work / seconds) + unit_of(row.one.kind);
}

std::string computed_by(const std::string& library) {
  if (library == bench::kOwnCode) return text("Berth's own code");
  return printable(library.substr(library.rfind('/') + 1));
}

/// Adds a row. `peak` and `naive` say whether the table has these columns; a column exists if any
/// row has a value for it.
void add_row(output::Table& table, const BenchRow& row, bool peak, bool naive) {
  const std::string device = fmt::format("{}", row.device->index);
  if (!row.times) {
    table.add({device, row.key(), {std::string(tr("failed")), output::Style::kRed}});
    return;
  }
  const auto rate = row.work_per_second();
  const auto right = row.is_right();
  const auto change = row.change_percent();
  using output::Style;
  table.add({device, row.key(), show_figure(row, row.times->median),
             fmt::format("{:.1f} %", row.times->spread_percent),
             rate && row.peak_per_second
                 ? fmt::format("{:.0f} %", 100 * *rate / *row.peak_per_second)
                 : std::string(peak ? "-" : ""),
             right ? output::Cell(std::string(tr(*right ? msgid("right") : msgid("wrong"))),
                                  *right ? Style::kPlain : Style::kRed)
                   : output::Cell("-"),
             row.measured->naive_seconds ? show_figure(row, *row.measured->naive_seconds)
                                         : std::string(naive ? "-" : ""),
             change ? output::Cell(fmt::format("{:+.1f} %", *change),
                                   row.is_slower() ? Style::kRed : Style::kPlain)
                    : output::Cell(""),
             computed_by(row.measured->library)});
}

void write_row(output::JsonWriter& json, const BenchRow& row, std::int64_t unix_milliseconds) {
  const bool gemm = row.one.kind == bench::Kind::kGemm;
  const auto rate = row.work_per_second();
  const auto number = [&](const char* key, std::optional<double> value) { json.field(key, value); };
  json.field("device", row.device->index);
  json.text_field("name", row.device->name);
  json.text_field("uuid", row.device->uuid);
  json.text_field("pci_address", row.device->pci_address);
  json.field("backend", bench::name(row.one.backend));
  json.field("case", row.key());
  json.field("peer", row.peer != nullptr ? std::optional(row.peer->index) : std::nullopt);
  json.text_field("precision", row.one.precision);
  json.field("unix_seconds", static_cast<double>(unix_milliseconds) / 1000);
  const bench::Measured* measured = row.times ? &*row.measured : nullptr;
  json.text_field("library", measured == nullptr ? "" : measured->library);
  json.field("size", measured != nullptr && measured->size > 0 ? std::optional(measured->size)
                                                               : std::nullopt);
  json.field("runs", measured == nullptr ? std::nullopt : std::optional(measured->seconds.size()));
  const auto of_times = [&](double bench::Statistics::*member) {
    return row.times ? std::optional((*row.times).*member) : std::nullopt;
  };
  number("median_seconds", of_times(&bench::Statistics::median));
  number("least_seconds", of_times(&bench::Statistics::least));
  number("most_seconds", of_times(&bench::Statistics::most));
  number("spread_percent", of_times(&bench::Statistics::spread_percent));
  number("flop_per_second", gemm ? rate : std::nullopt);
  number("bytes_per_second", gemm ? std::nullopt : rate);
  number("peak_per_second", row.peak_per_second);
  number("share_of_peak_percent", rate && row.peak_per_second
                                      ? std::optional(100 * *rate / *row.peak_per_second)
                                      : std::nullopt);
  number("naive_seconds", measured == nullptr ? std::nullopt : measured->naive_seconds);
  number("max_error", measured == nullptr ? std::nullopt : measured->max_error);
  number("allowed_error", measured == nullptr ? std::nullopt : measured->allowed_error);
  json.field("right", row.is_right());
  number("earlier_seconds", row.earlier ? std::optional(row.earlier->seconds) : std::nullopt);
  number("change_percent", row.change_percent());
  json.field("slower", row.change_percent() ? std::optional(row.is_slower()) : std::nullopt);
  json.field("clock_mhz", row.clock_mhz);
  json.field("clock_max_mhz", row.clock_max_mhz);
  json.field("throttle_reasons", row.throttle_reasons);
  json.key("error");
  if (row.times) {
    json.value(nullptr);
    return;
  }
  json.open('{');
  json.field("id", row.measured.error().id);
  json.field("message", row.measured.error().message);
  json.text_field("hint", row.measured.error().hint);
  json.close('}');
}

}  // namespace

std::string BenchRow::key() const {
  return peer != nullptr ? fmt::format("{}.{}", one.key, peer->index) : one.key;
}

std::optional<double> BenchRow::work_per_second() const {
  if (!times || times->median <= 0 || measured->work <= 0) return std::nullopt;
  return measured->work / times->median;
}

std::optional<bool> BenchRow::is_right() const {
  if (!times || !measured->max_error || !measured->allowed_error) return std::nullopt;
  return *measured->max_error <= *measured->allowed_error;
}

std::optional<double> BenchRow::change_percent() const {
  if (!times || !earlier || times->median <= 0 || earlier->seconds <= 0) return std::nullopt;
  // If both runs have a rate, compare the rates. The times are not comparable, because the sizes
  // may differ.
  if (measured->work > 0 && earlier->work > 0)
    return 100 * (measured->work / times->median / (earlier->work / earlier->seconds) - 1);
  return 100 * (earlier->seconds / times->median - 1);
}

bool BenchRow::is_slower() const {
  const auto change = change_percent();
  return change && *change < -std::max({bench::kSlowerPercent, times->spread_percent,
                                        earlier->spread_percent});
}

Result<EarlierResults> read_results(const std::string& file) {
  const auto bytes = read_file(file, kLargestFile);
  return bytes ? bench::parse_results(*bytes, file) : bytes.error();
}

std::string bench_json(const BenchReport& report) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("at", output::show_time(report.unix_milliseconds));
  json.field("seconds", report.seconds);
  json.field("cpu_threads", report.threads);
  json.rows("results", report.rows,
            [&](const BenchRow& row) { write_row(json, row, report.unix_milliseconds); });
  json.rows("skipped", report.skipped, [&](const SkippedDevice& one) {
    json.field("device", one.device->index);
    json.text_field("name", one.device->name);
    json.field("reason", one.reason);
  });
  json.close('}');
  return json.finish();
}

std::string bench_svg(const BenchReport& report) {
  const char* const titles[] = {msgid("matrix products, FLOP/s"), msgid("memory and copies, B/s"),
                                msgid("kernel launches, time: shorter is better")};
  std::vector<output::BarGroup> groups(3);
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].title = tr(titles[i]);
  for (const BenchRow& row : report.rows) {
    output::Bar bar{fmt::format("{}: {}", row.device->index, row.key()), "", 0};
    const bool is_time = row.one.kind == bench::Kind::kLaunch;
    if (row.times) {
      bar.figure = show_figure(row, row.times->median);
      bar.length = is_time ? row.times->median : row.work_per_second().value_or(0);
      if (const auto rate = row.work_per_second(); rate && row.peak_per_second)
        bar.figure += "  " + text("{:.0f} % of peak", 100 * *rate / *row.peak_per_second);
      if (!row.is_right().value_or(true)) bar.figure += "  " + std::string(tr("wrong"));
    } else {
      bar.figure = fmt::format("{} ({})", row.measured.error().message, row.measured.error().id);
    }
    groups[is_time ? 2 : row.one.kind == bench::Kind::kGemm ? 0 : 1].bars.push_back(bar);
  }
  std::erase_if(groups, [](const output::BarGroup& group) { return group.bars.empty(); });
  std::vector<std::string> notes;
  std::vector<const model::Device*> named;
  for (const BenchRow& row : report.rows) {
    if (std::find(named.begin(), named.end(), row.device) != named.end()) continue;
    named.push_back(row.device);
    notes.push_back(text("device {0}: {1}", row.device->index, printable(row.device->name)));
  }
  for (const SkippedDevice& one : report.skipped)
    notes.push_back(text("device {0}: {1}, not measured: {2}", one.device->index,
                         printable(one.device->name), one.reason));
  return output::bars_svg(
      "berth bench",
      text("Medians of {} s for each case; the spread is between the quartiles.", report.seconds) +
          "  " + output::show_time(report.unix_milliseconds),
      groups, notes);
}

namespace {

/// Notes below the table: what slowed a device, and how much faster than the CPU a device is.
std::string notes_of(const BenchReport& report) {
  std::string out;
  for (const BenchRow& row : report.rows) {
    model::Device slowed;
    slowed.throttle_reasons = row.throttle_reasons;
    const std::string why = output::slowed_by(slowed);
    if (!why.empty() && row.clock_mhz)
      out += text("device {0}, {1}: slowed by {2}, its clock was {3} MHz", row.device->index,
                  row.key(), why, *row.clock_mhz) +
             "\n";
  }
  for (const BenchRow& cpu : report.rows) {
    const auto slow = cpu.work_per_second();
    if (cpu.device->kind != model::DeviceKind::kCpu || cpu.one.kind != bench::Kind::kGemm || !slow)
      continue;
    for (const BenchRow& row : report.rows)
      if (const auto fast = row.work_per_second();
          fast && row.device->kind == model::DeviceKind::kGpu && row.key() == cpu.key())
        out += text("{0}: device {1} is {2:.3g} times as fast as the CPU", row.key(),
                    row.device->index, *fast / *slow) +
               "\n";
  }
  return out;
}

}  // namespace

std::string bench_text(const BenchReport& report, const output::Terminal& terminal) {
  std::string out;
  std::vector<const model::Device*> named;
  for (const BenchRow& row : report.rows) {
    if (std::find(named.begin(), named.end(), row.device) != named.end()) continue;
    named.push_back(row.device);
    out += text("device {0}: {1}", row.device->index, printable(row.device->name)) + "\n";
  }
  for (const SkippedDevice& one : report.skipped)
    out += text("device {0}: {1}, not measured: {2}", one.device->index,
                printable(one.device->name), one.reason) +
           "\n";
  if (report.rows.empty()) return out;
  output::Table table({{std::string(tr("device")), true},
                       {std::string(tr("case"))},
                       {std::string(tr("result")), true},
                       {std::string(tr("spread")), true},
                       {std::string(tr("of peak")), true},
                       {std::string(tr("checked"))},
                       {std::string(tr("naive")), true},
                       {std::string(tr("change")), true},
                       {std::string(tr("computed by")), false, output::kLeastText, 1}});
  const auto any = [&](auto has) {
    return std::any_of(report.rows.begin(), report.rows.end(),
                       [&](const BenchRow& row) { return row.times && has(row); });
  };
  const bool peak =
      any([](const BenchRow& row) { return row.work_per_second() && row.peak_per_second; });
  const bool naive =
      any([](const BenchRow& row) { return row.measured->naive_seconds.has_value(); });
  for (const BenchRow& row : report.rows) add_row(table, row, peak, naive);
  out += "\n" + table.render(terminal) + "\n";
  out +=
      text("Medians of {} s for each case; the spread is between the quartiles.", report.seconds) +
      "\n";
  if (naive)
    out += text(
               "naive: the clock stopped when the call returned, before the device was done. This "
               "figure is wrong.") +
           "\n";
  out += notes_of(report);
  for (const BenchRow& row : report.rows) {
    if (row.times) continue;
    const Error& error = row.measured.error();
    out +=
        text("device {0}, {1}: {2} ({3})", row.device->index, row.key(), error.message, error.id) +
        "\n";
    if (!error.hint.empty()) out += "  " + error.hint + "\n";
  }
  return out;
}

}  // namespace berth::cli
