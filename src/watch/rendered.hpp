// Renders the metrics of the newest frame once; all scrapes until the next frame get the same text.
// A scrape never calls a driver.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "watch/metrics.hpp"

namespace berth::watch {

class RenderedMetrics {
 public:
  explicit RenderedMetrics(MetricsOptions options) : options_(std::move(options)) {}
  /// Sets the Kubernetes containers for later frames. Not thread-safe.
  void set_pods(std::vector<DevicePod> pods) { options_.pods = std::move(pods); }
  /// Returns the text for this frame. Calls `queue`, if set, each time the text is rendered. Not
  /// thread-safe.
  [[nodiscard]] std::shared_ptr<const std::string> text(
      const Frame& frame, Exposition exposition, const std::function<QueueNumbers()>& queue = {}) {
    if (options_.dialect != Dialect::kBerth) exposition = Exposition::kText;
    Rendered& kept = kept_[exposition == Exposition::kText ? 0 : 1];
    if (!kept.text || kept.frame != frame.number) {
      options_.exposition = exposition;
      if (queue) options_.queue = queue();
      kept = {frame.number, std::make_shared<const std::string>(render_metrics(frame, options_))};
    }
    return kept.text;
  }
  /// The format for a client with this Accept header.
  [[nodiscard]] Exposition exposition(std::string_view accept) const {
    return options_.dialect == Dialect::kBerth ? exposition_for(accept) : Exposition::kText;
  }

 private:
  struct Rendered {
    std::uint64_t frame = 0;
    std::shared_ptr<const std::string> text;
  };
  MetricsOptions options_;
  std::array<Rendered, 2> kept_;
};

}  // namespace berth::watch
