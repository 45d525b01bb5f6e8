// A frame: the state of the machine that the sampler has read at one time. Plain values, no I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "model/xid_event.hpp"
#include "watch/xid_totals.hpp"

namespace berth::watch {

/// The cost of sampling since the sampler started.
struct Cost {
  double cpu_seconds = 0;     // CPU time of the sampler's thread
  double driver_seconds = 0;  // elapsed time inside vendors' drivers, summed over all devices
  std::uint64_t looks = 0;    // number of full snapshots
  double wall_seconds = 0;    // time since the sampler started
  /// Time between two frames; longer than requested if sampling costs too much.
  double interval_seconds = 1;
};

struct Frame {
  std::uint64_t number = 0;  // 1, 2, …
  double seconds = 0;        // monotonic clock; only differences between frames have a meaning
  model::Snapshot snapshot;  // the newest value of every reading
  std::vector<model::XidEvent> xids;  // Xids that were reported since the last frame
  std::shared_ptr<const XidTotals> xid_totals = {};
  Cost cost;
  bool has_new_processes = false;  // the process lists were read for this frame
  bool is_early = false;           // an early frame without processes, which are still being read
};
using FramePtr = std::shared_ptr<const Frame>;

}  // namespace berth::watch
