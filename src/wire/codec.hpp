// Encodes data that Berth's own processes send through a pipe: little-endian numbers of fixed
// width, and texts with their length. A vendor's driver runs in the sender, so the reader does not
// trust its input. A read beyond the end sets failed() and returns zeros.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace berth::wire {

class Writer {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    bytes_.append(bytes, sizeof(T));
  }
  void put(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  [[nodiscard]] T get() {
    T value{};
    if constexpr (std::is_same_v<T, bool>) {
      value = get<unsigned char>() != 0;
    } else if (bytes_.size() < sizeof(T)) {
      failed_ = true;
      bytes_ = {};
    } else {
      std::memcpy(&value, bytes_.data(), sizeof(T));
      bytes_.remove_prefix(sizeof(T));
    }
    return value;
  }
  [[nodiscard]] std::string text() {
    const auto size = get<std::uint32_t>();
    if (size > bytes_.size()) {
      failed_ = true;
      bytes_ = {};
      return {};
    }
    std::string out(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return out;
  }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  bool failed_ = false;
};

}  // namespace berth::wire
