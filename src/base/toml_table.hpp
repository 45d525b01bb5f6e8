// TomlTable reads an untrusted TOML document. The caller lists the fields with their types; any
// other key is an error. TomlTable keeps the first error, with its line.
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
  /// Reads a number; an integer is also accepted.
  void real(const char* key, double& into, double least, double most);
  void flag(const char* key, bool& into);
  void size(const char* key, std::uint64_t& into, bool required = false);
  void duration(const char* key, std::chrono::milliseconds& into, std::chrono::milliseconds most);
  void strings(const char* key, std::vector<std::string>& into, bool required = false);
  void numbers(const char* key, std::vector<std::int64_t>& into, std::int64_t least,
               std::int64_t most);
  /// Reads a string that must be one of `words`, and stores its index in `words`.
  void choice(const char* key, int& into, const std::vector<std::string>& words);
  /// Reads the table, or each table of an array of tables.
  void table(const char* key, const Read& read);
  void tables(const char* key, const Read& read);
  /// Reads each table inside the table `key`, as [key.NAME], and passes its name.
  void named_tables(const char* key,
                    const std::function<void(const std::string& name, TomlTable&)>& read);
  [[nodiscard]] bool has(const char* key) const;

  /// Reports keys that were not read as unknown. read() also does this at the end.
  void finish();
  [[nodiscard]] bool is_sound() const;
  /// Records a problem that involves several keys, at the line of this table.
  void check(const std::optional<std::string>& problem);

 private:
  struct Parts;
  explicit TomlTable(Parts& parts) : parts_(parts) {}
  Parts& parts_;
};

}  // namespace berth
