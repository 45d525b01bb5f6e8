// Fact<T>: a property of a machine in one of three states: known, absent, or unreadable. A rule may
// draw conclusions from "absent", but not from "unreadable". A known value can also be partial, if
// some of it could not be read.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace berth::doctor {

/// Why a fact is unknown.
struct Unreadable {
  std::string where;     // the path or the call that failed
  int error_number = 0;  // errno; 0: the fact was not requested, as in a static scan
};

/// Records every unreadable fact that the thread evaluates while this object exists. The report can
/// thus name every rule that could not run. Facts that were not requested (error 0) are not
/// recorded, because most rules work without them.
class UnreadableLog {
 public:
  UnreadableLog() : before_(std::exchange(current(), this)) {}
  ~UnreadableLog() { current() = before_; }
  UnreadableLog(const UnreadableLog&) = delete;
  UnreadableLog& operator=(const UnreadableLog&) = delete;

  static void add(const std::optional<Unreadable>& why) {
    if (current() != nullptr && why && why->error_number != 0) current()->entries_.push_back(*why);
  }
  [[nodiscard]] const std::vector<Unreadable>& entries() const { return entries_; }

 private:
  static UnreadableLog*& current() {
    thread_local UnreadableLog* log = nullptr;
    return log;
  }
  UnreadableLog* before_;
  std::vector<Unreadable> entries_;
};

template <typename T>
class Fact {
 public:
  /// Absent.
  Fact() = default;
  Fact(T value) : value_(std::move(value)) {}     // NOLINT(google-explicit-constructor)
  Fact(Unreadable why) : why_(std::move(why)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const {
    UnreadableLog::add(why_);
    return value_.has_value();
  }
  [[nodiscard]] bool is_absent() const {
    UnreadableLog::add(why_);
    return !value_ && !why_;
  }
  [[nodiscard]] bool is_unreadable() const {
    UnreadableLog::add(why_);
    return !value_ && why_;
  }
  /// True if the fact is known completely. Only then does a missing entry prove that something is
  /// absent.
  [[nodiscard]] bool is_whole() const {
    UnreadableLog::add(why_);
    return value_ && !why_;
  }
  explicit operator bool() const { return has_value(); }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return &*value_; }
  [[nodiscard]] const std::optional<T>& value() const { return value_; }
  [[nodiscard]] T value_or(T other) const { return has_value() ? *value_ : std::move(other); }
  /// Requires is_unreadable().
  [[nodiscard]] const Unreadable& why() const { return *why_; }
  /// Records that some of the fact could not be read: a known value becomes partial, and an absent
  /// fact becomes unreadable.
  void doubt(const Unreadable& why) {
    if (!why_) why_ = why;
  }
  /// This fact was computed from `source`. If some of `source` could not be read, calls doubt()
  /// with its error.
  template <typename U>
  void doubt(const Fact<U>& source) {
    if (source.why_) doubt(*source.why_);
  }

  /// The fact with `change` applied to its value. If `change` returns nullopt, the result is
  /// absent.
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
