// Statement: one prepared SQLite statement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace berth::broker {

/// A prepared statement. It exists as long as the journal is open, because preparing one takes
/// longer than reading a row.
class Statement {
 public:
  Statement() = default;
  Statement(sqlite3* database, const char* sql);
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  explicit operator bool() const { return statement_ != nullptr; }
  void bind(int at, std::int64_t number);
  /// The bytes must stay valid until the next reset().
  void bind(int at, std::string_view bytes);
  void bind_bytes(int at, std::string_view bytes);
  /// SQLite's code: SQLITE_ROW, SQLITE_DONE, or an error.
  int step();
  void reset();
  /// Calls step() once and ignores rows.
  bool run();
  /// First column of the first row; nullopt: there is no row.
  std::optional<std::string> only_text();
  [[nodiscard]] std::string_view text(int column) const;
  [[nodiscard]] std::int64_t number(int column) const;

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace berth::broker
