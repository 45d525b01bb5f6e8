// Renders a frame for Prometheus: text 0.0.4 or OpenMetrics 1.0, with Berth's metric names or those
// of another exporter. Pure. An absent reading has no series.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "watch/frame.hpp"

namespace berth::watch {

enum class Dialect : unsigned char {
  kBerth,
  kDcgm,       // DCGM_FI_DEV_*, with dcgm-exporter's names and labels
  kNvidiaSmi,  // nvidia_smi_*, as in nvidia_gpu_exporter
};
/// "berth", "dcgm", "nvidia_smi".
[[nodiscard]] std::optional<Dialect> dialect_named(std::string_view name);
inline constexpr const char* kDialects = "berth|dcgm|nvidia_smi";

enum class Exposition : unsigned char { kText, kOpenMetrics };
/// The format that an Accept header prefers; kText if it names neither.
[[nodiscard]] Exposition exposition_for(std::string_view accept);
[[nodiscard]] const char* content_type(Exposition exposition);

/// Number of jobs by state ("running", "waiting", "held").
struct QueueNumbers {
  std::map<std::string, std::uint64_t> jobs;
  double longest_wait_seconds = 0;
  std::map<std::uint64_t, std::string> hanging;  // jobs whose ranks hang, with their users
};

/// A container of Kubernetes that has a device, or a part of it.
struct DevicePod {
  std::string device;  // a uuid, or the name of a device in a ResourceSlice
  std::string space, pod, container;
  bool operator==(const DevicePod&) const = default;
};

struct MetricsOptions {
  Dialect dialect = Dialect::kBerth;
  Exposition exposition = Exposition::kText;  // other dialects only support text
  std::size_t processes = 0;                  // series per device, the largest processes first
  std::string version;                        // Berth's version
  std::optional<QueueNumbers> queue = {};
  std::vector<DevicePod> pods = {};
  /// "critical", "warning", "info"; empty: all are "warning".
  std::function<std::string(int code)> severity_of_xid = {};
};

[[nodiscard]] std::string render_metrics(const Frame& frame, const MetricsOptions& options);

/// A metric for a reading of a device.
struct ReadingMetric {
  std::string_view reading;  // of BERTH_DEVICE_READINGS
  std::string_view name;     // with its unit; a counter ends in "_total"
  std::string_view unit;     // the unit in the name; "" if it has none
  bool is_counter;
  double scale;  // the metric is the reading times this
  std::string_view help;
};
[[nodiscard]] std::span<const ReadingMetric> metrics_of(Dialect dialect);

}  // namespace berth::watch
