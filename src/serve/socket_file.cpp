#include "serve/socket_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "system/device_locks.hpp"
#include "system/runtime_folder.hpp"

namespace berth::serve {
namespace {

/// The maximum number of connections that wait to be accepted. If a user fills this queue, further
/// callers wait in connect().
constexpr int kBacklog = 512;

Error cannot_listen(const std::string& path, int problem) {
  return {ErrorCode::kUnavailable, "E0910",
          text("cannot create the socket {}: {}", printable(path), error_words(problem)),
          "ls -ld " + printable(path.substr(0, path.rfind('/')))};
}

Error is_taken(const std::string& path) {
  return {ErrorCode::kUnavailable, "E0909", text("another broker listens at {}", printable(path)),
          "berth jobs"};
}

std::optional<sockaddr_un> address_of(const system::SocketName& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.text().size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, name.text().data(), name.text().size());
  return address;
}

/// Whether a broker answers at this path.
bool is_served(const std::string& path) {
  const system::SocketName name(path);
  const auto address = address_of(name);
  if (!address) return false;
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) ==
             0 ||
         errno == EAGAIN;
}

/// Whether no living broker holds the lock. A broker killed while forking leaves a child that holds
/// the lock and the socket until it closes inherited files.
bool is_left_by_the_dead(const std::string& lock) {
  const auto holder = system::holder_of(lock);
  if (!holder) return true;
  char name = 0;
  return ::readlink(fmt::format("/proc/{}/exe", *holder).c_str(), &name, 1) < 0 && errno == ENOENT;
}

/// Listens before the file gets its name, so that a visible socket always has a listener.
Result<Descriptor> listen_at(const std::string& path, bool for_all) {
  const std::string made = path + ".new";
  const system::SocketName name(made);
  const auto address = address_of(name);
  if (!address) return cannot_listen(path, ENAMETOOLONG);
  ::unlink(made.c_str());
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0 &&
      ::chmod(made.c_str(), for_all ? 0666 : 0600) == 0 && ::listen(socket.get(), kBacklog) == 0 &&
      ::rename(made.c_str(), path.c_str()) == 0)
    return socket;
  const int problem = errno;
  ::unlink(made.c_str());
  return cannot_listen(path, problem);
}

}  // namespace

Result<SocketFile> SocketFile::make(const std::string& path, bool for_all) {
  // If two brokers start at the same time, only the one with the lock may remove a dead broker's
  // files.
  Descriptor lock(
      ::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return cannot_listen(path, errno);
  constexpr int kPause = 20, kMostPauses = 50;  // kPause is in milliseconds
  for (int pauses = 0; ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 || is_served(path); ++pauses) {
    if (pauses == kMostPauses || !is_left_by_the_dead(path + ".lock")) return is_taken(path);
    ::poll(nullptr, 0, kPause);
  }
  auto socket = listen_at(path, for_all);
  if (!socket) return std::move(socket).error();
  return SocketFile(path, std::move(lock), *std::move(socket));
}

Status SocketFile::show_at(const std::string& link) {
  // The link of an earlier broker may already point to the socket of this broker.
  std::error_code none;
  const bool is_ours = std::filesystem::read_symlink(link, none) == path_;
  if (!is_ours && is_served(link)) return is_taken(link);
  const std::string made = link + ".new";
  ::unlink(made.c_str());
  if (::symlink(path_.c_str(), made.c_str()) != 0 || ::rename(made.c_str(), link.c_str()) != 0)
    return cannot_listen(link, errno);
  link_ = link;
  return Done{};
}

void SocketFile::mark_time() const {
  ::utimensat(AT_FDCWD, path_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

void SocketFile::take_away() {
  if (!lock_) return;
  ::unlink(path_.c_str());
  if (!link_.empty()) ::unlink(link_.c_str());
  lock_.reset();
}

}  // namespace berth::serve
