// A file whose readers copy only the parts they need, through functions that do the I/O. The
// contents are untrusted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth {

struct FileBytes {
  std::string name;  // the file's name, for error messages
  std::uint64_t size = 0;
  /// Copies `length` bytes from `offset`; false if they cannot be read.
  std::function<bool(std::uint64_t offset, char* into, std::size_t length)> read;
  /// Opens another file in the same folder. Fails if that file does not exist.
  std::function<Result<FileBytes>(const std::string& name)> beside;
};

/// Wraps bytes in memory as a FileBytes. The bytes must outlive it.
[[nodiscard]] inline FileBytes file_of(std::string_view bytes) {
  FileBytes file;
  file.size = bytes.size();
  file.read = [bytes](std::uint64_t offset, char* into, std::size_t length) {
    if (offset > bytes.size() || length > bytes.size() - offset) return false;
    std::memcpy(into, bytes.data() + offset, length);
    return true;
  };
  return file;
}

/// Reads a part of a file from front to back. After the first failed read, ok() is false, and every
/// later read returns 0 or "".
class Cursor {
 public:
  Cursor(const FileBytes& file, std::uint64_t begin, std::uint64_t end)
      : file_(&file), at_(begin), end_(std::min(end, file.size)) {
    if (begin > end_) fail();
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::uint64_t at() const { return at_; }
  [[nodiscard]] std::uint64_t left() const { return ok_ ? end_ - at_ : 0; }
  void fail() { ok_ = false; }

  /// Returns a cursor over the next `length` bytes. The position of this cursor does not change.
  [[nodiscard]] Cursor part(std::uint64_t length) const {
    Cursor out = *this;
    if (length > left())
      out.fail();
    else
      out.end_ = at_ + length;
    return out;
  }
  void skip(std::uint64_t length) {
    if (length > left()) return fail();
    at_ += length;
  }
  std::uint8_t byte() { return static_cast<std::uint8_t>(number(1)); }
  /// Reads an unsigned little-endian number of up to 8 bytes.
  std::uint64_t number(std::size_t bytes) {
    if (bytes > left() || !fill(bytes)) return fail(), 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value |= std::uint64_t{static_cast<std::uint8_t>(buffer_[at_ - first_ + i])} << (8 * i);
    at_ += bytes;
    return value;
  }
  /// Reads `length` bytes. Fails if `length` is larger than `most`.
  std::string bytes(std::uint64_t length, std::size_t most) {
    if (length > most || length > left()) return fail(), std::string();
    std::string out(static_cast<std::size_t>(length), '\0');
    if (length <= kBuffer) {
      if (!fill(out.size())) return fail(), std::string();
      out.assign(buffer_, static_cast<std::size_t>(at_ - first_), out.size());
    } else if (!file_->read(at_, out.data(), out.size())) {
      return fail(), std::string();
    }
    at_ += length;
    return out;
  }

 private:
  static constexpr std::size_t kBuffer = 1 << 12;

  bool fill(std::size_t length) {
    if (at_ >= first_ && at_ + length <= first_ + buffer_.size()) return true;
    buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kBuffer, end_ - at_)));
    first_ = at_;
    return length <= buffer_.size() && file_->read(at_, buffer_.data(), buffer_.size());
  }

  const FileBytes* file_;
  std::uint64_t at_, end_, first_ = 0;
  std::string buffer_;
  bool ok_ = true;
};

}  // namespace berth
