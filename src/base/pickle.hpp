// Reads a pickle, which is a program that can call any function. Here its opcodes only build
// values: nothing is ever imported or called. A call in the pickle only becomes a value that
// describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_bytes.hpp"

namespace berth {

class Pickle {
 public:
  // A value refers to other values by their index in one list. So cycles and deep nesting are easy
  // to free.
  using Index = std::uint32_t;
  enum class Kind : unsigned char {
    kNone,  // None, or a value that our readers do not need, such as bytes
    kBool,
    kNumber,
    kReal,  // a floating-point number, whose value is not stored
    kText,
    kList,        // also tuples and sets
    kDict,        // `items` alternates keys and values: key, value, key, value, …
    kGlobal,      // `text` is the module and the name, with a space between
    kObject,      // the result of a call; `items`: what was called, its arguments, and its states
    kPersistent,  // an object stored outside of the pickle; `items` holds its identifier
  };
  struct Value {
    Kind kind = Kind::kNone;
    std::int64_t number = 0;  // for kBool and kNumber
    std::string text;
    std::vector<Index> items;
  };
  /// kPlain: only plain data; globals, calls, and objects outside of the pickle make the reader
  /// fail.
  enum class Contents { kPlain, kAny };

  /// Reads one pickle and moves the cursor to its end. nullopt if the pickle is damaged, too large,
  /// or has contents that `contents` does not allow.
  [[nodiscard]] static std::optional<Pickle> read(Cursor& cursor, Contents contents);
  /// Reads a pickle that may contain only plain data (Contents::kPlain).
  [[nodiscard]] static std::optional<Pickle> read_plain(std::string_view bytes);

  [[nodiscard]] const Value& root() const { return values_[root_]; }
  [[nodiscard]] Index root_index() const { return root_; }
  [[nodiscard]] const Value& at(Index index) const { return values_[index]; }
  /// All values, in the order in which the pickle makes them.
  [[nodiscard]] const std::vector<Value>& values() const { return values_; }
  /// The value of `key` in the dictionary `dict`; nullptr if there is none.
  [[nodiscard]] const Value* find(const Value& dict, std::string_view key) const;

 private:
  friend class PickleReader;
  std::vector<Value> values_;
  Index root_ = 0;
};

}  // namespace berth
