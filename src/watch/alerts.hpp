// Alerts for users without Prometheus: conditions that last long enough, and that end only when
// they are clearly over. Pure: the frames carry the time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "watch/frame.hpp"

namespace berth::watch {

struct Alert {
  std::string rule;      // "device_down"
  std::string severity;  // "critical", "warning", "info"
  std::string device;    // key_of()
  std::string place;     // its PCI address if known, else its uuid
  int index = -1;        // Berth's index of the device
  std::string user;      // the user concerned; "": none
  std::string message;   // translated
  std::string hint;      // a command for details
  std::int64_t since_unix_milliseconds = 0;
};

class AlertWatch {
 public:
  struct Changes {
    std::vector<Alert> begun, ended;
  };
  /// Frames must be in time order. An alert about a device ends only if the device is in the frame;
  /// a device that was there and is in no frame any more is down.
  Changes add(const Frame& frame);
  /// Alerts that an earlier program reported and that may still hold. Call it before add().
  void restore(const std::vector<Alert>& alerts);
  /// Sorted by rule, device, user.
  [[nodiscard]] std::vector<Alert> active() const;

 private:
  struct State {
    std::optional<double> true_since;  // monotonic
    std::optional<Alert> active;
  };
  /// Rule, place of the device, user. The place is its PCI address if known: a lost device has no
  /// uuid.
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Known {
    std::string key;  // key_of(), with the uuid if it was ever seen
    int index = -1;
  };
  std::map<Key, State> states_;
  std::map<std::string, Known> known_;  // by place
};

}  // namespace berth::watch
