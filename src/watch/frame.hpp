// One frame: the machine as the sampler saw it at one time. Plain values, no I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "model/xid_event.hpp"
#include "watch/xid_totals.hpp"

namespace berth::watch {

/// The cost of watching since the sampler started.
struct Cost {
  double cpu_seconds = 0;       // CPU time of the sampler's thread
  double driver_seconds = 0;    // elapsed time in vendors' drivers, all devices together
  std::uint64_t looks = 0;      // full snapshots
  double wall_seconds = 0;      // time since the sampler started
  double interval_seconds = 1;  // between two frames; longer than asked for if they cost too much
};

struct Frame {
  std::uint64_t number = 0;           // 1, 2, …
  double seconds = 0;                 // monotonic time; use only differences between frames
  model::Snapshot snapshot;           // the newest readings of every kind
  std::vector<model::XidEvent> xids;  // Xids that were reported since the last frame
  std::shared_ptr<const XidTotals> xid_totals = {};
  Cost cost;
  bool has_new_processes = false;  // the process lists were read for this frame
  bool is_early = false;           // the processes are not read yet, and the list is empty
};
using FramePtr = std::shared_ptr<const Frame>;

}  // namespace berth::watch
