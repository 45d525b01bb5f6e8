// Functions that read one file format each. checkpoint.cpp calls them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/checkpoint.hpp"

namespace berth::plan {

// the largest header of safetensors and JSON
inline constexpr std::uint64_t kMostHeader = 64U << 20U;
// the most bytes to read of a file whose header is not in one piece
inline constexpr std::uint64_t kMostWalked = 1U << 30U;
inline constexpr std::size_t kMostTensors = 1'000'000, kMostName = 65'536, kMostDimensions = 16;
inline constexpr std::size_t kMostShards = 10'000;

[[nodiscard]] Result<Checkpoint> read_safetensors(const FileBytes& file);
[[nodiscard]] Result<Checkpoint> read_gguf(const FileBytes& file);
[[nodiscard]] Result<Checkpoint> read_onnx(const FileBytes& file);
/// torch.save's formats: a zip archive, or pickles one after another (before PyTorch 1.6).
[[nodiscard]] Result<Checkpoint> read_torch_zip(const FileBytes& file);
[[nodiscard]] Result<Checkpoint> read_torch_legacy(const FileBytes& file);

/// The error E1041. `what` is a translated sentence.
[[nodiscard]] Error damaged(const FileBytes& file, std::string_view what);
/// Returns the error E1043 (the header is too large).
[[nodiscard]] Error too_large(const FileBytes& file);
/// The product of all dimensions, or nullopt if it is 2^60 or more.
[[nodiscard]] std::optional<std::uint64_t> elements_of(const std::vector<std::uint64_t>& shape);
/// Whether the name is a file in the same folder, without a path.
[[nodiscard]] bool is_plain_name(std::string_view name);
/// Appends the tensors of another part.
void add_part(Checkpoint& into, Checkpoint&& part);

}  // namespace berth::plan
