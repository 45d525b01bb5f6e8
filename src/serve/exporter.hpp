// The exporter: serves `/metrics` over TCP for Prometheus, without a broker. It listens on
// loopback; other addresses need a token.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/result.hpp"
#include "inventory/observe.hpp"
#include "watch/metrics.hpp"

namespace berth::serve {

struct ExporterOptions {
  std::string address = "127.0.0.1:9837";
  std::string token;  // "": no token needed
  std::chrono::milliseconds interval{1000};
  watch::MetricsOptions metrics;
  /// The folder of the kubelet, which knows the pods; "": metrics do not contain pods.
  std::string kubelet = "/var/lib/kubelet";
  inventory::Sources sources;
};

/// Runs until SIGTERM or SIGINT. Calls `ready` when it listens. Fails with kInvalidArgument (E0980:
/// not an address, or not loopback and without a token) and kUnavailable (E0916: cannot listen
/// there).
[[nodiscard]] Status run_exporter(const ExporterOptions& options,
                                  const std::function<void()>& ready = {});

}  // namespace berth::serve
