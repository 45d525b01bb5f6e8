// The tensors in a pickle of torch.save. A pickle is a program that can call any function; here its
// opcodes only build values, and a call is recorded but never made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/checkpoint.hpp"
#include "plan/file_bytes.hpp"

namespace berth::plan {

/// Where the elements of tensors are stored.
struct Storage {
  std::string key;
  std::uint64_t bytes = 0;
};

struct Pickled {
  std::vector<Tensor> tensors;         // of the model, without those of an optimizer beside it
  std::vector<Storage> storages;       // of everything, each once, in the order of first use
  std::optional<std::int64_t> number;  // the value, if it is a number
};

/// Reads one pickle and leaves the cursor behind it. Nothing if it is damaged, too large, or uses
/// opcodes that torch.save does not write.
[[nodiscard]] std::optional<Pickled> read_pickle(Cursor& cursor);

}  // namespace berth::plan
