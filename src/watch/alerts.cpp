#include "watch/alerts.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "watch/guard_shares.hpp"
#include "watch/join.hpp"

namespace berth::watch {

namespace {

using model::Device;

/// The driver does not report the end of an Xid's fault. So the alert ends this long after the last
/// event.
constexpr std::int64_t kXidMilliseconds = std::int64_t{3600} * 1000;

/// What all processes of one user use on one device.
struct Part {
  double bytes = 0, share = 0;
  bool is_known = true;
  AlertOwner owner;  // if the uid is not known, the owner's `user` is empty
};

std::map<int, std::map<std::string, Part>> parts_of(const model::Snapshot& snapshot) {
  std::map<int, std::map<std::string, Part>> parts;
  for (const model::DeviceProcess& process : snapshot.processes) {
    if (process.user.empty() || !process.kind.compute) continue;
    Part& part = parts[process.device][process.user];
    if (process.uid) {
      part.owner.user = process.user;
      part.owner.uid = *process.uid;
      if (process.pid) part.owner.pids.push_back(*process.pid);
    }
    part.bytes += static_cast<double>(process.memory_bytes.value_or(0));
    const std::optional<double> share = time_share(process);
    part.share += share.value_or(0);
    part.is_known = part.is_known && share;
  }
  return parts;
}

std::vector<AlertOwner> owners_in(const std::map<std::string, Part>* parts) {
  std::vector<AlertOwner> owners;
  if (parts != nullptr)
    for (const auto& [user, part] : *parts)
      if (!part.owner.user.empty()) owners.push_back(part.owner);
  return owners;
}

const std::string& place_of(const Device& device) {
  return device.pci_address.empty() ? device.uuid : device.pci_address;
}

bool is_watched(const Device& device) {
  return device.managed && device.kind != model::DeviceKind::kCpu &&
         device.kind != model::DeviceKind::kOpenCl && !key_of(device).empty();
}

/// Makes an alert about a device. The caller adds the message.
Alert alert_about(const AlertRule& rule, const std::string& key, int index) {
  Alert alert;
  alert.rule = rule.name;
  alert.severity = rule.severity;
  alert.device = key;
  alert.index = index;
  return alert;
}

Alert alert_of(const AlertRule& rule, const std::string& key, int index) {
  Alert alert = alert_about(rule, key, index);
  alert.message = rule.sentence(index);
  alert.hint = fmt::format("berth health --device {}", index);
  return alert;
}

Alert idle_alert(const AlertRule& rule, const std::string& user, const std::string& key,
                 int index) {
  Alert alert = alert_about(rule, key, index);
  alert.user = user;
  const auto least = std::chrono::seconds(static_cast<std::int64_t>(rule.seconds));
  alert.message = text("{} holds memory on GPU {} but has not used the GPU for {}", printable(user),
                       index, show_duration(least));
  alert.hint = "berth usage --by user";
  return alert;
}

Alert growth_alert(const AlertRule& rule, const std::string& user, std::uint64_t job,
                   const std::string& key, int index) {
  Alert alert = alert_about(rule, key, index);
  alert.user = user;
  alert.job = job;
  alert.message =
      text("the memory of job {} grows, and fills GPU {} within four hours", job, index);
  alert.hint = fmt::format("berth trace {}", job);
  return alert;
}

Alert hang_alert(const AlertRule& rule, std::uint64_t job, const JobHangs::Found& found) {
  Alert alert;
  alert.rule = rule.name;
  alert.severity = rule.severity;
  alert.user = found.user;
  alert.job = job;
  const auto least = std::chrono::seconds(static_cast<std::int64_t>(rule.seconds));
  alert.message = text("job {} used a GPU before, but has used none for {}: it may hang", job,
                       show_duration(least));
  alert.hint = fmt::format("berth stacks {}", job);
  if (found.uid) alert.owners.push_back({found.user, *found.uid, found.pids});
  return alert;
}

Alert reported_hang_alert(const AlertRule& rule, std::uint64_t job, const ReportedHang& reported,
                          const JobHangs::Jobs& jobs) {
  Alert alert;
  alert.rule = rule.name;
  alert.severity = rule.severity;
  alert.user = reported.user;
  alert.job = job;
  alert.message = text("job {} hangs: {}", job, reported.sentence);
  alert.hint = fmt::format("berth stacks {}", job);
  const auto found = jobs.find(job);
  alert.owners.push_back({reported.user, reported.uid,
                          found == jobs.end() ? std::vector<std::int64_t>() : found->second.pids});
  return alert;
}

/// Whom the alert is about: the user, or one job of the user. So each job has its own alert.
std::string subject_of(const Alert& alert) {
  return alert.job == 0 ? alert.user : fmt::format("{}#{}", alert.user, alert.job);
}

/// How long the rule's condition must hold. A device that the driver reports as lost, or that did
/// not answer the sampler in time, is certainly down. Then no further wait is needed, unless the
/// settings give a time.
double seconds_of(const AlertRule& rule, bool is_certain) {
  const bool is_usual = rule.name == "device_down" && rule.seconds == kDownSeconds;
  return is_certain && is_usual ? 0 : rule.seconds;
}

}  // namespace

AlertWatch::AlertWatch(std::function<XidWords(int code)> words_of_xid, AlertRules rules)
    : words_of_xid_(std::move(words_of_xid)),
      rules_(std::move(rules)),
      down_(find_rule(rules_, "device_down")),
      idle_(find_rule(rules_, "idle_while_holding_memory")),
      queue_(find_rule(rules_, "queue_waits")),
      stale_(find_rule(rules_, "sampler_stale")),
      growth_(find_rule(rules_, "job_memory_grows")),
      hang_(find_rule(rules_, "job_hangs")) {
  BERTH_CHECK(down_ != nullptr && idle_ != nullptr && queue_ != nullptr && stale_ != nullptr &&
              growth_ != nullptr && hang_ != nullptr);
}

std::string AlertWatch::severity_of_xid(int code) const {
  const AlertRule* rule = find_rule(rules_, fmt::format("{}{}", kXidRule, code));
  if (rule != nullptr && !rule->severity.empty()) return rule->severity;
  return (words_of_xid_ ? words_of_xid_(code) : XidWords{}).severity;
}

Alert AlertWatch::xid_alert(int code, const Known& device) const {
  const XidWords words = words_of_xid_ ? words_of_xid_(code) : XidWords{};
  Alert alert;
  alert.rule = fmt::format("{}{}", kXidRule, code);
  alert.severity = severity_of_xid(code);
  alert.device = device.key;
  alert.index = device.index;
  alert.message = words.what.empty()
                      ? text("GPU {} reported Xid {}", device.index, code)
                      : text("GPU {} reported Xid {}: {}", device.index, code, words.what);
  alert.hint = "berth doctor";
  return alert;
}

/// Begins alerts for Xids, or extends them. NVML and the kernel log report the same event, and a
/// fault may repeat. All of these count as one alert.
void AlertWatch::add_xids(const Frame& frame, Changes& changes) {
  for (const model::XidEvent& event : frame.xids) {
    const auto device = std::find_if(known_.begin(), known_.end(), [&](const auto& one) {
      return !event.device.empty() && one.first.starts_with(event.device);
    });
    if (device == known_.end()) continue;
    Alert alert = xid_alert(event.code, device->second);
    if (const AlertRule* rule = find_rule(rules_, alert.rule); rule != nullptr && !rule->is_on)
      continue;
    State& state = states_[{alert.rule, device->first, ""}];
    state.last_unix_milliseconds = std::max(state.last_unix_milliseconds, event.unix_milliseconds);
    changes.is_longer = changes.is_longer || state.active;
    if (state.active) continue;
    alert.place = device->first;
    alert.owners = device->second.owners;
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

bool AlertWatch::is_active(const AlertRule& rule, const std::string& place) const {
  const auto state = states_.find({rule.name, place, ""});
  return state != states_.end() && state->second.active;
}

void AlertWatch::judge_machine(const AlertRule& rule, double seconds,
                               std::int64_t unix_milliseconds, Changes& changes) {
  State& state = states_[{rule.name, "", ""}];
  const bool holds = rule.is_on && seconds >= rule.seconds;
  if (holds == state.active.has_value()) return;
  if (!holds) return changes.ended.push_back(*std::exchange(state.active, std::nullopt));
  Alert alert;
  alert.rule = rule.name;
  alert.severity = rule.severity;
  const auto duration =
      show_duration(std::chrono::seconds(static_cast<std::int64_t>(rule.seconds)));
  alert.message = &rule == queue_ ? text("a job has waited in the queue for {}", duration)
                                  : text("the devices have not been read for {}", duration);
  alert.hint = &rule == queue_ ? "berth jobs" : "berth doctor";
  alert.since_unix_milliseconds = unix_milliseconds;
  changes.begun.push_back(alert);
  state.active = std::move(alert);
}

AlertWatch::Changes AlertWatch::add_silence(double seconds, std::int64_t unix_milliseconds) {
  Changes changes;
  judge_machine(*stale_, seconds, unix_milliseconds, changes);
  return changes;
}

AlertWatch::Known& AlertWatch::note_device(const Device& device, const std::string& place,
                                           std::vector<AlertOwner> owners) {
  Known& known = known_[place];
  if (known.key.empty() || !device.uuid.empty()) known.key = key_of(device);
  known.index = device.index;
  known.is_down = !answers(device);
  if (answers(device)) known.owners = std::move(owners);
  return known;
}

void AlertWatch::judge(const Frame& frame, const std::string& place, Alert&& alert, bool holds,
                       double seconds, Changes& changes) {
  State& state = states_[{alert.rule, place, subject_of(alert)}];
  if (!holds) {
    state.true_since.reset();
    if (state.active) changes.ended.push_back(*std::exchange(state.active, std::nullopt));
    return;
  }
  if (!state.true_since) state.true_since = frame.seconds;
  if (state.active || frame.seconds - *state.true_since < seconds) return;
  alert.place = place;
  if (!place.empty())
    for (const AlertOwner& one : known_.at(place).owners)
      if (alert.user.empty() || alert.user == one.user) alert.owners.push_back(one);
  alert.since_unix_milliseconds = frame.snapshot.unix_milliseconds;
  changes.begun.push_back(alert);
  state.active = std::move(alert);
}

void AlertWatch::add_hangs(const Frame& frame, const ReportedHangs& reported, std::set<Key>& seen,
                           Changes& changes) {
  // Seconds that a hang must last. A hang that `berth run` reports is certain. Idle GPUs alone may
  // have other causes, so they must be idle for longer.
  constexpr double kEvidence = 60;
  if (!hang_->is_on) return;
  const JobHangs::Jobs jobs = hanging_.add(frame);
  for (const auto& [id, one] : reported) {
    Alert alert = reported_hang_alert(*hang_, id, one, jobs);
    seen.insert({alert.rule, "", subject_of(alert)});
    judge(frame, "", std::move(alert), true, std::min(hang_->seconds, kEvidence), changes);
  }
  for (const auto& [id, job] : jobs) {
    if (reported.contains(id)) continue;
    Alert alert = hang_alert(*hang_, id, job);
    seen.insert({alert.rule, "", subject_of(alert)});
    if (reported_.contains(id))  // was reported before: the ranks make progress again
      judge(frame, "", std::move(alert), false, hang_->seconds, changes);
    else if (job.is_still)
      judge(frame, "", std::move(alert), *job.is_still, hang_->seconds, changes);
  }
  reported_.clear();
  for (const auto& [id, one] : reported) reported_.insert(id);
}

AlertWatch::Changes AlertWatch::add(const Frame& frame, double longest_wait,
                                    const ReportedHangs& hangs) {
  Changes changes;
  std::set<Key> seen;
  for (const auto& [rule, seconds] : {std::pair{stale_, 0.0}, {queue_, longest_wait}}) {
    judge_machine(*rule, seconds, frame.snapshot.unix_milliseconds, changes);
    seen.insert({rule->name, "", ""});
  }
  add_hangs(frame, hangs, seen, changes);
  const auto growing = growing_.add(frame);
  const auto judge = [&](const std::string& place, Alert&& alert, std::optional<bool> holds,
                         double seconds) {
    seen.insert({alert.rule, place, subject_of(alert)});
    if (holds) this->judge(frame, place, std::move(alert), *holds, seconds, changes);
  };
  const auto judge_rule = [&](const std::string& place, const AlertRule& rule,
                              std::optional<bool> holds) {
    const Known& one = known_.at(place);
    if (rule.is_on)
      judge(place, alert_of(rule, one.key, one.index), holds, seconds_of(rule, one.is_down));
  };
  const auto parts = parts_of(frame.snapshot);
  std::set<std::string> there, watched;
  for (const Device& device : frame.snapshot.devices) {
    const std::string& place = *there.insert(place_of(device)).first;
    if (!is_watched(device)) continue;
    watched.insert(place);
    const auto users = parts.find(device.index);
    const Known& known =
        note_device(device, place, owners_in(users == parts.end() ? nullptr : &users->second));
    for (const AlertRule& rule : rules_) {
      if (!rule.is_of_device()) continue;
      judge_rule(place, rule, rule.is_broken_by(device, frame.snapshot, is_active(rule, place)));
    }
    for (const auto& [at, job] : growing)
      if (growth_->is_on && at.first == device.index)
        judge(place, growth_alert(*growth_, job.user, at.second, known.key, device.index),
              job.grows, growth_->seconds);
    if (users == parts.end() || !idle_->is_on) continue;
    for (const auto& [user, part] : users->second)
      judge(place, idle_alert(*idle_, user, known.key, known.index),
            part.is_known
                ? std::optional(part.bytes >= static_cast<double>(idle_->bytes) && part.share == 0)
                : std::nullopt,
            idle_->seconds);
  }
  // A device that left the bus is missing in the frame. Nothing shows that it has recovered, so its
  // alerts stay.
  for (auto device = known_.begin(); device != known_.end();) {
    const std::string& place = device->first;
    if (!there.contains(place)) {
      judge_rule(place, *down_, true);
      for (const AlertRule& rule : rules_)
        if (rule.is_on) seen.insert({rule.name, place, ""});
    }
    // If the device is in the machine but no longer watched, another kernel driver has taken it
    // over. Forget the device.
    const bool is_left = there.contains(place) && !watched.contains(place);
    device = is_left ? known_.erase(device) : std::next(device);
  }
  add_xids(frame, changes);
  end_unseen(frame, seen, changes);
  return changes;
}

void AlertWatch::restore(const std::vector<Alert>& alerts) {
  for (const Alert& one : alerts) {
    State& restored = states_[{one.rule, one.place, subject_of(one)}];
    restored.active = one;
    if (one.index < 0) continue;
    Known& known = known_[one.place];
    known.key = one.device;
    known.index = one.index;
    // An alert about a user has only that user as owner. So collect the owners of all alerts about
    // the device.
    for (const AlertOwner& owner : one.owners)
      if (std::none_of(known.owners.begin(), known.owners.end(),
                       [&](const AlertOwner& other) { return other.uid == owner.uid; }))
        known.owners.push_back(owner);
    // If the settings have switched off the rule of an Xid, the alert ends with the next frame.
    const AlertRule* const rule = find_rule(rules_, one.rule);
    const auto last = std::max(one.since_unix_milliseconds, one.last_unix_milliseconds);
    restored.last_unix_milliseconds = rule == nullptr || rule->is_on ? last : 0;
  }
}

std::vector<Alert> AlertWatch::active() const {
  std::vector<Alert> alerts;
  for (const auto& [key, state] : states_) {
    if (!state.active) continue;
    alerts.push_back(*state.active);
    alerts.back().last_unix_milliseconds = state.last_unix_milliseconds;
  }
  return alerts;
}

}  // namespace berth::watch
