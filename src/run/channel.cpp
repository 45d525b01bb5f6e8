#include "run/channel.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace berth::run {

std::optional<Channel> make_channel() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return std::nullopt;
  return Channel{Descriptor(ends[0]), Descriptor(ends[1])};
}

bool send_record(int fd, const void* bytes, std::size_t size) {
  ssize_t n = 0;
  do {
    n = ::send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(size);
}

int receive_record(int fd, void* bytes, std::size_t size) {
  ssize_t n = 0;
  do {
    n = ::recv(fd, bytes, size, MSG_DONTWAIT);
    // ECONNRESET: the other side closed without reading one of our records. The kernel reports this
    // once. Records that the other side sent before are still in the queue.
  } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
  if (n == static_cast<ssize_t>(size)) return 1;
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  return -1;
}

Descriptor open_process(int pid) {
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace berth::run
