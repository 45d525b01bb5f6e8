// TomlTable: a TOML document read by lists of typed fields: what is on no list is an unknown key.
// The first thing that is wrong is remembered, with its line. Documents come from outside.
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
  static constexpr std::size_t kMostText = 95;  // what a name may have: NVML's buffers hold 96
  using Read = std::function<void(TomlTable&)>;

  /// `page`: of the documentation, for hints. Fails with kInvalidArgument (E0602: no TOML; E0603:
  /// an unknown key; E0604: a value of the wrong type; E0605: one that cannot be; E0606: one
  /// missing).
  [[nodiscard]] static Status read(std::string_view document, const std::string& origin,
                                   const std::string& page, const Read& read);

  void string(const char* key, std::string& into, bool required = false,
              std::size_t most = kMostText);
  void number(const char* key, std::int64_t& into, std::int64_t least, std::int64_t most,
              bool required = false);
  /// Also a whole one.
  void real(const char* key, double& into, double least, double most);
  void flag(const char* key, bool& into);
  void size(const char* key, std::uint64_t& into, bool required = false);
  void duration(const char* key, std::chrono::milliseconds& into, std::chrono::milliseconds most);
  void strings(const char* key, std::vector<std::string>& into, bool required = false);
  void numbers(const char* key, std::vector<std::int64_t>& into, std::int64_t least,
               std::int64_t most);
  /// One of these words; its place among them.
  void choice(const char* key, int& into, const std::vector<std::string>& words);
  /// For the table, or for each table of a list of tables.
  void table(const char* key, const Read& read);
  void tables(const char* key, const Read& read);
  /// For each table of a table of tables, whose keys are names.
  void named_tables(const char* key,
                    const std::function<void(const std::string& name, TomlTable&)>& read);
  [[nodiscard]] bool has(const char* key) const;

  /// A key that nobody asked for is unknown; done at the end anyway.
  void finish();
  [[nodiscard]] bool is_sound() const;
  /// What only a look at several keys shows; the line is that of the table.
  void check(const std::optional<std::string>& problem);

 private:
  struct Parts;
  explicit TomlTable(Parts& parts) : parts_(parts) {}
  Parts& parts_;
};

}  // namespace berth
