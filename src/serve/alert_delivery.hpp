// Delivers alerts to the commands and webhooks of the settings. Each target has its own thread, so
// that a slow target does not delay the others. A file stores the active and the waiting alerts,
// and how much of the kernel log was read. So a restarted daemon neither delivers an alert twice
// nor forgets one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "serve/alert_message.hpp"

namespace berth::serve {

/// Makes one attempt to deliver the event. Fails with kUnavailable (E0960).
[[nodiscard]] Status deliver(const AlertTarget& target, const AlertEvent& event,
                             const std::atomic<bool>& is_stopped);

struct AlertDeliveryOptions {
  std::vector<AlertTarget> targets = {};
  std::string state_file = {};
  std::function<void(const std::string&)> note = {};  // may be called by any thread
  // pause after the first failed attempt; it doubles after each failure, up to ten minutes
  std::chrono::milliseconds first_pause = std::chrono::seconds(5);
};

class AlertDelivery {
 public:
  explicit AlertDelivery(AlertDeliveryOptions options);
  /// Stops attempts that are under way. Their events stay in the file.
  ~AlertDelivery();
  AlertDelivery(const AlertDelivery&) = delete;
  AlertDelivery& operator=(const AlertDelivery&) = delete;

  /// The alerts that were active when the last daemon ended.
  [[nodiscard]] std::vector<watch::Alert> restored() const { return restored_; }
  /// How far the last daemon had read the kernel log.
  [[nodiscard]] const watch::LogPosition& restored_log() const { return restored_log_; }
  /// Delivers the changes in the background. `active`: all alerts after these changes. `log`: how
  /// far the kernel log was read for these alerts.
  void add(const watch::AlertWatch::Changes& changes, const std::vector<watch::Alert>& active,
           std::int64_t unix_milliseconds, const watch::LogPosition& log = {});

 private:
  struct Lane {
    AlertTarget target;
    std::string key;  // identifies the target in the state file; equal targets have different keys
    std::deque<AlertEvent> waiting;
    std::thread thread;
  };
  void restore();
  void save();
  void work(Lane& lane);
  /// True if nothing more is to be done with the event: it was delivered, or it is too old.
  bool attempt(const Lane& lane, const AlertEvent& event, bool is_first);
  void push(Lane& lane, AlertEvent event);

  AlertDeliveryOptions options_;
  std::string host_;
  std::vector<watch::Alert> restored_;
  watch::LogPosition restored_log_;
  std::atomic<bool> is_stopped_ = false;
  std::mutex mutex_;  // protects the members below
  std::condition_variable changed_;
  std::vector<watch::Alert> active_;
  watch::LogPosition log_;
  std::list<Lane> lanes_;
};

}  // namespace berth::serve
