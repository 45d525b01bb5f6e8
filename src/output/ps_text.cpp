#include <algorithm>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/device_use.hpp"
#include "output/header.hpp"
#include "output/screens.hpp"
#include "output/table.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using model::DeviceProcess;

constexpr int kUnlimited = 10'000;  // columns
constexpr std::size_t kMostHolders = 6;

std::string kind_of(const model::UseKind& kind) {
  std::vector<std::string> parts;
  if (kind.compute) parts.emplace_back(tr("compute"));
  if (kind.graphics) parts.emplace_back(tr("graphics"));
  if (kind.mps) parts.emplace_back("MPS");
  return join(parts, "+");
}

bool plain_compute(const model::UseKind& kind) {
  return kind.compute && !kind.graphics && !kind.mps;
}

/// Where a process runs, as a word to search for: the first twelve digits of its container, the uid
/// of its pod, or its systemd unit.
std::string home_of(const DeviceProcess& process, bool wide) {
  if (!process.pod.empty()) return "pod " + printable(process.pod);
  if (!process.container.empty()) {
    const std::string container = printable(process.container);
    const auto blank = container.rfind(' ');
    return wide || blank == std::string::npos
               ? container
               : container.substr(0, std::min(container.size(), blank + 13));
  }
  const std::string_view unit = process.unit;
  const bool service = unit.size() > 8 && unit.substr(unit.size() - 8) == ".service";
  return wide || service ? printable(unit) : "";
}

Cell command_of(const DeviceProcess& process, bool wide) {
  if (!process.command.empty())
    return wide ? printable(process.command) : short_command(process.command);
  if (!process.pid) return {std::string(tr("(not seen from here)")), Style::kDim};
  return {"-", Style::kDim};
}

/// The partition that a process uses; nullptr if it uses the whole device.
const model::Partition* partition_of(const DeviceProcess& process,
                                     const model::Snapshot& snapshot) {
  const model::Device* device = find_device(snapshot, process.device);
  if (device == nullptr || process.partition_uuid.empty()) return nullptr;
  for (const model::Partition& part : device->partitions)
    if (part.uuid == process.partition_uuid) return &part;
  return nullptr;
}

std::string name_of(const model::Partition* part) {
  if (part == nullptr) return "";
  std::string name = printable(part->name);
  if (name.starts_with("MIG ")) name.erase(0, 4);
  return std::to_string(part->index) + (name.empty() ? "" : " " + name);
}

Cell job_of(const DeviceProcess& process, const model::Snapshot& snapshot) {
  if (process.job) return lease_number(*process.job, snapshot);
  return snapshot.lacks_lease(process) ? Cell(std::string(tr("no lease")), Style::kYellow)
                                       : Cell("");
}

struct Shape {
  bool kinds = false;      // whether some process does not compute, but for example draws
  bool host_pids = false;  // whether some process has another pid in the host's namespace
};

Shape shape_of(const model::Snapshot& snapshot) {
  Shape shape;
  for (const DeviceProcess& process : snapshot.processes) {
    shape.kinds = shape.kinds || !plain_compute(process.kind);
    shape.host_pids = shape.host_pids || (process.host_pid && process.host_pid != process.pid);
  }
  return shape;
}

void add_process(Table& table, const DeviceProcess& process, const model::Snapshot& snapshot,
                 const Shape& shape, bool wide) {
  const auto number = [](const std::optional<std::int64_t>& pid) {
    return pid ? std::to_string(*pid) : std::string("-");
  };
  table.add({Cell(std::to_string(process.device), Style::kBold),
             name_of(partition_of(process, snapshot)),
             wide ? printable(process.partition_uuid) : "", number(process.pid),
             shape.host_pids ? number(process.host_pid) : "",
             process.user.empty() ? "-" : printable(process.user), job_of(process, snapshot),
             process.memory_bytes ? show_bytes(*process.memory_bytes) : "-",
             process.guard_spilled_bytes ? show_bytes(*process.guard_spilled_bytes) : "",
             show_percent(process.sm_percent), show_percent(process.cpu_percent),
             process.rss_bytes ? show_bytes(*process.rss_bytes) : "-",
             process.age_seconds ? show_age(*process.age_seconds) : "-",
             shape.kinds || wide ? kind_of(process.kind) : "", home_of(process, wide),
             command_of(process, wide)});
}

void add_unattributed(Table& table, const model::Unattributed& memory) {
  if (is_usual(memory)) return;
  table.add({Cell(std::to_string(memory.device), Style::kBold), "", "", "-", "", "-", "",
             Cell(show_bytes(memory.memory_bytes), Style::kYellow), "", "", "", "", "", "", "",
             Cell(std::string(memory.cause == kListUnknown ? tr("users unknown")
                                                           : tr("no process accounts for it")),
                  Style::kYellow)});
}

/// The sentence for an empty list. Only if every device reported its processes, it says that there
/// are none.
std::string_view nobody(const model::Snapshot& snapshot) {
  const bool whole =
      snapshot.driver.message.empty() &&
      std::none_of(snapshot.devices.begin(), snapshot.devices.end(), model::users_unknown);
  return whole ? tr("no process uses a device") : tr("no process is known to use a device");
}

/// Lists the processes that have a device open and may own memory that no listed process accounts
/// for.
std::string holders_of(const model::Snapshot& snapshot, const Terminal& terminal) {
  std::string out;
  for (const model::Unattributed& memory : snapshot.unattributed) {
    if (memory.cause == "driver_reserve") continue;
    const std::string label = text("device {}", memory.device) + "   ";
    std::string says = unaccounted_words(memory);
    std::vector<std::string> names;
    for (const model::Holder& holder : memory.holders) {
      if (names.size() == kMostHolders) break;
      names.push_back(fmt::format("{} {} {}", holder.pid,
                                  holder.user.empty() ? "?" : printable(holder.user),
                                  clip(printable(holder.command), 30)));
    }
    if (memory.holders.size() > names.size())
      names.push_back(text("{} more", memory.holders.size() - names.size()));
    if (!names.empty()) says += text("; opened by: {}", join(names, ", "));
    out += labelled(label, says, display_width(label), terminal);
  }
  return out.empty() ? out : "\n" + out;
}

std::string footer(const model::Snapshot& snapshot, const Terminal& terminal) {
  std::string out;
  for (const std::string& note : ps_notes(snapshot))
    for (const std::string& line : wrap(printable(note), terminal.width))
      out += terminal.paint(Style::kDim, line) + "\n";
  return out.empty() ? out : "\n" + out;
}

}  // namespace

std::vector<std::string> ps_notes(const model::Snapshot& snapshot) {
  int foreign = 0, unreadable = 0;
  for (const DeviceProcess& process : snapshot.processes) {
    foreign += process.pid ? 0 : 1;
    unreadable += process.pid && process.command.empty() ? 1 : 0;
  }
  std::vector<std::string> notes = snapshot.notes;
  for (const model::Device& device : snapshot.devices)
    if (users_unknown(device))
      notes.push_back(
          text("{} {}: its users are not known ({})", word_for(device.kind), device.index,
               mute(device) ? word_for(device.health) : word_for(*device.processes_unknown)));
  if (foreign > 0)
    notes.push_back(text_n(
        "{} process is in another PID namespace or has ended: only the driver lists it",
        "{} processes are in another PID namespace or have ended: only the driver lists them",
        foreign, foreign));
  if (unreadable > 0)
    notes.push_back(
        text_n("you may not read the command line of {} process; root may: sudo berth ps",
               "you may not read the command lines of {} processes; root may: sudo berth ps",
               unreadable, unreadable));
  return notes;
}

std::string ps_text(const model::Snapshot& snapshot, const Terminal& given, bool wide) {
  Terminal terminal = given;
  if (wide) terminal.width = kUnlimited;
  std::string out = driver_problem(snapshot, given);
  if (snapshot.processes.empty() &&
      std::all_of(snapshot.unattributed.begin(), snapshot.unattributed.end(), is_usual)) {
    out += std::string(nobody(snapshot)) + "\n";
    return given.spell(out + footer(snapshot, given));
  }
  Table table({{"", true},
               {"MIG"},
               {"MIG uuid"},
               {"pid", true},
               {std::string(tr("host pid")), true},
               {std::string(tr("user"))},
               {std::string(tr("job")), true},
               {std::string(tr("memory")), true},
               {std::string(tr("spilled")), true},
               {"SM", true, 0, 1},
               {"CPU", true, 0, 4},
               {"RSS", true, 0, 6},
               {std::string(tr("age")), true, 0, 3},
               {std::string(tr("kind")), false, 0, 2},
               {std::string(tr("where")), false, 0, 5},
               {std::string(tr("command")), false, kLeastText}});
  const Shape shape = shape_of(snapshot);
  const bool by_device =
      std::is_sorted(snapshot.processes.begin(), snapshot.processes.end(),
                     [](const auto& a, const auto& b) { return a.device < b.device; });
  auto memory = snapshot.unattributed.begin();
  const auto end = snapshot.unattributed.end();
  for (const DeviceProcess& process : snapshot.processes) {
    for (; by_device && memory != end && memory->device < process.device; ++memory)
      add_unattributed(table, *memory);
    add_process(table, process, snapshot, shape, wide);
  }
  for (; memory != end; ++memory) add_unattributed(table, *memory);
  out += table.render(terminal) + holders_of(snapshot, given) + footer(snapshot, given);
  return given.spell(std::move(out));
}

}  // namespace berth::output
