#include "doctor/record/record_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/tree/bundle.hpp"

namespace berth::doctor {
namespace {

Error cannot_write(const std::string& path, int error) {
  return record_not_written(printable(path) + ": " + error_words(error));
}

bool is_one_file(const std::string& path) {
  return path.ends_with(".machine");
}

/// Writes `bytes` at an offset of the file. Returns 0 or errno.
int put(int fd, std::uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return 0;
}

Descriptor create(const std::string& path) {
  return Descriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
}

Status write_text(const std::string& path, std::string_view text) {
  const Descriptor fd = create(path);
  const int error = fd ? put(fd.get(), 0, text) : errno;
  if (error != 0) return cannot_write(path, error);
  return Done{};
}

Status write_entry(const std::string& path, const FileTree::Entry& entry) {
  if (entry.type == NodeType::kLink) {
    if (::symlink(entry.target.c_str(), path.c_str()) != 0) return cannot_write(path, errno);
    return Done{};
  }
  if (entry.type == NodeType::kFolder) {
    if (::mkdir(path.c_str(), 0700) != 0) return cannot_write(path, errno);
    for (const auto& [name, below] : entry.below)
      if (auto written = write_entry(path + "/" + name, *below); !written) return written;
    return Done{};
  }
  const Descriptor fd = create(path);
  if (!fd) return cannot_write(path, errno);
  // Makes a sparse file: only the parts that were read use blocks, even for a library of a
  // gigabyte.
  if (::ftruncate(fd.get(), static_cast<off_t>(entry.content.size())) != 0)
    return cannot_write(path, errno);
  for (const auto& [offset, page] : entry.content.pages())
    if (const int error = put(fd.get(), offset, page); error != 0) return cannot_write(path, error);
  return Done{};
}

}  // namespace

Error record_not_written(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "E0804", text("cannot write the bundle: {}", what),
          "berth doctor --record \"$(mktemp -d)/my.machine\""};
}

Status check_record_path(const std::string& path) {
  struct stat there {};
  if (is_one_file(path)) {
    if (::lstat(path.c_str(), &there) == 0) return cannot_write(path, EEXIST);
    return Done{};
  }
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return cannot_write(path, errno);
  if (::stat(path.c_str(), &there) != 0 || !S_ISDIR(there.st_mode))
    return cannot_write(path, ENOTDIR);
  if (!list_folder(path).empty())
    return record_not_written(text("{} is not empty", printable(path)));
  return Done{};
}

Status write_record(const RecordedMachine& machine, const std::string& path) {
  if (is_one_file(path)) return write_text(path, machine_to_text(machine));
  std::string rows;
  for (const auto& [at, special] : machine.specials) rows += special_to_json(at, special) + "\n";
  if (auto written = write_text(path + "/nodes.jsonl", rows); !written) return written;
  for (const auto& [name, text] : machine.parts)
    if (auto written = write_text(path + "/" + name, text); !written) return written;
  return write_entry(path + "/root", machine.files.root());
}

}  // namespace berth::doctor
