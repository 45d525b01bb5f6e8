// Errors of Berth's C++ library, and results for programs that use no exceptions.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace berth {

/// The kind of an error. The Python package has an exception class for each kind.
enum class Kind {
  internal,  ///< a bug
  invalid_request,
  not_found,
  no_device,
  unsupported,
  unavailable,  ///< there is no broker, or libberth was not found
  not_permitted,
  refused,
  too_late,      ///< a driver has already read which devices it may use, so this cannot be changed
  context_lost,  ///< the device's context is lost; use a new process
};

/// An error that Berth reports. docs/errors.md lists the identifiers.
class __attribute__((visibility("default"))) Error : public std::runtime_error {
 public:
  Error(Kind kind, std::string id, std::string message, std::string hint = {})
      : std::runtime_error(whole(id, message, hint)),
        kind_(kind),
        id_(std::move(id)),
        message_(std::move(message)),
        hint_(std::move(hint)) {}

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  /// "E0412"
  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  /// What happened, without the identifier and the hint; what() contains all three.
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  /// Commands that fix the problem, one per line; "" if there are none.
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }

 private:
  static std::string whole(const std::string& id, const std::string& message,
                           const std::string& hint);
  Kind kind_;
  std::string id_, message_, hint_;
};

/// A value or an Error. Check which one it is before you use the value. If there is no value, using
/// it prints the error and aborts.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: converts
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: converts

  explicit operator bool() const noexcept { return held_.index() == 0; }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }
  /// The error. Only valid if there is no value.
  [[nodiscard]] const Error& error() const {
    if (const Error* const held = std::get_if<1>(&held_)) return *held;
    std::fputs("berth: error() of a result that has a value\n", stderr);
    std::abort();
  }

 private:
  T& checked() {
    if (T* const held = std::get_if<0>(&held_)) return *held;
    std::fprintf(stderr, "berth: %s\n", error().what());
    std::abort();
  }
  std::variant<T, Error> held_;
};

/// The T of a Result<T> that has no value on success.
using Done = std::monostate;

namespace detail {

/// Whether messages are in Chinese. The variables that decide this are the same as for `berth`.
inline bool in_chinese() {
  for (const char* const name : {"LC_ALL", "LC_MESSAGES", "LANG"}) {
    const char* const locale = std::getenv(name);
    if (locale != nullptr && *locale != '\0') return locale[0] == 'z' && locale[1] == 'h';
  }
  return false;
}

inline std::string text(const char* english, const char* chinese) {
  return in_chinese() ? chinese : english;
}

#if defined(__cpp_exceptions)
template <typename T>
T value_or_throw(Result<T> result) {
  if (!result) throw result.error();
  return *std::move(result);
}
#endif

}  // namespace detail

inline std::string Error::whole(const std::string& id, const std::string& message,
                                const std::string& hint) {
  const std::size_t line = message.find('\n');
  std::string all = message.substr(0, line) + " (" + id + ")";
  if (line != std::string::npos) all += message.substr(line);
  if (hint.empty()) return all;
  all += detail::text("\nhint: ", "\n提示：");
  for (const char one : hint) all += one == '\n' ? std::string("\n      ") : std::string(1, one);
  return all;
}

}  // namespace berth
