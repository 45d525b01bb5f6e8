// Helpers for SQLite, used for reading and for writing history.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

struct sqlite3;
struct sqlite3_stmt;

namespace berth::watch::sqlite {

struct Close {
  void operator()(sqlite3* database) const;
};
using Database = std::unique_ptr<sqlite3, Close>;

/// Runs statements and ignores their rows; false if one failed.
bool execute(sqlite3* database, const std::string& sql);
/// SQLite's message for the last error.
[[nodiscard]] std::string message(sqlite3* database);

class Statement {
 public:
  Statement() = default;
  Statement(sqlite3* database, const char* sql);
  Statement(Statement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
  Statement& operator=(Statement&& other) noexcept {
    std::swap(statement_, other.statement_);
    return *this;
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  /// False if the SQL could not be prepared.
  explicit operator bool() const { return statement_ != nullptr; }
  void bind(int at, std::int64_t number);
  void bind(int at, double number);
  void bind(int at, const std::optional<double>& number);  // nullopt: NULL
  /// The bytes must stay valid until the next reset().
  void bind(int at, std::string_view bytes);
  void bind_bytes(int at, std::string_view bytes);
  /// True if there is a row.
  bool step();
  void reset();
  /// Steps once and ignores the row; false if it failed.
  bool run();
  [[nodiscard]] std::string_view text(int column) const;
  [[nodiscard]] std::int64_t number(int column) const;
  [[nodiscard]] double real(int column) const;
  /// nullopt: NULL.
  [[nodiscard]] std::optional<double> maybe_real(int column) const;

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace berth::watch::sqlite
