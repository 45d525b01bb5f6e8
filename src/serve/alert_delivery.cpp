#include "serve/alert_delivery.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <set>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/write_file.hpp"
#include "system/child_run.hpp"
#include "system/terminals.hpp"

namespace berth::serve {
namespace {

using Json = nlohmann::json;
using watch::Alert;

constexpr std::chrono::minutes kLongestPause(10);
constexpr std::int64_t kGivenUpAfter = std::int64_t{24} * 3600 * 1000;  // one day in milliseconds
constexpr std::size_t kMostWaiting = 256, kMostAlerts = 4096;
constexpr std::size_t kMostFile = 8 << 20, kMostAnswer = 4096;

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

Json json_of(const Alert& alert) {
  Json owners = Json::array();
  for (const watch::AlertOwner& one : alert.owners)
    owners.push_back({{"user", one.user}, {"uid", one.uid}, {"pids", one.pids}});
  return {{"owners", owners},
          {"rule", alert.rule},
          {"severity", alert.severity},
          {"device", alert.device},
          {"place", alert.place},
          {"index", alert.index},
          {"user", alert.user},
          {"message", alert.message},
          {"hint", alert.hint},
          {"since", alert.since_unix_milliseconds},
          {"last", alert.last_unix_milliseconds},
          {"job", alert.job}};
}

Alert alert_in(const Json& json) {
  Alert alert;
  for (const auto& [key, into] : {std::pair{"rule", &alert.rule},
                                  {"severity", &alert.severity},
                                  {"device", &alert.device},
                                  {"place", &alert.place},
                                  {"user", &alert.user},
                                  {"message", &alert.message},
                                  {"hint", &alert.hint}})
    *into = printable(json_value<std::string>(json.at(key)));
  alert.index = json_value<int>(json.at("index"));
  alert.since_unix_milliseconds = json_value<std::int64_t>(json.at("since"));
  if (json.contains("job")) read_json(json["job"], alert.job);
  if (json.contains("last")) read_json(json["last"], alert.last_unix_milliseconds);
  if (!json.contains("owners")) return alert;  // an older Berth wrote it
  for (const Json& one : json["owners"]) {
    watch::AlertOwner& owner = alert.owners.emplace_back();
    owner.user = printable(json_value<std::string>(one.at("user")));
    read_json(one.at("uid"), owner.uid);
    read_json(one.at("pids"), owner.pids);
  }
  return alert;
}

Json json_of(const AlertEvent& event) {
  Json json = json_of(event.alert);
  json["event"] = name(event.kind);
  json["time"] = event.unix_milliseconds;
  json["host"] = event.host;
  return json;
}

AlertEvent event_in(const Json& json) {
  AlertEvent event;
  event.alert = alert_in(json);
  event.kind = json_value<std::string>(json.at("event")) == "ended" ? AlertEvent::Kind::kEnded
                                                                    : AlertEvent::Kind::kBegun;
  event.unix_milliseconds = json_value<std::int64_t>(json.at("time"));
  event.host = printable(json_value<std::string>(json.at("host")));
  return event;
}

/// The last line, in which programs usually say what went wrong.
std::string last_line(std::string_view output) {
  output = trim(output);
  const auto end = output.rfind('\n');
  return printable(output.substr(end == std::string_view::npos ? 0 : end + 1).substr(0, 300));
}

system::ChildRun run_for(const AlertTarget& target, const AlertEvent& event) {
  system::ChildRun run;
  run.most_bytes = kMostAnswer;
  if (target.webhook.empty()) {
    run.words = command_for(target, event);
    run.program = run.words.front();
    run.input = sentence_of(event) + "\n";
    run.longest = std::chrono::seconds(60);
    return run;
  }
  run.program = "curl";
  run.words = {"curl",           "-q",     "--config",  "-",          "--silent",
               "--show-error",   "--fail", "--globoff", "--max-time", "15",
               "--max-filesize", "65536",  "--proto",   "=http,https"};
  run.input = curl_settings(request_for(target, event, unix_now()));
  run.longest = std::chrono::seconds(20);
  return run;
}

/// Why the command failed, or "" if it did not fail.
std::string failure_of(const AlertTarget& target, const system::ChildRun& run,
                       const system::ChildResult& result) {
  if (result.problem == ENOENT) return text("there is no program {}", printable(run.program));
  if (result.problem != 0) return printable(run.program) + ": " + error_words(result.problem);
  if (!result.is_over)
    return text_n("still running after 1 second", "still running after {} seconds",
                  run.longest.count(), run.longest.count());
  if (WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0)
    return target.webhook.empty() ? "" : refusal_in(target, result.output).value_or("");
  std::string line = last_line(result.errors.empty() ? result.output : result.errors);
  if (!line.empty()) return line;
  return WIFEXITED(result.status) ? text("exit code {}", WEXITSTATUS(result.status))
                                  : text("killed by signal {}", WTERMSIG(result.status));
}

/// An owner without a terminal gets no message. This is not a failure.
Status tell_owners(const AlertEvent& event) {
  std::set<std::string> told;
  for (const watch::AlertOwner& owner : event.alert.owners) {
    const auto tell = [&](const std::vector<std::string>& terminals) {
      for (const std::string& one : terminals)
        if (!told.contains(one) && system::tell_terminal(one, owner.uid, sentence_of(event)))
          told.insert(one);
    };
    tell(system::terminals_of({}, system::kUtmp, 0, owner.user));
    for (const std::int64_t pid : owner.pids) tell(system::terminals_of({}, "", pid, ""));
  }
  if (event.kind == AlertEvent::Kind::kTest && told.empty())
    return Error{ErrorCode::kUnavailable, "E0960",
                 text("none of your terminals accepted the message"), "tty"};
  return Done{};
}

}  // namespace

Status deliver(const AlertTarget& target, const AlertEvent& event,
               const std::atomic<bool>& is_stopped) {
  if (target.terminals) return tell_owners(event);
  const system::ChildRun run = run_for(target, event);
  const std::string failure = failure_of(target, run, system::run_child(run, is_stopped));
  if (failure.empty()) return Done{};
  return Error{ErrorCode::kUnavailable, "E0960",
               text("{} did not accept an alert: {}", target.shown(), failure),
               "berth alerts --test"};
}

AlertDelivery::AlertDelivery(AlertDeliveryOptions options)
    : options_(std::move(options)), host_(host_name()) {
  std::map<std::string, int> times;
  for (const AlertTarget& target : options_.targets) {
    Lane& lane = lanes_.emplace_back();
    lane.target = target;
    lane.key = target.key();
    if (const int before = times[lane.key]++; before > 0) lane.key += "-" + std::to_string(before);
  }
  restore();
  for (Lane& lane : lanes_) lane.thread = std::thread([this, &lane] { work(lane); });
}

AlertDelivery::~AlertDelivery() {
  {
    const std::lock_guard hold(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  for (Lane& lane : lanes_) lane.thread.join();
}

void AlertDelivery::restore() {
  const auto document = slurp(options_.state_file, kMostFile);
  if (!document) return;
  try {
    const Json json = Json::parse(*document);
    for (const Json& one : json.at("active")) {
      if (restored_.size() >= kMostAlerts) break;
      restored_.push_back(alert_in(one));
    }
    for (Lane& lane : lanes_) {
      const auto found = json.at("waiting").find(lane.key);
      if (found == json.at("waiting").end()) continue;
      for (const Json& one : *found) push(lane, event_in(one));
    }
    active_ = restored_;
    if (const auto log = json.find("kernel_log"); log != json.end()) {
      log_.boot = printable(json_value<std::string>(log->at("boot")));
      read_json(log->at("last"), log_.last);
    }
    restored_log_ = log_;
  } catch (const Json::exception&) {
    restored_.clear();
    active_.clear();
    log_ = {};
    for (Lane& lane : lanes_) lane.waiting.clear();
    if (options_.note)
      options_.note(text("{} is damaged: alerts that are active may be delivered again",
                         options_.state_file));
  }
}

void AlertDelivery::save() {
  Json json = {{"active", Json::array()},
               {"waiting", Json::object()},
               {"kernel_log", {{"boot", log_.boot}, {"last", log_.last}}}};
  for (const Alert& one : active_) json["active"].push_back(json_of(one));
  for (const Lane& lane : lanes_) {
    Json& waiting = json["waiting"][lane.key] = Json::array();
    for (const AlertEvent& one : lane.waiting) waiting.push_back(json_of(one));
  }
  // On a full disk the old file stays: an event may then be delivered twice, which is better than
  // never.
  static_cast<void>(replace_file(
      options_.state_file, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", 0600));
}

void AlertDelivery::push(Lane& lane, AlertEvent event) {
  if (lane.waiting.size() >= kMostWaiting) lane.waiting.pop_front();
  lane.waiting.push_back(std::move(event));
}

void AlertDelivery::add(const watch::AlertWatch::Changes& changes, const std::vector<Alert>& active,
                        std::int64_t unix_milliseconds, const watch::LogPosition& log) {
  // No lock is needed to read log_, because only this thread changes it.
  const bool is_log_new = !log.boot.empty() && log != log_;
  if (changes.begun.empty() && changes.ended.empty() && !changes.is_longer && !is_log_new) return;
  {
    const std::lock_guard hold(mutex_);
    active_ = active;
    if (is_log_new) log_ = log;
    const auto push_all = [&](const std::vector<Alert>& alerts, AlertEvent::Kind kind) {
      for (const Alert& one : alerts)
        for (Lane& lane : lanes_)
          if (lane.target.wants(one)) push(lane, {kind, one, unix_milliseconds, host_});
    };
    push_all(changes.begun, AlertEvent::Kind::kBegun);
    push_all(changes.ended, AlertEvent::Kind::kEnded);
    save();
  }
  changed_.notify_all();
}

bool AlertDelivery::attempt(const Lane& lane, const AlertEvent& event, bool is_first) {
  const auto delivered = deliver(lane.target, event, is_stopped_);
  if (delivered || is_stopped_) return delivered.has_value();
  const bool is_too_old = unix_now() - event.unix_milliseconds > kGivenUpAfter;
  if (options_.note && is_first) options_.note(text("{}; retrying", delivered.error().message));
  if (options_.note && is_too_old)
    options_.note(
        text("an alert could not be delivered for a day and was dropped: {}", sentence_of(event)));
  return is_too_old;
}

void AlertDelivery::work(Lane& lane) {
  std::chrono::milliseconds pause = options_.first_pause;
  bool is_first = true;
  std::unique_lock hold(mutex_);
  while (!is_stopped_) {
    if (lane.waiting.empty()) {
      changed_.wait(hold, [&] { return is_stopped_ || !lane.waiting.empty(); });
      continue;
    }
    const AlertEvent event = lane.waiting.front();
    hold.unlock();
    const bool is_done = attempt(lane, event, is_first);
    hold.lock();
    is_first = is_done;
    if (is_done) {
      // Remove the event, unless it was already dropped in the meantime because the queue was full.
      const auto& front = lane.waiting.front();
      if (front.unix_milliseconds == event.unix_milliseconds && front.kind == event.kind &&
          front.alert.rule == event.alert.rule && front.alert.place == event.alert.place &&
          front.alert.user == event.alert.user && front.alert.job == event.alert.job)
        lane.waiting.pop_front();
      save();
      pause = options_.first_pause;
      continue;
    }
    changed_.wait_for(hold, pause, [&] { return is_stopped_.load(); });
    pause = std::min<std::chrono::milliseconds>(2 * pause, kLongestPause);
  }
}

}  // namespace berth::serve
