// The log file of a rank. A program that writes without end does not fill the disk: FILE keeps the
// beginning of the output, FILE.1 and FILE.2 keep its end, and the middle is dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"

namespace berth::run {

/// Disk space for the log of one rank in one try. The help of --log-limit and docs/run.md contain
/// this number.
inline constexpr std::uint64_t kLogLimit = std::uint64_t{1} << 30;

class RankLog {
 public:
  /// Creates the file, and removes FILE.1 and FILE.2 of an earlier run. False with errno.
  [[nodiscard]] bool open(const std::string& path, std::uint64_t limit);
  /// Appends to the log. If that fails, for example because the disk is full, closes the log and
  /// returns false with errno.
  [[nodiscard]] bool write(std::string_view bytes);
  [[nodiscard]] bool is_open() const { return static_cast<bool>(file_); }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Whether the beginning is full, so that FILE.1 and FILE.2 have the end.
  [[nodiscard]] bool is_split() const { return part_ > 0; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  [[nodiscard]] bool open_next();
  [[nodiscard]] std::string name_of(int part) const;

  std::string path_;
  std::uint64_t limit_ = kLogLimit;
  Descriptor file_;
  int part_ = 0;                // the part that is written now: 0, 1 or 2
  std::uint64_t written_ = 0;   // bytes in the part that is written now
  std::uint64_t in_first_ = 0;  // bytes in FILE.1
  std::uint64_t left_out_ = 0;  // bytes that are in no file any more
};

}  // namespace berth::run
