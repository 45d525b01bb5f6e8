// A recording of `berth top`: each line is one document of `berth top --json`.
#pragma once

#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "watch/frame.hpp"

namespace berth::top {

/// What the live view shows of a document; nullopt if it is not one. Frame::seconds is the recorded
/// time.
[[nodiscard]] std::optional<watch::Frame> frame_in(std::string_view document);

class Replay {
 public:
  /// Fails with kUnavailable (E0966: it cannot be read, or has no frames).
  [[nodiscard]] static Result<Replay> open(const std::string& file);
  [[nodiscard]] std::size_t size() const { return lines_.size(); }
  /// The frame with this index, which must be below size(). For a line that is not a document, the
  /// previous frame.
  [[nodiscard]] watch::FramePtr at(std::size_t place);

 private:
  Replay() = default;
  std::ifstream file_;
  std::vector<std::streamoff> lines_;
  watch::FramePtr last_;
};

}  // namespace berth::top
