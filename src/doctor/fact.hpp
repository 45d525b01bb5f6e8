// Fact<T>: something about a machine in one of three states. "Not there" and "could not be read"
// are different answers: a rule may conclude from the first and must not from the second.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace berth::doctor {

/// Why something is not known.
struct Unreadable {
  std::string where;     // a path, or the call that failed
  int error_number = 0;  // errno; 0: nobody asked ("not part of the bundle", "static look")
};

template <typename T>
class Fact {
 public:
  /// Absent.
  Fact() = default;
  Fact(T value) : value_(std::move(value)) {}     // NOLINT(google-explicit-constructor)
  Fact(Unreadable why) : why_(std::move(why)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return value_.has_value(); }
  [[nodiscard]] bool is_absent() const { return !value_ && !why_; }
  [[nodiscard]] bool is_unreadable() const { return why_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return &*value_; }
  [[nodiscard]] const std::optional<T>& value() const { return value_; }
  [[nodiscard]] T value_or(T other) const { return value_.value_or(std::move(other)); }
  /// Only where is_unreadable().
  [[nodiscard]] const Unreadable& why() const { return *why_; }

  /// The same state with what `change` makes of the value; a nullopt from it is "absent".
  template <typename Change>
  auto map(Change change) const -> Fact<decltype(change(std::declval<const T&>()))> {
    if (value_) return change(*value_);
    if (why_) return *why_;
    return {};
  }

 private:
  std::optional<T> value_;
  std::optional<Unreadable> why_;
};

}  // namespace berth::doctor
