#include "serve/watch_feed.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <chrono>
#include <map>
#include <utility>

#include "base/text.hpp"
#include "doctor/knowledge/knowledge.hpp"
#include "output/json.hpp"
#include "serve/doctor_call.hpp"
#include "serve/frame_change.hpp"
#include "serve/guard_counts.hpp"
#include "serve/history_calls.hpp"
#include "serve/page_files.hpp"
#include "serve/refusal.hpp"

namespace berth::serve {

namespace {

/// The maximum number of streams of one user. All streams of a user share one text a second, but
/// each needs a connection.
constexpr std::ptrdiff_t kMostListeners = 1000;
constexpr std::size_t kMostProcesses = 200;
/// The maximum number of requests for history that may wait at the same time.
constexpr int kMostLookups = 64;
constexpr std::chrono::minutes kDoctorKept(1);

}  // namespace

watch::XidWords words_of_xid(int code) {
  const auto xids = doctor::known_xids();
  const auto found =
      std::lower_bound(xids.begin(), xids.end(), code,
                       [](const doctor::Xid& one, int wanted) { return one.code < wanted; });
  if (found == xids.end() || found->code != code) return {};
  const std::string_view severity = found->severity, kind = found->kind;
  watch::XidWords words;
  if (severity == "fatal")
    words.severity = "critical";
  else if (kind == "app" || kind == "secondary" || severity == "info")
    words.severity = "info";
  words.what = std::string(tr(found->what));
  if (*found->action != '\0') words.what += fmt::format("; {}", tr(found->action));
  return words;
}

WatchFeed::WatchFeed(boost::asio::io_context& loop, inventory::Sources sources,
                     const std::string& version, std::function<watch::QueueNumbers()> queue,
                     watch::AlertRules rules)
    : loop_(loop),
      sources_(std::move(sources)),
      version_(version),
      queue_([this, numbers_now = std::move(queue)] {
        watch::QueueNumbers numbers = numbers_now();
        for (const auto& [job, hang] : hangs_) numbers.hanging.emplace(job, hang.user);
        return numbers;
      }),
      rendered_([&] {
        watch::MetricsOptions options;
        options.version = version;
        options.severity_of_xid = [this](int code) { return alerts_.severity_of_xid(code); };
        return options;
      }()),
      alerts_(words_of_xid, std::move(rules)) {}

WatchFeed::~WatchFeed() {
  is_over_ = true;
  lookups_.join();
  doctor_.join();
  pods_.reset();
  sampler_.reset();
}

void WatchFeed::keep_history(const std::string& state_folder,
                             const std::function<void(const std::string&)>& note,
                             const std::vector<AlertTarget>& targets, const OtlpOptions& otlp) {
  auto history = watch::History::open(watch::history_file(state_folder), note);
  note_ = note;
  delivery_.emplace(AlertDeliveryOptions{
      .targets = targets, .state_file = state_folder + "/alerts.json", .note = note});
  if (!otlp.endpoint.empty()) otlp_.emplace(otlp, version_, note);
  alerts_.restore(delivery_->restored());
  history_file_ = watch::history_file(state_folder);
  if (history)
    history_ = *std::move(history);
  else if (note)
    note(history.error().message);
  pods_.emplace(kKubeletFolder, [this](std::vector<watch::DevicePod> list) {
    boost::asio::post(loop_,
                      [this, list = std::move(list), alive = std::weak_ptr(alive_)]() mutable {
                        if (alive.lock()) rendered_.set_pods(std::move(list));
                      });
  });
  start();
}

void WatchFeed::start() {
  if (sampler_) return;
  watch::SamplerOptions options;
  options.xids = true;
  if (delivery_) options.log_seen = delivery_->restored_log();
  options.decorate = [this](model::Snapshot& snapshot) {
    std::vector<JobRoot> roots;
    {
      const std::lock_guard hold(mutex_);
      roots = roots_;
    }
    std::map<std::int64_t, model::JobId> jobs;
    for (const model::JobProcess& one : processes_of(snapshot, roots, sources_.roots.proc))
      jobs.emplace(one.pid, one.job);
    for (model::DeviceProcess& process : snapshot.processes)
      if (const auto job = process.pid ? jobs.find(*process.pid) : jobs.end(); job != jobs.end())
        process.job = job->second;
    add_guard_times(snapshot);
  };
  options.on_frame = [this](const watch::FramePtr& frame) {
    if (history_) {
      watch::AskedMemory asked;
      {
        const std::lock_guard hold(mutex_);
        asked = asked_;
      }
      history_->add(*frame, asked);
    }
    boost::asio::post(loop_, [this, frame, alive = std::weak_ptr(alive_)] {
      if (alive.lock()) take(frame);
    });
  };
  sampler_ = std::make_unique<watch::Sampler>(sources_, std::move(options));
}

void WatchFeed::set_jobs(std::vector<JobRoot> roots, watch::AskedMemory asked,
                         watch::ReportedHangs hangs) {
  hangs_ = std::move(hangs);
  const std::lock_guard hold(mutex_);
  roots_ = std::move(roots);
  asked_ = std::move(asked);
}

bool WatchFeed::act(const Call& call, const Answer& answer) {
  if (call.method != "GET") return false;
  if (auto page = page_reply(call.path)) {
    answer.send(*std::move(page));
    return true;
  }
  const Asker asker{{call.method, call.path, call.query, "", call.peer, call.accept}, answer};
  if (call.path == "/v1/history" || call.path == "/v1/usage") {
    read_history(asker);
    return true;
  }
  if (call.path == "/v1/doctor") {
    ask_doctor(asker);
    return true;
  }
  if (call.path == "/v1/alerts/rules") {
    answer.send({200, alert_rules_json(alerts_.rules())});
    return true;
  }
  const bool is_stream = call.path == "/v1/watch";
  if (!is_stream && call.path != "/metrics" && call.path != "/v1/health" &&
      call.path != "/v1/alerts")
    return false;
  start();
  if (is_stream)
    begin_stream(asker);
  else if (frame_)
    answer_from_frame(asker);
  else
    early_.push_back(asker);
  return true;
}

std::string WatchFeed::alerts_document() const {
  return alerts_json(alerts_.active(),
                     frame_ ? std::optional(frame_->snapshot.unix_milliseconds) : std::nullopt);
}

std::string WatchFeed::alerts_event() const {
  return "event: alerts\ndata: " + alerts_document() + "\n";
}

void WatchFeed::answer_from_frame(const Asker& asker) {
  if (asker.call.path == "/metrics") return send_metrics(asker);
  if (asker.call.path == "/v1/alerts") return asker.answer.send({200, alerts_document()});
  const auto checked = watch::check_health(frame_->snapshot, {});
  asker.answer.send(checked ? Reply{200, health_json(*checked)} : refusal(checked.error()));
}

/// Reads the file in a separate thread, because months of readings would delay every other answer.
void WatchFeed::read_history(const Asker& asker) {
  if (pending_lookups_ >= kMostLookups)
    return asker.answer.send(refusal(
        {ErrorCode::kUnavailable, "E0990",
         text("{} calls for the history are already waiting: call again later", kMostLookups),
         ""}));
  ++pending_lookups_;
  const uid_t uid = asker.call.peer.uid;
  const auto only = is_for_all(uid) ? std::nullopt : std::optional(users_.of(uid));
  boost::asio::post(lookups_, [this, asker, only, alive = std::weak_ptr(alive_)] {
    const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                                 std::chrono::system_clock::now().time_since_epoch())
                                 .count();
    Reply reply = is_over_ ? Reply{503, ""}
                  : asker.call.path == "/v1/history"
                      ? history_reply(history_file_, asker.call, now)
                      : usage_reply(history_file_, asker.call, now, only);
    boost::asio::post(loop_, [this, asker, alive, reply = std::move(reply)]() mutable {
      if (!alive.lock()) return;
      --pending_lookups_;
      asker.answer.send(std::move(reply));
    });
  });
}

/// `berth doctor` reads the daemon's variables and files, which other users may not see.
void WatchFeed::ask_doctor(const Asker& asker) {
  if (!is_for_all(asker.call.peer.uid))
    return asker.answer.send(
        refusal({ErrorCode::kPermissionDenied, "E0991",
                 text("only the user of this broker may run its doctor"), "berth doctor"}));
  const auto asked = asker.call.query.find("lang");
  const bool is_known =
      asked != asker.call.query.end() && (asked->second == "en" || asked->second == "zh");
  const std::string language = is_known ? asked->second : "";
  Diagnosis& known = diagnoses_[language];
  if (known.reply && std::chrono::steady_clock::now() - known.at < kDoctorKept)
    return asker.answer.send(*known.reply);
  known.patients.push_back(asker);
  if (known.patients.size() > 1) return;
  boost::asio::post(doctor_, [this, language, alive = std::weak_ptr(alive_)] {
    Reply reply = doctor_reply(language, is_over_);
    boost::asio::post(loop_, [this, language, alive, reply = std::move(reply)]() mutable {
      if (!alive.lock()) return;
      Diagnosis& one = diagnoses_[language];
      for (const Asker& each : std::exchange(one.patients, {})) each.answer.send(reply);
      one.at = std::chrono::steady_clock::now();
      if (reply.status == 200) one.reply = std::move(reply);
    });
  });
}

void WatchFeed::send_metrics(const Asker& asker) {
  const auto exposition = rendered_.exposition(asker.call.accept);
  asker.answer.send(
      {200, *rendered_.text(*frame_, exposition, queue_), watch::content_type(exposition)});
}

void WatchFeed::begin_stream(const Asker& asker) {
  listeners_.remove_if([](const Asker& one) { return !one.answer.is_wanted(); });
  const auto theirs = std::count_if(listeners_.begin(), listeners_.end(), [&](const Asker& one) {
    return one.call.peer.uid == asker.call.peer.uid;
  });
  if (theirs >= kMostListeners)
    return asker.answer.send(
        refusal({ErrorCode::kUnavailable, "E0928",
                 text("{} of your connections are already waiting for events", theirs), ""}));
  listeners_.push_back(asker);
  asker.answer.stream(alerts_event());
  if (frame_) asker.answer.stream("event: frame\ndata: " + document_for(view_of(asker)) + "\n");
}

bool WatchFeed::is_for_all(uid_t uid) const {
  return uid == 0 || uid == ::geteuid();
}

/// The key of what this caller may see. Listeners with the same key get the same documents.
uid_t WatchFeed::view_of(const Asker& asker) const {
  return is_for_all(asker.call.peer.uid) ? 0 : asker.call.peer.uid;
}

/// A daemon run by root can read command lines that this caller must not see.
const std::string& WatchFeed::document_for(uid_t view) {
  const auto [found, is_new] = documents_.try_emplace(view);
  if (!is_new) return found->second;
  const output::FrameFacts facts{frame_->number, frame_->cost.cpu_seconds,
                                 frame_->cost.driver_seconds, kMostProcesses};
  if (is_for_all(view)) return found->second = output::frame_json(frame_->snapshot, facts);
  model::Snapshot shown = frame_->snapshot;
  for (model::DeviceProcess& process : shown.processes)
    if (process.uid != view) process.command.clear();
  return found->second = output::frame_json(shown, facts);
}

/// Listeners that have received the previous sample of the devices get only the differences.
std::string WatchFeed::event_for(uid_t view, const std::map<uid_t, std::string>& before) {
  const std::string& document = document_for(view);
  const auto known = before.find(view);
  return known == before.end()
             ? "event: frame\ndata: " + document + "\n"
             : "event: change\ndata: " + frame_change(known->second, document) + "\n";
}

void WatchFeed::mind_sampler() {
  if (!sampler_ || !frame_) return;
  const auto changes = alerts_.add_silence(++seconds_without_frame_,
                                           std::chrono::duration_cast<std::chrono::milliseconds>(
                                               std::chrono::system_clock::now().time_since_epoch())
                                               .count());
  if (!changes.begun.empty()) tell_alerts(changes);
}

void WatchFeed::tell_alerts(const watch::AlertWatch::Changes& changes) {
  // An alert may change the result of `berth doctor`, so discard the stored results.
  if (!changes.begun.empty() || !changes.ended.empty())
    for (auto& [language, one] : diagnoses_) one.reply.reset();
  if (!changes.begun.empty() || !changes.ended.empty())
    for (const Asker& one : listeners_) one.answer.stream(alerts_event());
  if (delivery_)
    delivery_->add(changes, alerts_.active(),
                   std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count(),
                   frame_->xid_totals ? frame_->xid_totals->log : watch::LogPosition{});
  if (!note_) return;
  for (const watch::Alert& one : changes.begun)
    note_(text("alert: {}; details: {}", one.message, one.hint));
  for (const watch::Alert& one : changes.ended) note_(text("alert ended: {}", one.message));
}

void WatchFeed::take(const watch::FramePtr& frame) {
  frame_ = frame;
  const auto before = std::exchange(documents_, {});
  seconds_without_frame_ = 0;
  // Only for every tenth frame (sample of the devices), because queue_() looks at all jobs.
  constexpr std::uint64_t kQueueEvery = 10;
  if (frame->number % kQueueEvery == 0) longest_wait_ = queue_().longest_wait_seconds;
  tell_alerts(alerts_.add(*frame, longest_wait_, hangs_));
  for (const Asker& one : early_)
    if (one.answer.is_wanted()) answer_from_frame(one);
  early_.clear();
  if (otlp_ && otlp_->is_due())
    otlp_->add(*rendered_.text(*frame_, watch::Exposition::kText, queue_));
  listeners_.remove_if([](const Asker& one) { return !one.answer.is_wanted(); });
  std::map<uid_t, std::string> events;
  for (const Asker& one : listeners_) {
    std::string& event = events[view_of(one)];
    if (event.empty()) event = event_for(view_of(one), before);
    one.answer.stream(event);
  }
}

}  // namespace berth::serve
