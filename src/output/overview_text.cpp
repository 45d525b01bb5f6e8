#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/device_use.hpp"
#include "output/header.hpp"
#include "output/overview.hpp"
#include "output/table.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using model::Device;
using model::DeviceKind;
using model::Health;

constexpr int kBar = 8;  // width in characters
constexpr int kLeastName = 18;
constexpr std::size_t kRowsForFree =
    4;  // on a machine with at most this many GPUs, each free GPU has its own row
constexpr std::size_t kMostProblems = 4;
constexpr std::size_t kMostUsers = 6;

/// A bar with its number: "▇▇▇▇▇▇▁▁ 75 %".
std::string bar_of(double percent) {
  const double share = std::clamp(percent, 0.0, 100.0) / 100;
  const auto full = static_cast<int>(std::lround(share * kBar));
  std::string bar;
  for (int i = 0; i < kBar; ++i) bar += i < full ? "▇" : "▁";
  return bar + fmt::format(" {:>2.0f} %", std::clamp(percent, 0.0, 999.0));
}

std::string command_of(const Use& use) {
  const model::DeviceProcess& largest = *use.largest;
  std::string says = short_command(largest.command);
  if (says.empty()) says = largest.pid ? "-" : tr("(not seen from here)");
  return says;
}

/// The cell that tells what the device does. On a narrow terminal, it is clipped first.
Cell doing(const Device& device, const Use* use, const model::Snapshot& snapshot) {
  if (mute(device)) {
    if (device.age_seconds) return text("last seen {} ago", show_age(*device.age_seconds));
    return health_words(device);
  }
  if (use == nullptr && device.processes_unknown)
    return Cell(printable(device.note), Style::kYellow);
  std::string says = use == nullptr ? "" : command_of(*use);
  for (const model::Unattributed& memory : snapshot.unattributed)
    if (use == nullptr && memory.device == device.index && !is_usual(memory))
      says = text("{} used by no known process", show_bytes(memory.memory_bytes));
  if (device.health != Health::kDegraded) return says;
  const std::string slowed = slowed_by(device);
  const std::string why = slowed.empty() ? health_words(device) : text("slowed by: {}", slowed);
  const std::string word(word_for(device.health));
  return {(why.empty() ? word : why) + (says.empty() ? "" : " · " + says), Style::kYellow};
}

Cell first_cell(const Device& device, DeviceState state) {
  if (mute(device) || state == DeviceState::kAsleep)
    return {std::string(word_for(device.health)), style_for(device.health)};
  if (state == DeviceState::kFree) return {std::string(tr("free")), Style::kGreen};
  if (state == DeviceState::kDrained) return {std::string(tr("drained")), Style::kYellow};
  if (state == DeviceState::kNoPartition) return {std::string(tr("MIG, empty")), Style::kYellow};
  const auto& utilization = device.readings.utilization_percent;
  if (utilization) return bar_of(*utilization);
  if (state == DeviceState::kNotKnown) return {std::string(tr("not known")), Style::kYellow};
  return device.mig_enabled.value_or(false) ? "MIG" : std::string(tr("busy"));
}

/// The cell with the user of the device or, if nobody uses it, the user who has a lease on it.
std::string whose(const Device& device, const Use* use, const model::Snapshot& snapshot) {
  if (use != nullptr) return show_users(*use);
  if (device.processes_unknown) return std::string(tr("not known"));
  std::vector<std::string> names;
  for (const model::Holding& one : leases_of(device, snapshot))
    if (one.job != 0 && std::find(names.begin(), names.end(), printable(one.user)) == names.end())
      names.push_back(printable(one.user));
  return join(names, ", ");
}

/// The cell about the lease: "job 118", "no lease".
Cell lease_cell(const Device& device, const model::Snapshot& snapshot) {
  std::vector<std::string> words;
  for (const model::Holding& one : leases_of(device, snapshot)) {
    const bool is_shown_before =
        is_drained(one) && state_of(device, snapshot) == DeviceState::kDrained;
    std::string word = one.stuck_pid != 0 ? std::string(tr("set aside"))
                       : one.job != 0     ? text("job {}", one.job_words())
                       : is_drained(one)  ? std::string(tr("drained"))
                                          : std::string(tr("leased by another user's broker"));
    if (!is_shown_before && std::find(words.begin(), words.end(), word) == words.end())
      words.push_back(std::move(word));
  }
  const bool lacks = std::any_of(snapshot.processes.begin(), snapshot.processes.end(),
                                 [&](const model::DeviceProcess& one) {
                                   return one.device == device.index && snapshot.lacks_lease(one);
                                 });
  if (lacks) words.emplace_back(tr("no lease"));
  return {join(words, ", "), lacks ? Style::kYellow : Style::kPlain};
}

/// Adds a row for the device. With `named`, the row has the name, because not all devices are the
/// same model.
void add_row(Table& table, const Device& device, const model::Snapshot& snapshot, const Use* use,
             bool named, std::size_t index_width) {
  const auto& readings = device.readings;
  const bool memory = readings.memory_used_bytes || readings.memory_total_bytes;
  table.add(
      {Cell(fmt::format("{:>{}}", device.index, index_width), Style::kBold),
       named ? short_name(namesake(snapshot, device)) : "",
       first_cell(device, state_of(device, snapshot)),
       memory ? show_used(readings.memory_used_bytes, readings.memory_total_bytes) : "",
       readings.power_milliwatts ? show_power(*readings.power_milliwatts) : "",
       readings.temperature_celsius ? show_celsius(readings.temperature_celsius) : "",
       whose(device, use, snapshot), doing(device, use, snapshot),
       use == nullptr || use->processes == 1 ? "" : fmt::format("+{}", use->processes - 1),
       use == nullptr || !use->largest->age_seconds ? "" : show_age(*use->largest->age_seconds),
       lease_cell(device, snapshot)});
}

bool several_models(const model::Snapshot& snapshot) {
  const std::string* first = nullptr;
  for (const Device& device : snapshot.devices) {
    if (!is_gpu(device)) continue;
    const std::string& name = namesake(snapshot, device).name;
    if (first != nullptr && *first != name) return true;
    first = &name;
  }
  return false;
}

bool has_unexplained_memory(const model::Snapshot& snapshot, int device) {
  return std::any_of(snapshot.unattributed.begin(), snapshot.unattributed.end(),
                     [&](const model::Unattributed& memory) {
                       return memory.device == device && !is_usual(memory);
                     });
}

/// A row for each busy or faulty device. If many devices are free, one line lists them all.
std::string device_lines(const model::Snapshot& snapshot, const Terminal& terminal) {
  const auto uses = uses_of(snapshot);
  const auto gpus = static_cast<std::size_t>(
      std::count_if(snapshot.devices.begin(), snapshot.devices.end(), model::is_gpu));
  const bool named = several_models(snapshot);
  std::size_t index_width = 3;  // column width, at least that of the header "GPU"
  for (const Device& device : snapshot.devices)
    if (is_gpu(device)) index_width = std::max(index_width, std::to_string(device.index).size());
  Table table({{"GPU", true},
               {std::string(tr("model")), false, kLeastName},
               {std::string(tr("use"))},
               {std::string(tr("memory")), true},
               {std::string(tr("power")), true, 0, 3},
               {std::string(tr("temp")), true, 0, 4},
               {std::string(tr("user")), false, 0, 1},
               {std::string(tr("command")), false, kLeastText},
               {"", true, 0, 1},
               {std::string(tr("age")), true, 0, 2},
               {std::string(tr("job"))}});
  std::vector<std::string> idle;
  for (const Device& device : snapshot.devices) {
    if (!is_gpu(device)) continue;
    const DeviceState state = state_of(device, snapshot);
    const bool quiet = state == DeviceState::kFree || state == DeviceState::kAsleep;
    const auto use = uses.find(device.index);
    if (quiet && use == uses.end() && !has_unexplained_memory(snapshot, device.index) &&
        gpus > kRowsForFree)
      idle.push_back(fmt::format("{:>{}}  {}", device.index, index_width,
                                 state == DeviceState::kFree ? tr("free") : tr("asleep")));
    else
      add_row(table, device, snapshot, use == uses.end() ? nullptr : &use->second, named,
              index_width);
  }
  std::string out = table.render(terminal);
  if (out.empty() && !idle.empty()) out = terminal.paint(Style::kDim, "GPU") + "\n";
  std::string line;
  for (const std::string& one : idle) {
    if (!line.empty() && display_width(line) + 4 + display_width(one) > terminal.width) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : "    ") + one;
  }
  return line.empty() ? out : out + line + "\n";
}

std::string users_line(const model::Snapshot& snapshot, int label_width, const Terminal& terminal) {
  const auto shares = shares_of(snapshot);
  if (shares.empty()) return "";
  std::vector<std::string> parts;
  for (const UserShare& share : shares) {
    if (parts.size() == kMostUsers) {
      parts.push_back(text("{} more", shares.size() - parts.size()));
      break;
    }
    const auto count = share.devices.size();
    const std::string name = share.user.empty() ? std::string(tr("unknown")) : share.user;
    const std::string devices =
        text_n("{} device", "{} devices", static_cast<long long>(count), count);
    parts.push_back(share.memory_bytes == 0
                        ? fmt::format("{} {}", name, devices)
                        : text("{} {}, {}", name, devices, show_bytes(share.memory_bytes)));
  }
  return labelled(tr("users"), join(parts, "; "), label_width, terminal);
}

/// Whether the device's row already shows this problem, so that it needs no line of its own.
bool said_in_its_row(const Problem& problem) {
  return problem.id == "processes_unknown" || problem.id == model::name(Health::kLost) ||
         problem.id == model::name(Health::kNoAnswer);
}

std::string problem_lines(const model::Snapshot& snapshot, int label_width,
                          const Terminal& terminal) {
  auto problems = problems_of(snapshot);
  std::erase_if(problems, said_in_its_row);
  std::string out;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Problem& problem = problems[i];
    if (i == kMostProblems && problems.size() > kMostProblems + 1)
      return out + labelled("", text("{} more: berth --json", problems.size() - i), label_width,
                            terminal);
    const bool driver = !problem.device;
    const std::string id = driver && !problem.id.empty() ? " (" + problem.id + ")" : "";
    out += labelled(i == 0 ? tr("look") : "", problem.message + id, label_width, terminal,
                    Style::kYellow);
    // print hints only for the driver; those for devices are among the suggested commands below
    if (!driver) continue;
    for (const std::string_view hint : split(problem.hint, '\n'))
      if (!trim(hint).empty()) out += labelled("", printable(hint), label_width, terminal);
  }
  return out;
}

/// A line about the other devices: neither the CPU nor GPUs that Berth manages.
std::string others_line(const model::Snapshot& snapshot, int label_width,
                        const Terminal& terminal) {
  Tally others;
  for (const Device& device : snapshot.devices) {
    if (is_gpu(device) || device.kind == DeviceKind::kCpu) continue;
    const std::string name =
        short_name(device) + (device.managed ? " (OpenCL)"
                              : model::out_of_reach(device)
                                  ? " (" + health_words(device) + ")"
                                  : " " + std::string(tr("(seen, not managed)")));
    others.add(name);
  }
  std::vector<std::string> parts;
  parts.reserve(others.counts.size());
  for (const auto& [name, count] : others.counts)
    parts.push_back(count == 1 ? name : fmt::format("{} × {}", count, name));
  return parts.empty() ? "" : labelled(tr("also"), join(parts, ", "), label_width, terminal);
}

std::string note_lines(const model::Snapshot& snapshot, int label_width, const Terminal& terminal) {
  std::string out;
  for (const std::string& note : snapshot.notes)
    out += labelled(out.empty() ? tr("note") : "", printable(note), label_width, terminal);
  return out;
}

std::string next_lines(const std::vector<NextStep>& next, int label_width,
                       const Terminal& terminal) {
  int command_width = 0;
  for (const NextStep& step : next)
    command_width = std::max(command_width, display_width(step.command));
  std::string out;
  for (const NextStep& step : next) {
    const std::string label = pad(out.empty() ? tr("next") : "", label_width) +
                              terminal.paint(Style::kCyan, step.command);
    const int left = label_width + command_width + 3;
    if (left + display_width(step.why) > terminal.width) {
      out += label + "\n" + labelled("", step.why, label_width + 2, terminal);
    } else {
      out += label +
             std::string(static_cast<std::size_t>(command_width + 3 - display_width(step.command)),
                         ' ') +
             step.why + "\n";
    }
  }
  return out;
}

}  // namespace

std::string overview_text(const model::Snapshot& snapshot, const std::vector<NextStep>& next,
                          const Terminal& terminal) {
  int label_width = 0;
  for (const std::string_view label : {tr("users"), tr("look"), tr("also"), tr("note"), tr("next")})
    label_width = std::max(label_width, display_width(label) + 3);
  std::string out = header(snapshot, terminal) + device_lines(snapshot, terminal);
  const std::string middle =
      users_line(snapshot, label_width, terminal) + others_line(snapshot, label_width, terminal) +
      problem_lines(snapshot, label_width, terminal) + note_lines(snapshot, label_width, terminal);
  if (!middle.empty()) out += "\n" + middle;
  out += "\n" + next_lines(next, label_width, terminal);
  return terminal.spell(std::move(out));
}

}  // namespace berth::output
