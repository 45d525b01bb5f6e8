// From what a rank writes to whole lines, so that the lines of several ranks never mix on a
// terminal. Pure.
#pragma once

#include <string>
#include <string_view>

namespace berth::run {

class RankLines {
 public:
  explicit RankLines(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The whole lines that these bytes complete, each with the prefix and a line end. A line of more
  /// than kLongest bytes is cut into several.
  [[nodiscard]] std::string add(std::string_view bytes);
  /// What has no line end yet, as a line; "" where there is nothing new: for prompts, progress bars
  /// and the end.
  [[nodiscard]] std::string take_rest();
  [[nodiscard]] bool has_rest() const { return !rest_.empty(); }

  static constexpr std::size_t kLongest = 16 * 1024;

 private:
  void end_line(std::string& out);

  std::string prefix_, rest_;
};

/// The last bytes of a stream, at most twice `most` of them in memory.
class Tail {
 public:
  explicit Tail(std::size_t most) : most_(most) {}
  void add(std::string_view bytes);
  [[nodiscard]] std::string_view bytes() const {
    const std::string_view all(bytes_);
    return all.size() > most_ ? all.substr(all.size() - most_) : all;
  }

 private:
  std::size_t most_;
  std::string bytes_;
};

}  // namespace berth::run
