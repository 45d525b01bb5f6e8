// TomlTable reads an untrusted TOML document. The caller reads each field by name and type; a key
// that is not read is an error. TomlTable keeps the first error, with its line.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth {

class TomlTable {
 public:
  static constexpr std::size_t kMostText = 95;  // the longest name; NVML's buffers hold 96 bytes
  using Read = std::function<void(TomlTable&)>;

  /// Reads a document. The hints in errors refer to `page` of the documentation. Fails with
  /// kInvalidArgument (E0602: not TOML; E0603: unknown key; E0604: wrong type; E0605: invalid
  /// value; E0606: missing key).
  [[nodiscard]] static Status read(std::string_view document, const std::string& origin,
                                   const std::string& page, const Read& read);

  void string(const char* key, std::string& into, bool required = false,
              std::size_t most = kMostText);
  void number(const char* key, std::int64_t& into, std::int64_t least, std::int64_t most,
              bool required = false);
  /// Reads a floating-point number. An integer is also accepted.
  void real(const char* key, double& into, double least, double most);
  void flag(const char* key, bool& into);
  void size(const char* key, std::uint64_t& into, bool required = false);
  void duration(const char* key, std::chrono::milliseconds& into, std::chrono::milliseconds most);
  void strings(const char* key, std::vector<std::string>& into, bool required = false);
  void numbers(const char* key, std::vector<std::int64_t>& into, std::int64_t least,
               std::int64_t most);
  /// Reads a string that must be one of `words`, and stores its position in that list.
  void choice(const char* key, int& into, const std::vector<std::string>& words);
  /// Calls `read` for the table `key`, or for each table if `key` is an array of tables.
  void table(const char* key, const Read& read);
  void tables(const char* key, const Read& read);
  /// Calls `read` for each table [key.NAME], with its NAME.
  void named_tables(const char* key,
                    const std::function<void(const std::string& name, TomlTable&)>& read);
  [[nodiscard]] bool has(const char* key) const;

  /// Reports each key that the caller has not read: such a key is unknown, which is an error.
  /// read() calls this at the end.
  void finish();
  [[nodiscard]] bool is_sound() const;
  /// If `problem` has a text, records it as an error at the line of this table. For conditions that
  /// involve several keys.
  void check(const std::optional<std::string>& problem);

 private:
  struct Parts;
  explicit TomlTable(Parts& parts) : parts_(parts) {}
  Parts& parts_;
};

}  // namespace berth
