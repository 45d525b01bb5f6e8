// Reads a pickle of protocol 2 that has only plain data: dictionaries, lists, tuples, texts,
// numbers. This is how PyTorch's flight recorder writes. Nothing is ever imported or called.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace berth::run {

class PlainPickle {
 public:
  enum class Kind : unsigned char { kNone, kBool, kNumber, kReal, kText, kList, kDict };
  struct Node {
    Kind kind = Kind::kNone;
    std::int64_t number = 0;           // kBool, kNumber
    std::string_view text;             // kText; points into the bytes
    std::vector<std::uint32_t> items;  // kList and tuples; kDict: key, value, key, value, …
  };

  /// `bytes` must outlive the result. nullopt: damaged, too large, or not plain data.
  [[nodiscard]] static std::optional<PlainPickle> parse(std::string_view bytes);

  [[nodiscard]] const Node& root() const { return nodes_[root_]; }
  [[nodiscard]] const Node& at(std::uint32_t index) const { return nodes_[index]; }
  /// The value of a key of a dictionary; nullptr: there is none.
  [[nodiscard]] const Node* find(const Node& dict, std::string_view key) const;

 private:
  friend class PickleReader;
  std::vector<Node> nodes_;
  std::uint32_t root_ = 0;
};

}  // namespace berth::run
