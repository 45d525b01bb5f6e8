#include "output/words.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/device_use.hpp"
#include "output/word_table.hpp"

namespace berth::output {
namespace {

// NVML's clock event reasons, and the reasons in Device::health_reasons. docs/json.md lists them.
constexpr std::array kReasons{
    Word{"idle", msgid("idle")},
    Word{"applications_clocks", msgid("clocks set by hand")},
    Word{"display_clocks", msgid("clocks held for the display")},
    Word{"sync_boost", msgid("another GPU of its sync group")},
    Word{"sw_power_cap", msgid("power limit")},
    Word{"hw_slowdown", msgid("hardware slowdown")},
    Word{"sw_thermal", msgid("temperature")},
    Word{"hw_thermal", msgid("temperature (hardware)")},
    Word{"hw_power_brake", msgid("power brake")},
    Word{"ecc_uncorrected", msgid("uncorrected memory errors")},
    Word{"remap_pending", msgid("memory repair waits for a reset")},
    Word{"remap_failed", msgid("memory repair failed")},
    Word{"temperature_critical", msgid("critical temperature")},
    Word{"driver_unreachable", msgid("the driver cannot access it")},
    Word{"not_listed", msgid("the driver does not list it any more")},
    Word{"lost", msgid("lost")},
    Word{"no_answer", msgid("no answer")},
};

// Shorter words for throttle reasons, for narrow columns.
constexpr std::array kBriefly{
    Word{"sync_boost", msgid("sync")},      Word{"sw_power_cap", msgid("power")},
    Word{"hw_slowdown", msgid("hardware")}, Word{"sw_thermal", msgid("heat")},
    Word{"hw_thermal", msgid("heat")},      Word{"hw_power_brake", msgid("power")},
};

constexpr std::array kCauses{
    Word{kListUnknown, msgid("the device's list of processes could not be read")},
    Word{"other_namespace", msgid("processes in another container or PID namespace")},
    Word{"zombie", msgid("a zombie process still holds it")},
    Word{"uninterruptible", msgid("a process stuck in the kernel holds it")},
    Word{"mps_server", msgid("clients of an MPS server")},
    Word{"not_reported", msgid("the driver does not report how much each process uses")},
    Word{"driver_reserve", msgid("reserved by the driver")},
    Word{"not_readable", msgid("processes of other users, which are not visible")},
    Word{"not_listed", msgid("a process the driver does not list")},
    Word{"unknown", msgid("cause not known")},
};

constexpr std::array kModes{
    Word{"default", msgid("default")},
    Word{"exclusive process", msgid("exclusive process")},
    Word{"exclusive thread", msgid("exclusive thread")},
    Word{"prohibited", msgid("prohibited")},
};

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

void drop_all(std::string& text, std::string_view what) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what))
    text.erase(at, what.size());
}

}  // namespace

std::string_view word_for(model::Health health) {
  switch (health) {
    case model::Health::kOk:
      return tr("ok");
    case model::Health::kDegraded:
      return tr("degraded");
    case model::Health::kLost:
      return tr("lost");
    case model::Health::kAsleep:
      return tr("asleep");
    case model::Health::kNoAnswer:
      return tr("no answer");
    case model::Health::kNotChecked:
      return tr("not checked");
  }
  return "";
}

Style style_for(model::Health health) {
  switch (health) {
    case model::Health::kOk:
      return Style::kGreen;
    case model::Health::kDegraded:
      return Style::kYellow;
    case model::Health::kLost:
    case model::Health::kNoAnswer:
      return Style::kRed;
    case model::Health::kAsleep:
    case model::Health::kNotChecked:
      return Style::kDim;
  }
  return Style::kPlain;
}

std::string_view word_for(model::Absence why) {
  switch (why) {
    case model::Absence::kNotAsked:
      return tr("not asked");
    case model::Absence::kNotSupported:
      return tr("not supported");
    case model::Absence::kNoPermission:
      return tr("no permission");
    case model::Absence::kNeedsTwoReadings:
      return tr("needs two readings");
    case model::Absence::kAsleep:
      return tr("asleep");
    case model::Absence::kNoAnswer:
      return tr("no answer");
    case model::Absence::kLost:
      return tr("lost");
    case model::Absence::kFailed:
      return tr("failed");
    case model::Absence::kTooShort:
      return tr("too short");
    case model::Absence::kNotSeen:
      return tr("not seen");
  }
  return "";
}

std::string reason_words(std::string_view id) {
  if (take_prefix(id, "xid:")) return fmt::format("Xid {}", printable(id));
  if (id == "nvml:4") return std::string(word_for(model::Absence::kNoPermission));
  if (id == "nvml:15") return std::string(tr("the driver cannot reach it"));
  if (take_prefix(id, "nvml:")) return text("driver error {}", printable(id));
  if (take_prefix(id, "throttle:")) return text("slowed by: {}", reason_words(id));
  const Word* word = find(kReasons, id);
  return word == nullptr ? printable(id) : std::string(tr(word->says));
}

std::string slowed_by(const model::Device& device) {
  std::vector<std::string> parts;
  for (const std::string& id : device.throttle_reasons) {
    if (id == "idle" || id == "applications_clocks" || id == "display_clocks") continue;
    const Word* brief = find(kBriefly, id);
    std::string word = brief == nullptr ? reason_words(id) : std::string(tr(brief->says));
    if (std::find(parts.begin(), parts.end(), word) == parts.end())
      parts.push_back(std::move(word));
  }
  return join(parts, ", ");
}

std::string health_words(const model::Device& device) {
  std::vector<std::string> parts;
  for (const std::string& id : device.health_reasons) parts.push_back(reason_words(id));
  return join(parts, ", ");
}

std::string mode_words(std::string_view mode) {
  const Word* word = find(kModes, mode);
  return word == nullptr ? printable(mode) : std::string(tr(word->says));
}

std::string cause_words(std::string_view cause) {
  const Word* word = find(kCauses, cause);
  return word == nullptr ? printable(cause) : std::string(tr(word->says));
}

std::string unaccounted_words(const model::Unattributed& memory) {
  const std::string bytes = show_bytes(memory.memory_bytes);
  const std::string cause = cause_words(memory.cause);
  return memory.cause == kListUnknown ? text("{} in use by unknown processes: {}", bytes, cause)
                                      : text("{} that no process accounts for: {}", bytes, cause);
}

bool is_usual(const model::Unattributed& memory) {
  return memory.cause == "driver_reserve" || memory.cause == "not_reported";
}

std::string short_name(const model::Device& device) {
  std::string name = printable(device.name.empty() ? device.vendor_name : device.name);
  for (const std::string_view what : {"(R)", "(TM)", "(r)", "(tm)", " CPU", " Processor"})
    drop_all(name, what);
  if (const auto at = name.find(" @ "); at != std::string::npos) name.resize(at);
  std::string_view rest = trim(name);
  take_prefix(rest, "NVIDIA ");
  take_prefix(rest, "GeForce ");
  if (rest.size() > 4 && rest.substr(rest.size() - 4) == " GPU") rest.remove_suffix(4);
  return rest.empty() ? "-" : std::string(rest);
}

const model::Device& namesake(const model::Snapshot& snapshot, const model::Device& device) {
  const auto silent = [](const model::Device& one) {
    return one.health == model::Health::kAsleep || model::mute(one);
  };
  if (!silent(device) || !device.pci_id) return device;
  const auto other = std::find_if(
      snapshot.devices.begin(), snapshot.devices.end(),
      [&](const model::Device& one) { return one.pci_id == device.pci_id && !silent(one); });
  return other == snapshot.devices.end() ? device : *other;
}

std::string short_command(std::string_view command) {
  const std::string_view program = command.substr(0, command.find(' '));
  const auto slash = program.rfind('/');
  if (slash != std::string_view::npos && slash + 1 < program.size())
    command.remove_prefix(slash + 1);
  return printable(command);
}

namespace {

/// The unit that suits the size `whole`. show() prints any size in this unit: "1.4" and "1.9" TiB.
struct Scaled {
  double divisor = 1;
  const char* unit = "B";
  explicit Scaled(std::uint64_t whole) {
    for (const char* larger : {"KiB", "MiB", "GiB", "TiB", "PiB"}) {
      if (static_cast<double>(whole) / divisor < 999.5) break;
      divisor *= 1024;
      unit = larger;
    }
  }
  [[nodiscard]] std::string show(std::uint64_t bytes) const {
    return fmt::format("{:.1f}", static_cast<double>(bytes) / divisor);
  }
};

}  // namespace

std::string show_used(const model::Reading<std::uint64_t>& used,
                      const model::Reading<std::uint64_t>& total) {
  if (!total) return used ? show_bytes(*used) : "-";
  const Scaled scaled(*total);
  return (used ? scaled.show(*used) : "-") + " / " + scaled.show(*total) + " " + scaled.unit;
}

std::string show_part(std::uint64_t part, std::uint64_t whole) {
  const Scaled scaled(whole);
  return text("{} of {} {}", scaled.show(part), scaled.show(whole), scaled.unit);
}

std::string show_percent(const model::Reading<double>& reading) {
  return reading ? fmt::format("{:.0f} %", *reading) : "-";
}

std::string show_energy(std::uint64_t millijoules) {
  const double wh = static_cast<double>(millijoules) / 3.6e6;
  if (wh < 0.01) return fmt::format("{:.1f} J", static_cast<double>(millijoules) / 1000);
  return fmt::format("{:.{}f} Wh", wh, wh < 0.1 ? 3 : wh < 10 ? 1 : 0);
}

std::string show_price(double amount, std::string_view currency) {
  const int digits = amount == 0 || amount >= 0.1 ? 2 : amount >= 0.001 ? 4 : 6;
  std::string out = fmt::format("{:.{}f}", amount, digits);
  if (!currency.empty()) out += " " + printable(currency);
  return out;
}

std::string show_celsius(const model::Reading<double>& reading) {
  return reading ? fmt::format("{:.0f} °C", *reading) : "-";
}

std::string show_age(double seconds) {
  if (!(seconds >= 0) || seconds > 1e12) return "-";
  if (seconds < 59.5) return fmt::format("{:.0f} s", seconds);
  return show_duration(std::chrono::milliseconds(std::llround(seconds * 1000)));
}

std::map<int, Use> uses_of(const model::Snapshot& snapshot) {
  std::map<int, Use> uses;
  for (const model::DeviceProcess& process : snapshot.processes) {
    Use& use = uses[process.device];
    ++use.processes;
    if (use.largest == nullptr ||
        process.memory_bytes.value_or(0) > use.largest->memory_bytes.value_or(0))
      use.largest = &process;
    const std::string user = printable(process.user);
    if (std::find(use.users.begin(), use.users.end(), user) == use.users.end())
      use.users.push_back(user);
  }
  return uses;
}

std::string show_users(const Use& use) {
  std::vector<std::string> names;
  for (const std::string& user : use.users) names.push_back(user.empty() ? "?" : user);
  return join(names, ", ");
}

std::vector<model::Holding> leases_of(const model::Device& device,
                                      const model::Snapshot& snapshot) {
  std::vector<model::Holding> found;
  if (!snapshot.leases) return found;
  const std::string& id = device.uuid.empty() ? device.pci_address : device.uuid;
  const auto& parts = device.partitions;
  for (const model::Holding& one : *snapshot.leases)
    if ((one.unit == id && !id.empty()) ||
        std::any_of(parts.begin(), parts.end(), [&](const model::Partition& part) {
          return part.uuid == one.unit && !one.unit.empty();
        }))
      found.push_back(one);
  return found;
}

bool is_drained(const model::Holding& one) {
  return one.job == 0 && one.user.empty();
}

std::string lease_number(std::uint64_t job, const model::Snapshot& snapshot) {
  if (snapshot.leases)
    for (const model::Holding& one : *snapshot.leases)
      if (one.job == job) return one.job_words();
  return std::to_string(job);
}

const model::Device* find_device(const model::Snapshot& snapshot, int index) {
  const auto found = std::find_if(snapshot.devices.begin(), snapshot.devices.end(),
                                  [&](const model::Device& d) { return d.index == index; });
  return found == snapshot.devices.end() ? nullptr : &*found;
}

void Tally::add(const std::string& name) {
  const auto known = std::find_if(counts.begin(), counts.end(),
                                  [&](const auto& pair) { return pair.first == name; });
  if (known == counts.end())
    counts.emplace_back(name, 1);
  else
    ++known->second;
}

std::string join(const std::vector<std::string>& parts, std::string_view with) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += with;
    out += parts[i];
  }
  return out;
}

std::string show_time(std::int64_t unix_milliseconds) {
  const std::time_t seconds = unix_milliseconds / 1000;
  std::tm utc{};
  if (unix_milliseconds < 0 || gmtime_r(&seconds, &utc) == nullptr) return {};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     unix_milliseconds % 1000);
}

}  // namespace berth::output
