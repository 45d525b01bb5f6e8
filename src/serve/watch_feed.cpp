#include "serve/watch_feed.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <map>

#include "base/text.hpp"
#include "output/json.hpp"
#include "output/json_writer.hpp"
#include "output/words.hpp"
#include "serve/refusal.hpp"

extern "C" {
extern const unsigned char berth_page_html[], berth_page_html_end[];
extern const unsigned char berth_page_js[], berth_page_js_end[];
extern const unsigned char berth_page_css[], berth_page_css_end[];
}

namespace berth::serve {

namespace {

/// Per user: a page needs one, and each costs a copy of every frame.
constexpr std::ptrdiff_t kMostListeners = 64;
constexpr std::size_t kMostProcesses = 200;
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

struct PageFile {
  std::string_view path;
  const char* type;
  const unsigned char *begin, *end;
};

const std::array<PageFile, 3>& page_files() {
  static const std::array<PageFile, 3> kFiles = {{
      {"/", "text/html; charset=utf-8", berth_page_html, berth_page_html_end},
      {"/app.js", "text/javascript; charset=utf-8", berth_page_js, berth_page_js_end},
      {"/app.css", "text/css; charset=utf-8", berth_page_css, berth_page_css_end},
  }};
  return kFiles;
}

std::string alerts_json(const std::vector<watch::Alert>& alerts) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.rows("alerts", alerts, [&](const watch::Alert& one) {
    json.field("rule", one.rule);
    json.field("severity", one.severity);
    json.field("device", one.index);
    json.field("uuid", one.device);
    json.text_field("user", one.user);
    json.field("since", output::show_time(one.since_unix_milliseconds));
    json.field("message", one.message);
    json.field("hint", one.hint);
  });
  json.close('}');
  return json.finish();
}

std::string alerts_event(const std::vector<watch::Alert>& alerts) {
  return "event: alerts\ndata: " + alerts_json(alerts) + "\n";
}

}  // namespace

bool is_page(std::string_view path) {
  return std::any_of(page_files().begin(), page_files().end(),
                     [&](const PageFile& one) { return one.path == path; });
}

WatchFeed::WatchFeed(boost::asio::io_context& loop, inventory::Sources sources,
                     const std::string& version, std::function<watch::QueueNumbers()> queue)
    : loop_(loop), sources_(std::move(sources)), queue_(std::move(queue)), rendered_([&] {
        watch::MetricsOptions options;
        options.version = version;
        return options;
      }()) {}

WatchFeed::~WatchFeed() {
  sampler_.reset();
}

void WatchFeed::keep_history(const std::string& state_folder,
                             const std::function<void(const std::string&)>& note) {
  auto history = watch::History::open(watch::history_file(state_folder), note);
  note_ = note;
  if (history)
    history_ = *std::move(history);
  else if (note)
    note(history.error().message);
  start();
}

void WatchFeed::start() {
  if (sampler_) return;
  watch::SamplerOptions options;
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
  };
  options.on_frame = [this](const watch::FramePtr& frame) {
    if (history_) history_->add(*frame);
    boost::asio::post(loop_, [this, frame, alive = std::weak_ptr(alive_)] {
      if (alive.lock()) take(frame);
    });
  };
  sampler_ = std::make_unique<watch::Sampler>(sources_, std::move(options));
}

void WatchFeed::set_roots(std::vector<JobRoot> roots) {
  const std::lock_guard hold(mutex_);
  roots_ = std::move(roots);
}

bool WatchFeed::act(const Call& call, const Answer& answer) {
  if (call.method != "GET") return false;
  for (const PageFile& file : page_files())
    if (file.path == call.path) {
      const auto* bytes = reinterpret_cast<const char*>(file.begin);
      answer.send({200, std::string(bytes, static_cast<std::size_t>(file.end - file.begin)),
                   file.type, kPolicy});
      return true;
    }
  const bool is_stream = call.path == "/v1/watch";
  if (call.path == "/v1/alerts") {
    start();
    answer.send({200, alerts_json(alerts_.active())});
    return true;
  }
  if (!is_stream && call.path != "/metrics") return false;
  start();
  const Asker asker{{call.method, call.path, call.query, "", call.peer, call.accept}, answer};
  if (is_stream)
    begin_stream(asker);
  else if (frame_)
    send_metrics(asker);
  else
    early_.push_back(asker);
  return true;
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
    return asker.answer.send(refusal({ErrorCode::kUnavailable, "E0928",
                                      text("{} of your connections listen already", theirs), ""}));
  listeners_.push_back(asker);
  asker.answer.stream(alerts_event(alerts_.active()));
  if (frame_) asker.answer.stream(event_for(asker.call.peer.uid));
}

bool WatchFeed::is_for_all(uid_t uid) const {
  return uid == 0 || uid == ::geteuid();
}

/// A daemon run by root can read command lines that this caller must not see.
std::string WatchFeed::event_for(uid_t uid) const {
  const output::FrameFacts facts{frame_->number, frame_->cost.cpu_seconds,
                                 frame_->cost.driver_seconds, kMostProcesses};
  if (is_for_all(uid))
    return "event: frame\ndata: " + output::frame_json(frame_->snapshot, facts) + "\n";
  model::Snapshot shown = frame_->snapshot;
  for (model::DeviceProcess& process : shown.processes)
    if (process.uid != uid) process.command.clear();
  return "event: frame\ndata: " + output::frame_json(shown, facts) + "\n";
}

void WatchFeed::note_alerts(const watch::Frame& frame) {
  const auto changes = alerts_.add(frame);
  if (!changes.begun.empty() || !changes.ended.empty())
    for (const Asker& one : listeners_) one.answer.stream(alerts_event(alerts_.active()));
  if (!note_) return;
  for (const watch::Alert& one : changes.begun)
    note_(text("alert: {}; look: {}", one.message, one.hint));
  for (const watch::Alert& one : changes.ended) note_(text("alert over: {}", one.message));
}

void WatchFeed::take(const watch::FramePtr& frame) {
  frame_ = frame;
  note_alerts(*frame);
  for (const Asker& one : early_)
    if (one.answer.is_wanted()) send_metrics(one);
  early_.clear();
  listeners_.remove_if([](const Asker& one) { return !one.answer.is_wanted(); });
  std::map<uid_t, std::string> events;
  for (const Asker& one : listeners_) {
    std::string& event = events[is_for_all(one.call.peer.uid) ? 0 : one.call.peer.uid];
    if (event.empty()) event = event_for(one.call.peer.uid);
    one.answer.stream(event);
  }
}

}  // namespace berth::serve
