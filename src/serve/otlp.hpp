// OpenTelemetry: sends the metrics to a collector by OTLP over HTTP with JSON, from a thread of its
// own, so that a slow collector delays nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace berth {
class TomlTable;
}

namespace berth::serve {

struct OtlpOptions {
  std::string endpoint;  // "http://127.0.0.1:4318"; "": nothing is sent
  std::chrono::milliseconds interval = std::chrono::seconds(15);
  std::vector<std::string> headers = {};  // "NAME: VALUE"; may have secrets
};
/// Reads "NAME=VALUE,NAME=VALUE" with percent-encoded values, which is the format of the variable
/// OTEL_EXPORTER_OTLP_HEADERS. nullopt if a value is empty, or has a character that HTTP headers
/// may not contain.
[[nodiscard]] std::optional<std::vector<std::string>> otlp_headers(std::string_view list);
/// The settings of [otlp] in berth.toml (docs/watch.md).
[[nodiscard]] OtlpOptions read_otlp(TomlTable& table);

/// The contents of a document besides the metrics. Times in nanoseconds since 1970.
struct OtlpFacts {
  std::string host, version;
  std::int64_t start = 0, now = 0;
};
/// `metrics`: in the Prometheus text format 0.0.4. Counters become monotonic sums since the start.
[[nodiscard]] std::string otlp_json(std::string_view metrics, const OtlpFacts& facts);

class OtlpExport {
 public:
  /// `note`: gets a sentence when sending begins to fail or works again.
  OtlpExport(OtlpOptions options, std::string version,
             std::function<void(const std::string&)> note);
  ~OtlpExport();
  OtlpExport(const OtlpExport&) = delete;
  OtlpExport& operator=(const OtlpExport&) = delete;

  /// Whether the interval is over, so that add() must be called.
  [[nodiscard]] bool is_due() const;
  /// Queues a document for sending, without waiting. If too many documents are queued, the oldest
  /// is dropped.
  void add(std::string metrics);

 private:
  void work();
  enum class Sent : unsigned char { kYes, kLater, kRefused };
  [[nodiscard]] Sent send(const std::string& document);
  void tell(const std::string& why);

  OtlpOptions options_;
  std::string host_, version_;
  std::function<void(const std::string&)> note_;
  std::int64_t start_;
  std::chrono::steady_clock::time_point due_;
  bool is_failing_ = false;  // used only by the thread
  std::mutex mutex_;         // protects waiting_
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;  // declared last, because it uses the other members
};

}  // namespace berth::serve
