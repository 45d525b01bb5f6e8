#include "serve/otlp.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/toml_table.hpp"
#include "output/json_writer.hpp"
#include "system/child_run.hpp"

namespace berth::serve {
namespace {

constexpr std::size_t kMostWaiting = 8, kMostUrl = 2000, kMostHeaders = 8000;
constexpr std::chrono::seconds kFirstPause(1), kLongestPause(60);

std::int64_t unix_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// In its JSON form, OTLP writes 64-bit numbers as strings.
void time_field(output::JsonWriter& json, std::string_view key, std::int64_t nanoseconds) {
  json.field(key, std::to_string(nanoseconds));
}

void add_attribute(output::JsonWriter& json, std::string_view key, std::string_view value) {
  json.open('{');
  json.field("key", key);
  json.key("value");
  json.open('{');
  json.field("stringValue", value);
  json.close('}');
  json.close('}');
}

/// Reads {name="value",…}. Returns the position after it.
std::size_t add_labels(output::JsonWriter& json, std::string_view line, std::size_t at) {
  json.key("attributes");
  json.open('[');
  if (at < line.size() && line[at] == '{') {
    for (++at; at < line.size() && line[at] != '}';) {
      const std::size_t equals = line.find('=', at);
      if (equals == std::string_view::npos) break;
      const std::string_view name = line.substr(at, equals - at);
      std::string value;
      for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
        const bool is_escaped = line[at] == '\\' && at + 1 < line.size();
        if (is_escaped) ++at;
        value += is_escaped && line[at] == 'n' ? '\n' : line[at];
      }
      add_attribute(json, name, value);
      ++at;
      if (at < line.size() && line[at] == ',') ++at;
    }
    ++at;
  }
  json.close(']');
  return at;
}

void add_point(output::JsonWriter& json, std::string_view line, bool is_counter,
               const OtlpFacts& facts) {
  json.open('{');
  const std::size_t at = add_labels(json, line, line.find_first_of("{ "));
  if (is_counter) time_field(json, "startTimeUnixNano", facts.start);
  time_field(json, "timeUnixNano", facts.now);
  const std::string value(at < line.size() ? line.substr(at + 1) : "0");
  json.field("asDouble", std::strtod(value.c_str(), nullptr));
  json.close('}');
}

/// One metric: its TYPE and its series.
void add_metric(output::JsonWriter& json, std::string_view name, bool is_counter,
                const std::vector<std::string_view>& series, const OtlpFacts& facts) {
  json.open('{');
  json.field("name", name);
  json.key(is_counter ? "sum" : "gauge");
  json.open('{');
  if (is_counter) {
    constexpr int kCumulative = 2;
    json.field("aggregationTemporality", kCumulative);
    json.field("isMonotonic", true);
  }
  json.key("dataPoints");
  json.open('[');
  for (const std::string_view line : series) add_point(json, line, is_counter, facts);
  json.close(']');
  json.close('}');
  json.close('}');
}

/// "a%20b" → "a b"
std::optional<std::string> percent_decoded(std::string_view encoded) {
  std::string bytes;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] != '%') {
      bytes += encoded[i];
      continue;
    }
    const std::string_view digits = encoded.substr(i + 1, 2);
    unsigned char byte = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || read.ptr != digits.data() + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
    i += 2;
  }
  return bytes;
}

bool is_header_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";
  return !name.empty() && name.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace

std::optional<std::vector<std::string>> otlp_headers(std::string_view list) {
  if (list.size() > kMostHeaders) return std::nullopt;
  std::vector<std::string> headers;
  for (const std::string_view pair : split(list, ',')) {
    if (trim(pair).empty()) continue;
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = trim(pair.substr(0, equals));
    const auto value = percent_decoded(trim(pair.substr(equals + 1)));
    // A line break in the value would begin another HTTP header.
    const bool is_sound = value && !value->empty() &&
                          std::none_of(value->begin(), value->end(),
                                       [](unsigned char c) { return c < ' ' || c == 0x7f; });
    if (!is_header_name(name) || !is_sound) return std::nullopt;
    headers.push_back(fmt::format("{}: {}", name, *value));
  }
  return headers;
}

OtlpOptions read_otlp(TomlTable& table) {
  OtlpOptions options;
  table.string("endpoint", options.endpoint, false, kMostUrl);
  table.duration("interval", options.interval, std::chrono::hours(1));
  if (!options.endpoint.starts_with("http://") && !options.endpoint.starts_with("https://"))
    table.check(text("endpoint: not a URL with http:// or https://"));
  std::string headers;
  table.string("headers", headers, false, kMostHeaders);
  if (auto read = otlp_headers(headers))
    options.headers = *std::move(read);
  else
    table.check(text("headers: not NAME=VALUE,NAME=VALUE with percent-encoded values"));
  if (options.interval < std::chrono::seconds(1)) table.check(text("interval: less than a second"));
  return options;
}

std::string otlp_json(std::string_view metrics, const OtlpFacts& facts) {
  output::JsonWriter json;
  json.open('{');
  json.rows("resourceMetrics", std::array{0}, [&](int) {
    json.key("resource");
    json.open('{');
    json.key("attributes");
    json.open('[');
    add_attribute(json, "service.name", "berth");
    add_attribute(json, "service.version", facts.version);
    add_attribute(json, "host.name", facts.host);
    json.close(']');
    json.close('}');
    json.rows("scopeMetrics", std::array{0}, [&](int) {
      json.key("scope");
      json.open('{');
      json.field("name", "berth");
      json.close('}');
      json.key("metrics");
      json.open('[');
      constexpr std::string_view kType = "# TYPE ";
      std::string_view name, type;
      std::vector<std::string_view> series;
      const auto finish = [&] {
        if (!series.empty()) add_metric(json, name, type == "counter", series, facts);
        series.clear();
      };
      for (const std::string_view line : split(metrics, '\n')) {
        if (line.starts_with(kType)) {
          finish();
          const std::size_t space = line.find(' ', kType.size());
          name = line.substr(kType.size(), space - kType.size());
          type = space == std::string_view::npos ? "" : line.substr(space + 1);
        } else if (!line.empty() && line.front() != '#') {
          series.push_back(line);
        }
      }
      finish();
      json.close(']');
    });
  });
  json.close('}');
  return json.finish();
}

OtlpExport::OtlpExport(OtlpOptions options, std::string version,
                       std::function<void(const std::string&)> note)
    : options_(std::move(options)),
      version_(std::move(version)),
      note_(std::move(note)),
      start_(unix_nanoseconds()) {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) host_ = name.data();
  while (options_.endpoint.ends_with('/')) options_.endpoint.pop_back();
  thread_ = std::thread([this] { work(); });
}

OtlpExport::~OtlpExport() {
  {
    const std::lock_guard hold(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool OtlpExport::is_due() const {
  return std::chrono::steady_clock::now() >= due_;
}

void OtlpExport::add(std::string metrics) {
  due_ = std::chrono::steady_clock::now() + options_.interval;
  std::string document = otlp_json(metrics, {host_, version_, start_, unix_nanoseconds()});
  {
    const std::lock_guard hold(mutex_);
    if (waiting_.size() >= kMostWaiting) waiting_.pop_front();
    waiting_.push_back(std::move(document));
  }
  changed_.notify_all();
}

void OtlpExport::tell(const std::string& why) {
  if (is_failing_ == !why.empty()) return;
  is_failing_ = !why.empty();
  if (!note_) return;
  note_(is_failing_ ? text("{} does not accept metrics: {}", printable(options_.endpoint), why)
                    : text("{} takes metrics again", printable(options_.endpoint)));
}

OtlpExport::Sent OtlpExport::send(const std::string& document) {
  system::ChildRun run;
  run.program = "curl";
  run.words = {"curl",          "-q",
               "--silent",      "--globoff",
               "--proto",       "=http,https",
               "--max-time",    "10",
               "--header",      "Content-Type: application/json",
               "--data-binary", "@-",
               "--output",      "/dev/null",
               "--write-out",   "%{http_code}",
               "--url",         options_.endpoint + "/v1/metrics"};
  run.input = document;
  // The headers may contain secrets, so they are not in the command line, which other users can
  // read.
  for (const std::string& header : options_.headers) run.file += header + "\n";
  if (!run.file.empty()) run.words.insert(run.words.end(), {"--header", "@/dev/fd/3"});
  run.longest = std::chrono::seconds(15);
  run.most_bytes = 4096;
  const system::ChildResult result = system::run_child(run, is_over_);
  if (is_over_) return Sent::kLater;
  if (result.problem != 0) {
    tell(text("there is no program {}", run.program));
    return Sent::kLater;
  }
  const std::string status(trim(result.output));
  const bool is_taken =
      WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0 && status.starts_with('2');
  const bool is_answer = status.size() == 3 && status != "000";
  tell(is_taken ? "" : is_answer ? fmt::format("HTTP {}", printable(status)) : text("no answer"));
  if (is_taken) return Sent::kYes;
  // The statuses after which OTLP retries. After any other status, the same document would be
  // refused again.
  const bool is_for_later =
      !is_answer || status == "429" || status == "502" || status == "503" || status == "504";
  return is_for_later ? Sent::kLater : Sent::kRefused;
}

void OtlpExport::work() {
  std::chrono::seconds pause = kFirstPause;
  std::unique_lock hold(mutex_);
  while (!is_over_) {
    if (waiting_.empty()) {
      changed_.wait(hold, [this] { return is_over_ || !waiting_.empty(); });
      continue;
    }
    std::string document = std::move(waiting_.front());
    waiting_.pop_front();
    hold.unlock();
    const Sent sent = send(document);
    hold.lock();
    if (sent != Sent::kLater) {
      pause = kFirstPause;
      continue;
    }
    if (waiting_.size() < kMostWaiting) waiting_.push_front(std::move(document));
    changed_.wait_for(hold, pause, [this] { return is_over_.load(); });
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace berth::serve
