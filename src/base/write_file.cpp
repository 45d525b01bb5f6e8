#include "base/write_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/descriptor.hpp"

namespace berth {

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool replace_file(const std::string& path, std::string_view bytes, mode_t mode) {
  const std::string draft = path + "." + std::to_string(::getpid());
  ::unlink(draft.c_str());
  const Descriptor file(
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (file && write_all(file.get(), bytes) && ::fchmod(file.get(), mode) == 0 &&
      ::rename(draft.c_str(), path.c_str()) == 0)
    return true;
  const int problem = errno;
  if (file) ::unlink(draft.c_str());
  errno = problem;
  return false;
}

bool sync_path(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return file && ::fsync(file.get()) == 0;
}

}  // namespace berth
