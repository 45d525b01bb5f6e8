// A hash table whose keys are addresses. It gets memory directly from the kernel. So a library that
// is loaded into another program does not depend on that program's allocator or initialisation. Not
// thread-safe.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace berth::wire {

/// `Value` must be trivially copyable. A key must not be 0.
template <typename Value>
class AddressTable {
 public:
  struct Cell {
    std::uint64_t key;
    Value value;
  };

  /// Adds or replaces a value. Returns false if there is no memory.
  bool put(std::uint64_t key, const Value& value) {
    if ((used_ + 1) * 2 > room_ && !grow()) return false;
    Cell& cell = cells_[place_of(key)];
    if (cell.key == 0) ++used_;
    cell = {key, value};
    return true;
  }
  [[nodiscard]] Value* find(std::uint64_t key) {
    if (used_ == 0 || key == 0) return nullptr;
    Cell& cell = cells_[place_of(key)];
    return cell.key == 0 ? nullptr : &cell.value;
  }
  bool take(std::uint64_t key, Value& value) {
    if (used_ == 0 || key == 0) return false;
    std::size_t hole = place_of(key);
    if (cells_[hole].key == 0) return false;
    value = cells_[hole].value;
    --used_;
    // Move later entries forward into the hole, because a search stops at an empty cell.
    for (std::size_t at = next(hole); cells_[at].key != 0; at = next(at)) {
      const std::size_t home = home_of(cells_[at].key);
      if (((at - home) & (room_ - 1)) < ((at - hole) & (room_ - 1))) continue;
      cells_[hole] = cells_[at];
      hole = at;
    }
    cells_[hole].key = 0;
    return true;
  }
  [[nodiscard]] std::size_t size() const { return used_; }
  /// Calls visit(key, value) for each entry. `visit` must not change the table.
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (std::size_t i = 0; i < room_; ++i)
      if (cells_[i].key != 0) visit(cells_[i].key, cells_[i].value);
  }

 private:
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & (room_ - 1); }
  [[nodiscard]] std::size_t home_of(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15U) >> 20U) & (room_ - 1);
  }
  [[nodiscard]] std::size_t place_of(std::uint64_t key) const {
    std::size_t at = home_of(key);
    while (cells_[at].key != 0 && cells_[at].key != key) at = next(at);
    return at;
  }
  bool grow() {
    const std::size_t before = room_, room = before == 0 ? 1024 : before * 2;
    void* where = mmap(nullptr, room * sizeof(Cell), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (where == MAP_FAILED) return false;
    Cell* old = cells_;
    cells_ = static_cast<Cell*>(where);
    room_ = room;
    for (std::size_t i = 0; i < before; ++i)
      if (old[i].key != 0) cells_[place_of(old[i].key)] = old[i];
    if (old != nullptr) munmap(old, before * sizeof(Cell));
    return true;
  }

  Cell* cells_ = nullptr;
  std::size_t room_ = 0, used_ = 0;
};

}  // namespace berth::wire
