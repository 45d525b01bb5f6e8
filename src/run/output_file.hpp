// The file with the output of a queued job. The job writes to it directly, so the broker cannot
// stop it from filling the disk. Options: a process between the job and the file, which costs CPU
// time and can die; or a new file while the job runs, which needs the job's help. Chosen: remove
// the disk space of the middle (fallocate with FALLOC_FL_PUNCH_HOLE). The remaining parts keep
// their offsets, so neither the job nor programs that follow the output need to know. A line before
// the hole tells users that output was removed.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace berth::run {

/// If the file uses more disk space than `most`, removes its middle: the first `most`/8 bytes and
/// the last `most`/2 bytes stay. Returns the bytes of disk space that this freed; 0 if it had to do
/// nothing, or if there is no such file. Fails with kUnsupported (E1074: the file system cannot
/// remove a part).
[[nodiscard]] Result<std::uint64_t> limit_output(const std::string& path, std::uint64_t most);

struct OutputPart {
  std::string bytes;
  std::int64_t next = 0;  // where the output continues
};
/// At most `most` bytes from `from` on; empty at the end of the file. A part that limit_output()
/// removed is skipped: no zeros are returned for it.
[[nodiscard]] OutputPart read_output(int file, std::int64_t from, std::size_t most);
/// Returns `at`. If `at` is in a part that limit_output() removed, returns the end of that part.
[[nodiscard]] std::int64_t skip_removed(int file, std::int64_t at);

}  // namespace berth::run
