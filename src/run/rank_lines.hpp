// Assembles a rank's output into whole lines, so that lines of several ranks never mix on a
// terminal. Pure.
#pragma once

#include <string>
#include <string_view>

namespace berth::run {

class RankLines {
 public:
  explicit RankLines(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The lines that these bytes complete, each with the prefix and a newline. Lines longer than
  /// kLongest bytes are split.
  [[nodiscard]] std::string add(std::string_view bytes);
  /// The text after the last newline, as a line; "" if there is nothing new. Use it for prompts and
  /// progress bars, and at the end of the output.
  [[nodiscard]] std::string take_rest();
  [[nodiscard]] bool has_rest() const { return !rest_.empty(); }

  static constexpr std::size_t kLongest = 16 * 1024;

 private:
  void end_line(std::string& out);

  std::string prefix_, rest_;
};

/// Keeps the last bytes of a stream, with at most twice `most` in memory.
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
