#include "broker/sqlite_statement.hpp"

#include <sqlite3.h>

#include <utility>

namespace berth::broker {

Statement::Statement(sqlite3* database, const char* sql) {
  ::sqlite3_prepare_v3(database, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
}

Statement::Statement(Statement&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)) {}

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(statement_, other.statement_);
  return *this;
}

Statement::~Statement() {
  ::sqlite3_finalize(statement_);
}

void Statement::bind(int at, std::int64_t number) {
  ::sqlite3_bind_int64(statement_, at, number);
}

void Statement::bind(int at, std::string_view bytes) {
  ::sqlite3_bind_text(statement_, at, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
}

void Statement::bind_bytes(int at, std::string_view bytes) {
  ::sqlite3_bind_blob(statement_, at, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
}

int Statement::step() {
  return ::sqlite3_step(statement_);
}

void Statement::reset() {
  ::sqlite3_reset(statement_);
}

bool Statement::run() {
  const int code = step();
  reset();
  return code == SQLITE_DONE || code == SQLITE_ROW;
}

std::optional<std::string> Statement::only_text() {
  std::optional<std::string> found;
  if (step() == SQLITE_ROW) found = std::string(text(0));
  reset();
  return found;
}

std::string_view Statement::text(int column) const {
  const auto* bytes = ::sqlite3_column_blob(statement_, column);
  return {static_cast<const char*>(bytes),
          static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column))};
}

std::int64_t Statement::number(int column) const {
  return ::sqlite3_column_int64(statement_, column);
}

}  // namespace berth::broker
