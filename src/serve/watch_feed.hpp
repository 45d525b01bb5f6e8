// The daemon's part of watching: owns the sampler, answers `/metrics`, `/v1/watch`, `/v1/alerts`,
// `/v1/health`, `/v1/history`, `/v1/usage` and `/v1/doctor`, and serves the web page. The sampler,
// queries of the history and `berth doctor` run in separate threads. The rest runs in the daemon's
// loop.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "inventory/observe.hpp"
#include "serve/alert_delivery.hpp"
#include "serve/observer.hpp"
#include "serve/otlp.hpp"
#include "serve/pod_list.hpp"
#include "serve/server.hpp"
#include "system/process.hpp"
#include "watch/alerts.hpp"
#include "watch/history.hpp"
#include "watch/rendered.hpp"
#include "watch/sampler.hpp"

namespace berth::serve {

/// The description of this Xid in the catalogue of Xids.
[[nodiscard]] watch::XidWords words_of_xid(int code);

class WatchFeed {
 public:
  /// `queue`: returns the current numbers of jobs in the queue.
  WatchFeed(boost::asio::io_context& loop, inventory::Sources sources, const std::string& version,
            std::function<watch::QueueNumbers()> queue, watch::AlertRules rules);
  ~WatchFeed();
  WatchFeed(const WatchFeed&) = delete;
  WatchFeed& operator=(const WatchFeed&) = delete;

  /// Starts sampling now, keeps history in the state folder, delivers alerts, and sends metrics to
  /// an OpenTelemetry collector. Without this call, sampling starts with the first request that
  /// needs it, and no history is kept.
  void keep_history(const std::string& state_folder,
                    const std::function<void(const std::string&)>& note,
                    const std::vector<AlertTarget>& targets, const OtlpOptions& otlp);
  /// Returns true if the call is about watching. Such a call is answered now or with the first
  /// sample of the devices. So "no alerts" means that the devices were read.
  [[nodiscard]] bool act(const Call& call, const Answer& answer);
  /// Call it once a second. It detects that the sampler no longer takes samples.
  void mind_sampler();
  /// Sets the root processes of jobs, what the jobs requested, and which of them hang.
  void set_jobs(std::vector<JobRoot> roots, watch::AskedMemory asked, watch::ReportedHangs hangs);

 private:
  void start();
  struct Asker {
    Call call;
    Answer answer;
  };
  void take(const watch::FramePtr& frame);
  void tell_alerts(const watch::AlertWatch::Changes& changes);
  [[nodiscard]] std::string alerts_document() const;
  [[nodiscard]] std::string alerts_event() const;
  void send_metrics(const Asker& asker);
  void answer_from_frame(const Asker& asker);
  void read_history(const Asker& asker);
  void ask_doctor(const Asker& asker);
  void begin_stream(const Asker& asker);
  [[nodiscard]] uid_t view_of(const Asker& asker) const;
  [[nodiscard]] const std::string& document_for(uid_t view);
  [[nodiscard]] std::string event_for(uid_t view, const std::map<uid_t, std::string>& before);
  [[nodiscard]] bool is_for_all(uid_t uid) const;

  boost::asio::io_context& loop_;
  inventory::Sources sources_;
  std::string version_;
  std::function<watch::QueueNumbers()> queue_;
  watch::RenderedMetrics rendered_;
  watch::FramePtr frame_;
  double seconds_without_frame_ = 0, longest_wait_ = 0;
  watch::AlertWatch alerts_;
  watch::ReportedHangs hangs_;
  std::optional<AlertDelivery> delivery_;
  std::optional<OtlpExport> otlp_;
  std::function<void(const std::string&)> note_;
  std::list<Asker> early_;      // callers that wait for the first sample
  std::list<Asker> listeners_;  // listeners of the stream
  // documents of the newest sample for the listeners; the key is view_of() of a listener
  std::map<uid_t, std::string> documents_;
  std::mutex mutex_;  // protects roots_ and asked_
  std::vector<JobRoot> roots_;
  watch::AskedMemory asked_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::string history_file_;  // "": no history is kept
  system::UserNames users_{"/etc"};
  int pending_lookups_ = 0;
  struct Diagnosis {
    std::list<Asker> patients;  // callers that wait for the result
    std::optional<Reply> reply;
    std::chrono::steady_clock::time_point at;
  };
  std::map<std::string, Diagnosis> diagnoses_;  // results of `berth doctor`, by language
  std::atomic<bool> is_over_ = false;
  boost::asio::thread_pool lookups_{1}, doctor_{1};
  std::optional<watch::History> history_;  // used only by the sampler's thread
  std::optional<PodList> pods_;
  std::unique_ptr<watch::Sampler> sampler_;  // declared last: its thread uses the other members
};

}  // namespace berth::serve
