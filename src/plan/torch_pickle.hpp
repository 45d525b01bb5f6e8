// The tensors in a pickle of torch.save.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_bytes.hpp"
#include "plan/checkpoint.hpp"

namespace berth::plan {

/// Where the elements of tensors are stored.
struct Storage {
  std::string key;
  std::uint64_t bytes = 0;
};

struct TorchPickle {
  /// The model's tensors, without those of an optimizer in the same file.
  std::vector<Tensor> tensors;
  /// The storages of all tensors, each once, in the order of first use.
  std::vector<Storage> storages;
  std::optional<std::int64_t> number;  // the value, if it is a number
};

/// Reads one pickle and leaves the cursor behind it. nullopt: it is damaged, too large, or uses
/// opcodes that torch.save does not write.
[[nodiscard]] std::optional<TorchPickle> read_torch_pickle(Cursor& cursor);

}  // namespace berth::plan
