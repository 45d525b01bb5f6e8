// Result<T>: a value or an Error. Runtime failures are returned, never thrown; programming errors
// abort with BERTH_CHECK. The interface is a subset of std::expected, so that it can replace this
// class later.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace berth {

/// The kind of failure. It determines the exit code of the process (base/exit_code.hpp).
enum class ErrorCode {
  kInvalidArgument,   // wrong usage, bad input file
  kNotFound,          // there is no such file, job or device
  kNoDevice,          // there is no device or driver, but the call required one
  kUnsupported,       // this machine, driver or library does not support the operation
  kUnavailable,       // a service (daemon, library) does not answer
  kPermissionDenied,  //
  kRefused,           // the request exceeds a limit
  kInternal,          // a bug in Berth
};

/// The name in JSON: "invalid_argument", …
[[nodiscard]] std::string_view name(ErrorCode code);
[[nodiscard]] std::optional<ErrorCode> error_code(std::string_view name);

/// `id` ("E0412") is the same in every language, so that users can search for it; docs/errors.md
/// lists all ids. `hint` holds commands that fix the problem, one per line; it may be empty.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string id;
  std::string message;
  std::string hint = {};

  /// Prefixes the message with the operation that failed: "reading x.toml: ...".
  Error&& during(const std::string& what) && {
    message = what + ": " + message;
    return std::move(*this);
  }
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // value() throws std::bad_variant_access if there is an error, and error() throws it if there is
  // a value, also in release builds.
  [[nodiscard]] T& value() & { return std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] Error& error() & { return std::get<1>(state_); }
  [[nodiscard]] const Error& error() const& { return std::get<1>(state_); }
  [[nodiscard]] Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

/// The type of a success without a value, as in `Result<Done>`: `return Done{};`
struct Done {};
using Status = Result<Done>;

/// If the condition is false, prints file and line and ends the program with exit code 70. For
/// internal assumptions only.
#define BERTH_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::berth::check_failed(#condition, __FILE__, __LINE__))
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace berth
