// Result<T>: a value or an Error. What the world can cause is returned, never thrown; a programming
// error is BERTH_CHECK. The interface is a subset of std::expected's, so that a later swap is
// mechanical.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace berth {

/// What kind of failure it is; decides the exit code (cli/exit_code.hpp).
enum class ErrorCode {
  kInvalidArgument,   // wrong usage, bad input file
  kNotFound,          // nothing matched
  kNoDevice,          // no device or driver where one was asked for
  kUnsupported,       // this machine, driver or library cannot do it
  kUnavailable,       // a service (daemon, library) does not answer
  kPermissionDenied,  //
  kRefused,           // by a limit
  kInternal,          // our bug
};

/// "invalid_argument", …: how JSON names it; nullopt for a name of tomorrow.
[[nodiscard]] std::string_view name(ErrorCode code);
[[nodiscard]] std::optional<ErrorCode> error_code(std::string_view name);

/// `id` is what a user can search for in either language ("E0412"); docs/errors.md lists all of
/// them. `hint` is the command (or commands, one a line) that mends it; empty where there is none.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string id;
  std::string message;
  std::string hint = {};

  /// Prefixes the message with what was being done: "reading x.toml: ...".
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

  // Access to the wrong side throws std::bad_variant_access, in release builds too.
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

/// A Result that carries nothing on success: `return Done{};`
struct Done {};
using Status = Result<Done>;

/// Ends the program with file and line when an assumption of ours is wrong (exit code 70).
#define BERTH_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::berth::check_failed(#condition, __FILE__, __LINE__))
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace berth
