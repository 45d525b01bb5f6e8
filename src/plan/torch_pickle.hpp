// The tensors in a pickle of torch.save.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_bytes.hpp"
#include "plan/checkpoint.hpp"

namespace berth::plan {

/// A storage of torch: the memory that contains the elements of one or more tensors.
struct Storage {
  std::string key;
  std::uint64_t bytes = 0;
};

struct TorchPickle {
  /// The model's tensors, without those of an optimizer in the same file.
  std::vector<Tensor> tensors;
  /// The storages of all tensors, each once, in the order of first use.
  std::vector<Storage> storages;
  std::optional<std::int64_t> number;  // set if the pickle contains only a number
};

/// Reads one pickle, and moves the cursor to the byte after it. nullopt: the pickle is damaged, too
/// large, or uses opcodes that torch.save does not write.
[[nodiscard]] std::optional<TorchPickle> read_torch_pickle(Cursor& cursor);

}  // namespace berth::plan
