// Helpers for SQLite. The history uses them to read and to write.
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

/// Runs SQL statements and ignores their rows. Returns false if one of them failed.
bool execute(sqlite3* database, const std::string& sql);
/// Returns SQLite's message about the last error.
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

  /// False if the statement could not be prepared.
  explicit operator bool() const { return statement_ != nullptr; }
  void bind(int at, std::int64_t number);
  void bind(int at, double number);
  void bind(int at, const std::optional<double>& number);  // nullopt is stored as NULL
  /// The bytes must stay valid until the next reset().
  void bind(int at, std::string_view bytes);
  void bind_bytes(int at, std::string_view bytes);
  /// Runs the statement up to its next row. Returns false if there are no more rows.
  bool step();
  void reset();
  /// Runs the statement and ignores its row. Returns false if it failed.
  bool run();
  [[nodiscard]] std::string_view text(int column) const;
  [[nodiscard]] std::int64_t number(int column) const;
  [[nodiscard]] double real(int column) const;
  /// Returns the value of a column; nullopt if it is NULL.
  [[nodiscard]] std::optional<double> maybe_real(int column) const;

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace berth::watch::sqlite
