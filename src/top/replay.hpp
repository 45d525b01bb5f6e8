// A recording of the live view. Each line of the file is one document of `berth top --json`.
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

/// Converts a document to a frame of the live view. Frame::seconds is the recorded time. nullopt if
/// the text is not such a document.
[[nodiscard]] std::optional<watch::Frame> frame_in(std::string_view document);

class Replay {
 public:
  /// Opens a recording. Fails with kUnavailable (E0966) if the file cannot be read or has no
  /// frames.
  [[nodiscard]] static Result<Replay> open(const std::string& file);
  [[nodiscard]] std::size_t size() const { return lines_.size(); }
  /// Returns the frame with this index, which must be below size(). If its line is damaged, returns
  /// the previous frame.
  [[nodiscard]] watch::FramePtr at(std::size_t place);

 private:
  Replay() = default;
  std::ifstream file_;
  std::vector<std::streamoff> lines_;
  watch::FramePtr last_;
};

}  // namespace berth::top
