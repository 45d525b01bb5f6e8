// Renders a frame for Prometheus: as text 0.0.4 or OpenMetrics 1.0, and with Berth's metric names
// or those of another exporter. Pure. An absent reading is not exported.
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
  kDcgm,       // names and labels of dcgm-exporter: DCGM_FI_DEV_*
  kNvidiaSmi,  // names of nvidia_gpu_exporter: nvidia_smi_*
};
/// Returns the dialect with this name: "berth", "dcgm", "nvidia_smi".
[[nodiscard]] std::optional<Dialect> dialect_named(std::string_view name);
inline constexpr const char* kDialects = "berth|dcgm|nvidia_smi";

enum class Exposition : unsigned char { kText, kOpenMetrics };
/// Returns the format that an HTTP Accept header prefers; kText if it names neither format.
[[nodiscard]] Exposition exposition_for(std::string_view accept);
[[nodiscard]] const char* content_type(Exposition exposition);

/// Numbers about the broker's queue. `jobs` maps a state ("running", "waiting", "held") to the
/// number of jobs.
struct QueueNumbers {
  std::map<std::string, std::uint64_t> jobs;
  double longest_wait_seconds = 0;
  std::map<std::uint64_t, std::string> hanging;  // job → user, for jobs whose ranks hang
};

/// A Kubernetes container that has a device or a part of it.
struct DevicePod {
  std::string device;  // the device's uuid, or its name in a ResourceSlice
  std::string space, pod, container;
  bool operator==(const DevicePod&) const = default;
};

struct MetricsOptions {
  Dialect dialect = Dialect::kBerth;
  Exposition exposition = Exposition::kText;  // only kBerth also supports kOpenMetrics
  std::size_t processes = 0;                  // maximum number of process series per device
  std::string version;                        // Berth's version
  std::optional<QueueNumbers> queue = {};
  std::vector<DevicePod> pods = {};
  /// Returns "critical", "warning" or "info". Without a function, every Xid is a "warning".
  std::function<std::string(int code)> severity_of_xid = {};
};

[[nodiscard]] std::string render_metrics(const Frame& frame, const MetricsOptions& options);

/// The metric that exports one reading of a device.
struct ReadingMetric {
  std::string_view reading;  // name of a reading in BERTH_DEVICE_READINGS
  std::string_view name;     // contains the unit; a counter's name ends in "_total"
  std::string_view unit;     // the unit in the name; "" if it has none
  bool is_counter;
  double scale;  // the exported value is the reading multiplied by this
  std::string_view help;
};
[[nodiscard]] std::span<const ReadingMetric> metrics_of(Dialect dialect);

}  // namespace berth::watch
