#include "sim/folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/write_file.hpp"

namespace berth::sim {
namespace {

constexpr std::string_view kPrefix = "berth-sim-";
constexpr const char* kLock = "lock";

Error cannot(std::string message) {
  return {ErrorCode::kUnavailable, "E0611", std::move(message), "TMPDIR=/dev/shm berth sim …"};
}
Error cannot_make_in(const std::string& path, int number) {
  return cannot(text("cannot create a folder in {}: {}", printable(path), error_words(number)));
}
Error cannot_write(const std::string& path, int number) {
  return cannot(text("cannot write {}: {}", printable(path), error_words(number)));
}

/// Removes everything in the folder that is open as `fd`, and closes `fd`.
void empty_folder(int fd, int depth) {
  DIR* folder = fdopendir(fd);
  if (folder == nullptr) {
    ::close(fd);
    return;
  }
  while (const dirent* entry = readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): its own stream
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (unlinkat(fd, entry->d_name, 0) == 0 || depth == 0) continue;
    const int inner = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0) continue;
    empty_folder(inner, depth - 1);
    unlinkat(fd, entry->d_name, AT_REMOVEDIR);
  }
  closedir(folder);
}

void remove_tree(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  empty_folder(fd, 16);
  ::rmdir(path.c_str());
}

/// Whether no process holds the folder's lock. If there is no lock file, only a folder older than a
/// minute is stale, because a younger one may be under construction.
bool is_stale(int folder) {
  struct stat status = {};
  if (fstat(folder, &status) != 0 || status.st_uid != geteuid()) return false;
  const Descriptor lock(openat(folder, kLock, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!lock) return errno == ENOENT && status.st_mtime + 60 < std::time(nullptr);
  return flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

std::string temporary_directory() {
  return env_nonempty("TMPDIR").value_or("/tmp");
}

void remove_stale_folders(const std::string& temporary) {
  for (const std::string& name : list_folder(temporary)) {
    if (name.rfind(kPrefix, 0) != 0) continue;
    const std::string path = temporary + "/" + name;
    const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (folder && is_stale(folder.get())) remove_tree(path);
  }
}

Result<Folder> Folder::make(const std::string& temporary) {
  std::string path = temporary + "/" + std::string(kPrefix) + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return cannot_make_in(temporary, errno);
  struct statvfs system = {};
  if (statvfs(path.c_str(), &system) == 0 && (system.f_flag & ST_NOEXEC) != 0) {
    ::rmdir(path.c_str());
    return Error{
        ErrorCode::kUnavailable, "E0612",
        text("programs cannot be run from {} (it is mounted noexec)", printable(temporary)),
        "TMPDIR=/dev/shm berth sim …"};
  }
  // Lock the file before it gets its final name, because other simulations remove folders whose
  // lock file is not locked.
  const std::string name = path + "/" + kLock;
  Descriptor lock(::open((name + "~").c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!lock || flock(lock.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::rename((name + "~").c_str(), name.c_str()) != 0) {
    const int number = errno;
    remove_tree(path);
    return cannot(text("cannot lock {}: {}", printable(path), error_words(number)));
  }
  return Folder(std::move(path), std::move(lock));
}

Status Folder::make_folder(const std::string& name) const {
  for (std::size_t at = name.find('/');; at = name.find('/', at + 1)) {
    const std::string path = path_ + "/" + name.substr(0, at);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return cannot_make_in(path, errno);
    if (at == std::string::npos) return Done{};
  }
}

Status Folder::write(const std::string& name, std::string_view bytes, bool executable) const {
  const std::string path = path_ + "/" + name;
  if (replace_file(path, bytes, executable ? 0700 : 0600)) return Done{};
  return cannot_write(path, errno);
}

Status Folder::link(const std::string& name, const std::string& target) const {
  const std::string path = path_ + "/" + name;
  if (::symlink(target.c_str(), path.c_str()) != 0) return cannot_write(path, errno);
  return Done{};
}

void Folder::remove() {
  if (!path_.empty()) remove_tree(path_);
  path_.clear();
  lock_.reset();
}

}  // namespace berth::sim
