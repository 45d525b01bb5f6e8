// Fact<T>: something about a machine in one of three states. "Not there" and "could not be read"
// are different answers: a rule may conclude from the first and must not from the second. A value
// may also be a part of what is there: then something of it could not be read.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace berth::doctor {

/// Why something is not known.
struct Unreadable {
  std::string where;     // a path, or the call that failed
  int error_number = 0;  // errno; 0: nobody asked ("not part of the bundle", "static look")
};

/// While it lives, every unreadable fact that anybody in this thread asks is noted: so no rule can
/// forget to say that it could not look. What nobody was asked to read (error 0) is the rules' own
/// to say: most can do without.
class Witness {
 public:
  Witness() : before_(std::exchange(current(), this)) {}
  ~Witness() { current() = before_; }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  static void tell(const std::optional<Unreadable>& why) {
    if (current() != nullptr && why && why->error_number != 0) current()->told_.push_back(*why);
  }
  [[nodiscard]] const std::vector<Unreadable>& told() const { return told_; }

 private:
  static Witness*& current() {
    thread_local Witness* witness = nullptr;
    return witness;
  }
  Witness* before_;
  std::vector<Unreadable> told_;
};

template <typename T>
class Fact {
 public:
  /// Absent.
  Fact() = default;
  Fact(T value) : value_(std::move(value)) {}     // NOLINT(google-explicit-constructor)
  Fact(Unreadable why) : why_(std::move(why)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const {
    Witness::tell(why_);
    return value_.has_value();
  }
  [[nodiscard]] bool is_absent() const {
    Witness::tell(why_);
    return !value_ && !why_;
  }
  [[nodiscard]] bool is_unreadable() const {
    Witness::tell(why_);
    return !value_ && why_;
  }
  /// The value, and nothing of it was refused: only then is what it does not hold not there.
  [[nodiscard]] bool is_whole() const {
    Witness::tell(why_);
    return value_ && !why_;
  }
  explicit operator bool() const { return has_value(); }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return &*value_; }
  [[nodiscard]] const std::optional<T>& value() const { return value_; }
  [[nodiscard]] T value_or(T other) const { return has_value() ? *value_ : std::move(other); }
  /// Only where is_unreadable().
  [[nodiscard]] const Unreadable& why() const { return *why_; }
  /// Something that belongs to it could not be read: a value is a part from now on, and what seemed
  /// absent is unreadable.
  void doubt(const Unreadable& why) {
    if (!why_) why_ = why;
  }
  /// As far as `source`, which it was made from, is in doubt.
  template <typename U>
  void doubt(const Fact<U>& source) {
    if (source.why_) doubt(*source.why_);
  }

  /// The same state with what `change` makes of the value; a nullopt from it is "absent".
  template <typename Change>
  auto map(Change change) const -> Fact<decltype(change(std::declval<const T&>()))> {
    using Changed = Fact<decltype(change(std::declval<const T&>()))>;
    Changed changed = value_ ? Changed(change(*value_)) : Changed();
    if (why_) changed.doubt(*why_);
    return changed;
  }

 private:
  template <typename>
  friend class Fact;

  std::optional<T> value_;
  std::optional<Unreadable> why_;
};

}  // namespace berth::doctor
