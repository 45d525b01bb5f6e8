#include "watch/alerts.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "watch/health.hpp"
#include "watch/join.hpp"

namespace berth::watch {

namespace {

using model::Device;
using model::Health;

/// nullopt: unknown now, so the state stays as it is. `is_active`: a rule may use different values
/// to start and to end.
using Condition = std::optional<bool> (*)(const Device& device, bool is_active);

bool is_slowed_by(const Device& device, std::initializer_list<std::string_view> reasons) {
  return std::any_of(reasons.begin(), reasons.end(), [&](std::string_view reason) {
    const auto& all = device.throttle_reasons;
    return std::find(all.begin(), all.end(), reason) != all.end();
  });
}

bool answers(const Device& device) {
  return device.health != Health::kLost && device.health != Health::kNoAnswer;
}

template <typename T>
std::optional<bool> is_above(const model::Reading<T>& reading, T limit) {
  if (!reading) return std::nullopt;
  return *reading > limit;
}

struct Rule {
  const char* name;
  const char* severity;
  double seconds;  // how long the condition must hold
  Condition holds;
  const char* message;  // msgid; {} is the device's index
};

constexpr std::size_t kDeviceDown = 0;  // in kRules
constexpr std::array<Rule, 8> kRules = {{
    {"device_down", "critical", 1,
     [](const Device& device, bool) -> std::optional<bool> { return !answers(device); },
     msgid("GPU {} is lost or does not answer")},
    {"memory_errors", "critical", 0,
     [](const Device& device, bool) {
       return is_above<std::uint64_t>(device.readings.ecc_uncorrected, 0);
     },
     msgid("GPU {} has uncorrected memory errors")},
    {"row_remap_failed", "critical", 0,
     [](const Device& device, bool) {
       return is_above<std::uint64_t>(device.readings.remap_failed, 0);
     },
     msgid("GPU {} could not remap a memory row")},
    {"row_remap_pending", "warning", 60,
     [](const Device& device, bool) {
       return is_above<std::uint64_t>(device.readings.remap_pending, 0);
     },
     msgid("GPU {} waits for a reset to remap a memory row")},
    {"throttled_by_heat", "warning", 60,
     [](const Device& device, bool) -> std::optional<bool> {
       if (!answers(device)) return std::nullopt;
       return is_slowed_by(device, {"hw_thermal", "sw_thermal"});
     },
     msgid("GPU {} is slowed down by heat")},
    {"power_brake", "warning", 10,
     [](const Device& device, bool) -> std::optional<bool> {
       if (!answers(device)) return std::nullopt;
       return is_slowed_by(device, {"hw_power_brake"});
     },
     msgid("GPU {} is slowed down by the power supply")},
    {"hot", "warning", 60,
     [](const Device& device, bool is_active) {
       return is_above(device.readings.temperature_celsius, is_active ? kTooHot - 5 : kTooHot);
     },
     msgid("GPU {} is too hot")},
    {"memory_full", "info", 900,
     [](const Device& device, bool is_active) -> std::optional<bool> {
       const auto& used = device.readings.memory_used_bytes;
       const auto& total = device.readings.memory_total_bytes;
       if (!used || !total || *total == 0) return std::nullopt;
       const double share = static_cast<double>(*used) / static_cast<double>(*total);
       return share > (is_active ? 0.93 : 0.97);
     },
     msgid("the memory of GPU {} is nearly full")},
}};

constexpr double kIdleSeconds = 3600;
constexpr double kIdleBytes = 1U << 30U;

constexpr std::string_view kXidRule = "xid_";
/// Nothing says that an Xid is over, so its alert ends this long after the last one.
constexpr std::int64_t kXidMilliseconds = std::int64_t{3600} * 1000;

/// One user's processes on one device.
struct Part {
  double bytes = 0, share = 0;
  bool is_known = true;
};

std::map<int, std::map<std::string, Part>> parts_of(const model::Snapshot& snapshot) {
  std::map<int, std::map<std::string, Part>> parts;
  for (const model::DeviceProcess& process : snapshot.processes) {
    if (process.user.empty() || !process.kind.compute) continue;
    Part& part = parts[process.device][process.user];
    part.bytes += static_cast<double>(process.memory_bytes.value_or(0));
    part.share += process.sm_percent.value_or(0);
    part.is_known = part.is_known && process.sm_percent;
  }
  return parts;
}

const std::string& place_of(const Device& device) {
  return device.pci_address.empty() ? device.uuid : device.pci_address;
}

bool is_watched(const Device& device) {
  return device.managed && device.kind != model::DeviceKind::kCpu &&
         device.kind != model::DeviceKind::kOpenCl && !key_of(device).empty();
}

Alert alert_of(const Rule& rule, const std::string& key, int index) {
  return {rule.name,
          rule.severity,
          key,
          "",
          index,
          "",
          text(rule.message, index),
          fmt::format("berth health --device {}", index)};
}

Alert idle_alert(const std::string& user, const std::string& key, int index) {
  return {"idle_while_holding_memory",
          "info",
          key,
          "",
          index,
          user,
          text("{} holds memory on GPU {} but has not used the GPU for an hour", printable(user),
               index),
          "berth usage --by user"};
}

}  // namespace

Alert AlertWatch::xid_alert(int code, const Known& device) const {
  const XidWords words = words_of_xid_ ? words_of_xid_(code) : XidWords{};
  Alert alert;
  alert.rule = fmt::format("{}{}", kXidRule, code);
  alert.severity = words.severity;
  alert.device = device.key;
  alert.index = device.index;
  alert.message = words.what.empty()
                      ? text("GPU {} reported Xid {}", device.index, code)
                      : text("GPU {} reported Xid {}: {}", device.index, code, words.what);
  alert.hint = "berth doctor";
  return alert;
}

/// NVML and the kernel log report the same event, and a fault may repeat: that is one alert.
void AlertWatch::add_xids(const Frame& frame, Changes& changes) {
  for (const model::XidEvent& event : frame.xids) {
    const auto device = std::find_if(known_.begin(), known_.end(), [&](const auto& one) {
      return !event.device.empty() && one.first.starts_with(event.device);
    });
    if (device == known_.end()) continue;
    Alert alert = xid_alert(event.code, device->second);
    State& state = states_[{alert.rule, device->first, ""}];
    state.last_unix_milliseconds = std::max(state.last_unix_milliseconds, event.unix_milliseconds);
    if (state.active) continue;
    alert.place = device->first;
    alert.since_unix_milliseconds = event.unix_milliseconds;
    changes.begun.push_back(alert);
    state.active = std::move(alert);
  }
}

void AlertWatch::end_unseen(const Frame& frame, const std::set<Key>& seen, Changes& changes) {
  for (auto state = states_.begin(); state != states_.end();) {
    const bool is_recent_xid =
        std::get<0>(state->first).starts_with(kXidRule) &&
        frame.snapshot.unix_milliseconds - state->second.last_unix_milliseconds < kXidMilliseconds;
    if (is_recent_xid || seen.contains(state->first)) {
      ++state;
      continue;
    }
    if (state->second.active) changes.ended.push_back(*state->second.active);
    state = states_.erase(state);
  }
}

AlertWatch::Changes AlertWatch::add(const Frame& frame) {
  Changes changes;
  std::set<Key> seen;
  const auto judge = [&](const std::string& place, Alert&& alert, std::optional<bool> holds,
                         double seconds) {
    const Key key(alert.rule, place, alert.user);
    seen.insert(key);
    State& state = states_[key];
    if (!holds) return;
    if (!*holds) {
      state.true_since.reset();
      if (state.active) changes.ended.push_back(*std::exchange(state.active, std::nullopt));
      return;
    }
    if (!state.true_since) state.true_since = frame.seconds;
    if (state.active || frame.seconds - *state.true_since < seconds) return;
    alert.place = place;
    alert.since_unix_milliseconds = frame.snapshot.unix_milliseconds;
    changes.begun.push_back(alert);
    state.active = std::move(alert);
  };
  const auto judge_rule = [&](const std::string& place, const Rule& rule,
                              std::optional<bool> holds) {
    const Known& device = known_.at(place);
    judge(place, alert_of(rule, device.key, device.index), holds, rule.seconds);
  };
  const auto parts = parts_of(frame.snapshot);
  std::set<std::string> there, watched;
  for (const Device& device : frame.snapshot.devices) {
    const std::string& place = place_of(device);
    there.insert(place);
    if (!is_watched(device)) continue;
    watched.insert(place);
    Known& known = known_[place];
    if (known.key.empty() || !device.uuid.empty()) known.key = key_of(device);
    known.index = device.index;
    for (const Rule& rule : kRules) {
      const auto state = states_.find({rule.name, place, ""});
      const bool is_active = state != states_.end() && state->second.active;
      judge_rule(place, rule, rule.holds(device, is_active));
    }
    const auto users = parts.find(device.index);
    if (users == parts.end()) continue;
    for (const auto& [user, part] : users->second)
      judge(
          place, idle_alert(user, known.key, known.index),
          part.is_known ? std::optional(part.bytes >= kIdleBytes && part.share == 0) : std::nullopt,
          kIdleSeconds);
  }
  // A device that left the bus has no row. It cannot have recovered, so its alerts stay.
  for (auto device = known_.begin(); device != known_.end();) {
    const std::string& place = device->first;
    if (!there.contains(place)) {
      judge_rule(place, kRules[kDeviceDown], true);
      for (const Rule& rule : kRules) seen.insert({rule.name, place, ""});
    }
    // It is there, but another kernel driver has it now.
    const bool is_left = there.contains(place) && !watched.contains(place);
    device = is_left ? known_.erase(device) : std::next(device);
  }
  add_xids(frame, changes);
  end_unseen(frame, seen, changes);
  return changes;
}

void AlertWatch::restore(const std::vector<Alert>& alerts) {
  for (const Alert& one : alerts) {
    known_[one.place] = {one.device, one.index};
    State& state = states_[{one.rule, one.place, one.user}];
    state.active = one;
    state.last_unix_milliseconds = one.since_unix_milliseconds;
  }
}

std::vector<Alert> AlertWatch::active() const {
  std::vector<Alert> alerts;
  for (const auto& [key, state] : states_)
    if (state.active) alerts.push_back(*state.active);
  return alerts;
}

}  // namespace berth::watch
