// Measures how long at least one of several commands ran on a device. Uses no libstdc++, so that it
// also works in a library that is loaded into other programs.
#pragma once

#include <cstdint>

namespace berth::wire {

/// The union of time intervals, which may overlap and come in any order. Only the newest gaps
/// between them are remembered; older gaps count as covered.
class CoveredTime {
 public:
  /// Adds an interval. Returns the length of the part that no earlier interval covered.
  std::uint64_t add(std::uint64_t begin, std::uint64_t end) {
    if (begin < floor_) begin = floor_;
    if (end <= begin) return 0;
    std::uint64_t fresh = end - begin;
    Interval merged = {begin, end}, rest[kMost + 1];
    unsigned count = 0;
    bool placed = false;
    for (unsigned i = 0; i < count_; ++i) {
      const Interval& one = kept_[i];
      if (one.begin <= merged.end && one.end >= merged.begin) {
        const std::uint64_t from = one.begin > begin ? one.begin : begin,
                            until = one.end < end ? one.end : end;
        if (until > from) fresh -= until - from;
        if (one.begin < merged.begin) merged.begin = one.begin;
        if (one.end > merged.end) merged.end = one.end;
        continue;
      }
      if (!placed && one.begin > merged.end) {
        rest[count++] = merged;
        placed = true;
      }
      rest[count++] = one;
    }
    if (!placed) rest[count++] = merged;
    const unsigned dropped = count > kMost ? 1 : 0;
    if (dropped > 0) floor_ = rest[0].end;
    count_ = count - dropped;
    for (unsigned i = 0; i < count_; ++i) kept_[i] = rest[i + dropped];
    return fresh;
  }

 private:
  static constexpr unsigned kMost = 8;
  struct Interval {
    std::uint64_t begin, end;
  };
  Interval kept_[kMost] = {};  // sorted, with a gap between neighbours
  unsigned count_ = 0;
  std::uint64_t floor_ = 0;
};

}  // namespace berth::wire
