#include "top/queue.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "output/words.hpp"

namespace berth::top {
namespace {

using Json = nlohmann::json;
using output::Style;

struct Reason {
  std::string_view name;
  const char* says;  // msgid
};
constexpr auto kReasons = std::to_array<Reason>({
    {"nothing", msgid("it is next, or waits for another job")},
    {"busy", msgid("no suitable device is free")},
    {"reserved", msgid("a device is free, but reserved for a job ahead in the queue")},
    {"user_limit", msgid("its user has reached a limit of the settings")},
    {"pause", msgid("the pause before its next try is not over")},
    {"array_limit", msgid("its array has reached its limit of running jobs")},
    {"journal", msgid("the broker cannot write its journal")},
    {"gives_way", msgid("paused while the broker for all users is running")},
    {"never", msgid("it would not fit even if every job ended")},
});

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? printable(found->get<std::string>()) : "";
}

/// Returns the seconds from `time` ("2026-11-23T14:02:05.250Z") until `now`; 0 if the text is not a
/// time.
double seconds_since(const std::string& time, std::int64_t now) {
  std::tm parts = {};
  if (::strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return 0;
  return std::max(0.0, static_cast<double>(now) / 1000 - static_cast<double>(::timegm(&parts)));
}

std::string what_of(const Json& job) {
  if (const std::string name = text_of(job, "name"); !name.empty()) return name;
  std::string words;
  if (const auto command = job.find("command"); command != job.end() && command->is_array())
    for (const Json& word : *command)
      if (word.is_string()) words += (words.empty() ? "" : " ") + word.get<std::string>();
  return words.empty() ? "?" : printable(words);
}

std::string state_words(const QueuedJob& job) {
  if (job.state == "running") return text("running");
  return job.state == "held" ? text("held") : text("waiting");
}

Line line_of(const QueuedJob& job, bool is_selected, int width) {
  const Style plain = is_selected ? Style::kBold : Style::kPlain;
  std::string all = output::pad((is_selected ? ">" : "") + std::to_string(job.id), 7, true) + " " +
                    output::pad(state_words(job), 8) + " " +
                    output::pad(output::clip(job.user.empty() ? "?" : job.user, 9), 9) + " " +
                    output::pad(output::show_age(job.seconds), 9, true) + " " +
                    output::clip(job.what, 40);
  Line line = {{plain, output::clip(all, width)}};
  const auto reason = std::find_if(kReasons.begin(), kReasons.end(),
                                   [&](const Reason& one) { return one.name == job.why; });
  const int left = width - output::display_width(line.front().text);
  if (reason != kReasons.end() && left > 3)
    line.push_back({Style::kYellow, output::clip("  " + std::string(tr(reason->says)), left)});
  return line;
}

}  // namespace

Queue queue_in(const std::string& document, std::int64_t now) {
  Queue queue;
  try {
    const Json json = Json::parse(document);
    for (const Json& job : json.at("jobs")) {
      QueuedJob one;
      one.id = json_value<std::uint64_t>(job.at("id"));
      one.user = text_of(job, "user");
      one.what = what_of(job);
      one.state = text_of(job, "state");
      if (one.state != "running" && one.state != "waiting" && one.state != "held") continue;
      const char* since = one.state == "running" ? "started" : "submitted";
      one.seconds = seconds_since(text_of(job, since), now);
      queue.jobs.push_back(std::move(one));
    }
    queue.has_broker = true;
  } catch (const Json::exception&) {
    return {};
  }
  std::stable_sort(queue.jobs.begin(), queue.jobs.end(),
                   [](const QueuedJob& a, const QueuedJob& b) {
                     return (a.state == "running") > (b.state == "running");
                   });
  return queue;
}

std::string why_in(const std::string& document) {
  const Json json = Json::parse(document, nullptr, false);
  return json.is_object() ? text_of(json, "obstruction") : "";
}

std::vector<Line> queue_lines(const Queue& queue, int row, bool has_row, int width, int most) {
  std::vector<Line> lines;
  const std::string title = output::pad(text("job"), 7, true) + " " +
                            output::pad(text("state"), 8) + " " + output::pad(text("user"), 9) +
                            " " + output::pad(text("time"), 9, true) + " " + text("what");
  lines.push_back({{Style::kDim, output::clip(title, width)}});
  if (queue.jobs.empty())
    lines.push_back({{Style::kDim, output::clip(queue.has_broker ? text("no job runs or waits")
                                                                 : text("no broker runs"),
                                                width)}});
  const int count = static_cast<int>(queue.jobs.size()), room = most > 0 ? most - 1 : count;
  const int selected = std::clamp(row, 0, std::max(0, count - 1));
  const int first = std::clamp(selected - room / 2, 0, std::max(0, count - room));
  for (int i = first; i < count && i - first < room; ++i)
    lines.push_back(
        line_of(queue.jobs[static_cast<std::size_t>(i)], has_row && i == selected, width));
  return lines;
}

}  // namespace berth::top
