// Alerts for users without Prometheus. An alert begins when its condition has lasted long enough,
// and ends only when the condition is clearly over. Pure: the frames contain the time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "watch/alert_rules.hpp"
#include "watch/frame.hpp"
#include "watch/job_growth.hpp"
#include "watch/job_hang.hpp"

namespace berth::watch {

/// A user who is notified of an alert on a terminal.
struct AlertOwner {
  std::string user;
  std::uint32_t uid = 0;
  std::vector<std::int64_t> pids;  // pids of the user's compute processes on the device
};

struct Alert {
  std::string rule;       // name of the rule: "device_down", "xid_79"
  std::string severity;   // "critical", "warning", "info"
  std::string device;     // key_of()
  std::string place;      // the device's PCI address if known; if not, its uuid
  int index = -1;         // Device::index; -1: the alert is about the machine or a job
  std::string user;       // the user whom the alert is about; "": none
  std::uint64_t job = 0;  // the job that the alert is about; 0: none
  std::string message;    // the message for people, translated
  std::string hint;       // a command that shows details
  std::int64_t since_unix_milliseconds = 0;
  std::int64_t last_unix_milliseconds = 0;  // when an Xid was last reported
  std::vector<AlertOwner> owners;           // users who computed on the device when the alert began
};

/// What Berth's catalogue says about an Xid.
struct XidWords {
  std::string severity = "warning";
  std::string what;  // translated: "GPU fell off the bus; reboot the host"; "": the Xid is unknown
};

class AlertWatch {
 public:
  explicit AlertWatch(std::function<XidWords(int code)> words_of_xid = {},
                      AlertRules rules = built_in_alert_rules());
  AlertWatch(const AlertWatch&) = delete;
  AlertWatch& operator=(const AlertWatch&) = delete;
  struct Changes {
    std::vector<Alert> begun, ended;
    bool is_longer = false;  // an active Xid alert ends later, because the Xid came again
  };
  /// Adds a frame; frames must be in time order. An alert about a device ends only if the device is
  /// in the frame. A device is down if earlier frames had it and the newest frames do not.
  /// `longest_wait`: how many seconds the first job in the broker's queue has waited. `hangs`: jobs
  /// whose ranks hang, as reported by `berth run`.
  Changes add(const Frame& frame, double longest_wait = 0, const ReportedHangs& hangs = {});
  /// Call this if no frame has come for `seconds`.
  Changes add_silence(double seconds, std::int64_t unix_milliseconds);
  /// Restores alerts that an earlier process reported and that may still hold. Call it before
  /// add().
  void restore(const std::vector<Alert>& alerts);
  /// Returns the active alerts, sorted by rule, device and user.
  [[nodiscard]] std::vector<Alert> active() const;
  [[nodiscard]] const AlertRules& rules() const { return rules_; }
  [[nodiscard]] std::string severity_of_xid(int code) const;

 private:
  struct State {
    std::optional<double> true_since;  // since when the condition holds, in monotonic seconds
    std::optional<Alert> active;
    std::int64_t last_unix_milliseconds = 0;  // for an Xid: time of its last event
  };
  /// The rule, the device's address, and the user or job. The address is the PCI address if it is
  /// known, because a lost device reports no uuid.
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Known {
    std::string key;  // key_of(), with the uuid if any frame had it
    int index = -1;
    bool is_down = false;            // the device is lost or does not answer
    std::vector<AlertOwner> owners;  // users in the last frame in which the device answered
  };
  Known& note_device(const model::Device& device, const std::string& place,
                     std::vector<AlertOwner> owners);
  /// Begins or ends an alert about a device or a job, depending on `holds`. For a job, `place` is
  /// empty.
  void judge(const Frame& frame, const std::string& place, Alert&& alert, bool holds,
             double seconds, Changes& changes);
  [[nodiscard]] bool is_active(const AlertRule& rule, const std::string& place) const;
  /// Begins and ends alerts about jobs that may hang.
  void add_hangs(const Frame& frame, const ReportedHangs& reported, std::set<Key>& seen,
                 Changes& changes);
  void add_xids(const Frame& frame, Changes& changes);
  /// Ends all alerts that are not in `seen`: the condition of their device or user does not hold
  /// any more.
  void end_unseen(const Frame& frame, const std::set<Key>& seen, Changes& changes);
  [[nodiscard]] Alert xid_alert(int code, const Known& device) const;
  /// Begins or ends the alert of a rule about the machine.
  void judge_machine(const AlertRule& rule, double seconds, std::int64_t unix_milliseconds,
                     Changes& changes);

  std::function<XidWords(int code)> words_of_xid_;
  const AlertRules rules_;
  const AlertRule* down_;
  const AlertRule *idle_, *queue_, *stale_, *growth_, *hang_;
  JobGrowth growing_;
  JobHangs hanging_;
  std::set<std::uint64_t> reported_;  // jobs whose hang was reported with the last frame
  std::map<Key, State> states_;
  std::map<std::string, Known> known_;  // known devices by PCI address
};

}  // namespace berth::watch
