#include "run/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"

namespace berth::run {
namespace {

// This line is written into the file, because programs such as `less` show it too. Readers
// recognize a gap as ours if the text before it ends with this mark.
constexpr std::string_view kMark = "the rest up to the end of this gap was removed]\n";
constexpr std::uint64_t kStep = 64 << 10;  // a multiple of the block size of every file system

std::uint64_t bytes_on_disk(const struct stat& status) {
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

std::string read_at(int file, std::int64_t from, std::size_t most) {
  std::string bytes(most, '\0');
  ssize_t n = -1;
  do n = ::pread(file, bytes.data(), bytes.size(), from);
  while (n < 0 && errno == EINTR);
  bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return bytes;
}

/// Whether limit_output() removed the part that begins at `at`.
bool is_removed_from(int file, std::int64_t at) {
  const auto size = static_cast<std::int64_t>(kMark.size());
  return at >= size && read_at(file, at - size, kMark.size()) == kMark;
}

void mark(int file, std::uint64_t end, std::uint64_t most) {
  if (is_removed_from(file, static_cast<std::int64_t>(end))) return;
  const std::string line =
      fmt::format("\n[berth: the output is larger than {}; {}", show_bytes(most), kMark);
  // A failure leaves a gap without explanation, which is better than a full disk.
  [[maybe_unused]] const ssize_t n =
      ::pwrite(file, line.data(), line.size(), static_cast<off_t>(end - line.size()));
}

}  // namespace

Result<std::uint64_t> limit_output(const std::string& path, std::uint64_t most) {
  const Descriptor file(
      ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat before = {};
  if (!file || ::fstat(file.get(), &before) != 0 || !S_ISREG(before.st_mode)) return 0U;
  if (bytes_on_disk(before) <= most) return 0U;
  std::uint64_t begin = std::max(kStep, most / 8 / kStep * kStep);
  // If a part was removed before, extend that gap. So a file has only one gap, even if `most`
  // changes.
  if (const off_t gap = ::lseek(file.get(), 0, SEEK_HOLE);
      gap > 0 && is_removed_from(file.get(), gap))
    begin = std::min(begin, static_cast<std::uint64_t>(gap));
  const std::uint64_t size = static_cast<std::uint64_t>(before.st_size);
  const std::uint64_t end =
      size / kStep * kStep - std::min(size / kStep * kStep, most / 2 / kStep * kStep);
  if (end <= begin) return 0U;
  if (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                  static_cast<off_t>(end - begin)) != 0)
    return Error{ErrorCode::kUnsupported, "E1074",
                 text("{} is larger than {}, and its middle cannot be removed to free space: {}",
                      printable(path), show_bytes(most), error_words(errno)),
                 "df -h " + printable(path)};
  mark(file.get(), begin, most);
  struct stat after = {};
  if (::fstat(file.get(), &after) != 0) return 0U;
  return bytes_on_disk(before) - std::min(bytes_on_disk(before), bytes_on_disk(after));
}

std::int64_t skip_removed(int file, std::int64_t at) {
  // A reader was at `at`. Meanwhile, the gap may have grown beyond this position.
  const off_t gap = ::lseek(file, 0, SEEK_HOLE);
  if (gap < 0 || gap > at || !is_removed_from(file, gap)) return at;
  return std::max<std::int64_t>(at, ::lseek(file, gap, SEEK_DATA));
}

OutputPart read_output(int file, std::int64_t from, std::size_t most) {
  from = skip_removed(file, from);
  // Stop where a hole begins, because it may be ours.
  if (const off_t hole = ::lseek(file, from, SEEK_HOLE); hole > from)
    most = std::min(most, static_cast<std::size_t>(hole - from));
  OutputPart part{read_at(file, from, most), from};
  part.next += static_cast<std::int64_t>(part.bytes.size());
  return part;
}

}  // namespace berth::run
