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
  // Values are indices into a list, so that freeing them is simple even with cycles and deep
  // nesting.
  using Index = std::uint32_t;
  enum class Kind : unsigned char {
    kNone,  // also values that our readers do not use, such as bytes
    kBool,
    kNumber,
    kReal,  // without its value
    kText,
    kList,        // also tuples and sets
    kDict,        // key, value, key, value, …
    kGlobal,      // its text is "module name"
    kObject,      // what was called, its arguments, and its states
    kPersistent,  // an object outside of the pickle: its identifier
  };
  struct Value {
    Kind kind = Kind::kNone;
    std::int64_t number = 0;  // kBool, kNumber
    std::string text;
    std::vector<Index> items;
  };
  /// kPlain: refuse globals, calls, and objects outside of the pickle.
  enum class Contents { kPlain, kAny };

  /// Reads one pickle and leaves the cursor behind it. nullopt: damaged, too large, or its contents
  /// are of another kind.
  [[nodiscard]] static std::optional<Pickle> read(Cursor& cursor, Contents contents);
  /// A pickle of plain data.
  [[nodiscard]] static std::optional<Pickle> read_plain(std::string_view bytes);

  [[nodiscard]] const Value& root() const { return values_[root_]; }
  [[nodiscard]] Index root_index() const { return root_; }
  [[nodiscard]] const Value& at(Index index) const { return values_[index]; }
  /// All values, in the order in which the pickle makes them.
  [[nodiscard]] const std::vector<Value>& values() const { return values_; }
  /// The value of a key of a dictionary; nullptr: there is none.
  [[nodiscard]] const Value* find(const Value& dict, std::string_view key) const;

 private:
  friend class PickleReader;
  std::vector<Value> values_;
  Index root_ = 0;
};

}  // namespace berth
