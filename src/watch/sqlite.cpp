#include "watch/sqlite.hpp"

#include <sqlite3.h>

namespace berth::watch::sqlite {

void Close::operator()(sqlite3* database) const {
  ::sqlite3_close_v2(database);
}

bool execute(sqlite3* database, const std::string& sql) {
  return ::sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
}

std::string message(sqlite3* database) {
  return database == nullptr ? "" : ::sqlite3_errmsg(database);
}

Statement::Statement(sqlite3* database, const char* sql) {
  if (database != nullptr)
    ::sqlite3_prepare_v3(database, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
}

Statement::~Statement() {
  ::sqlite3_finalize(statement_);
}

void Statement::bind(int at, std::int64_t number) {
  ::sqlite3_bind_int64(statement_, at, number);
}

void Statement::bind(int at, const std::optional<double>& number) {
  number ? bind(at, *number) : static_cast<void>(::sqlite3_bind_null(statement_, at));
}

void Statement::bind(int at, double number) {
  ::sqlite3_bind_double(statement_, at, number);
}

void Statement::bind(int at, std::string_view bytes) {
  // Use "" for empty text, because SQLite would store a null pointer as NULL.
  ::sqlite3_bind_text(statement_, at, bytes.empty() ? "" : bytes.data(),
                      static_cast<int>(bytes.size()), SQLITE_STATIC);
}

void Statement::bind_bytes(int at, std::string_view bytes) {
  ::sqlite3_bind_blob(statement_, at, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
}

bool Statement::step() {
  return ::sqlite3_step(statement_) == SQLITE_ROW;
}

void Statement::reset() {
  ::sqlite3_reset(statement_);
}

bool Statement::run() {
  const int code = ::sqlite3_step(statement_);
  reset();
  return code == SQLITE_DONE || code == SQLITE_ROW;
}

std::string_view Statement::text(int column) const {
  const auto* bytes = ::sqlite3_column_blob(statement_, column);
  return {static_cast<const char*>(bytes),
          static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column))};
}

std::int64_t Statement::number(int column) const {
  return ::sqlite3_column_int64(statement_, column);
}

std::optional<double> Statement::maybe_real(int column) const {
  if (::sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return real(column);
}

double Statement::real(int column) const {
  return ::sqlite3_column_double(statement_, column);
}

}  // namespace berth::watch::sqlite
