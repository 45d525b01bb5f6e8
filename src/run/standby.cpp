#include "run/standby.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "base/error_words.hpp"
#include "base/text.hpp"
#include "run/launch.hpp"
#include "run/own_name.hpp"

namespace berth::run {
namespace {

Error cannot(int problem) {
  return {ErrorCode::kUnavailable, "E0512", text("cannot start the job: {}", error_words(problem)),
          ""};
}

/// The message header for sending a descriptor to another process.
struct Letter {
  std::int32_t problem = 0;
  iovec bytes{&problem, sizeof problem};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr header{};

  Letter() {
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    header.msg_control = room.data();
    header.msg_controllen = room.size();
  }
  Letter(const Letter&) = delete;
  Letter& operator=(const Letter&) = delete;
};

void answer(int channel, int descriptor, int problem) {
  Letter letter;
  letter.problem = problem;
  if (problem == 0) {
    cmsghdr* const part = CMSG_FIRSTHDR(&letter.header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  } else {
    letter.header.msg_controllen = 0;
  }
  ::sendmsg(channel, &letter.header, MSG_NOSIGNAL);
}

/// Forks a child. Returns our end of the channel to the child, or -1 with errno.
Descriptor fork_child(const Standby::Life& life, int kind) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, ends.data()) != 0) return {};
  Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return {};
  if (child == 0) {
    ours.reset();
    life(theirs.get());
    ::_exit(0);
  }
  return ours;
}

void stand_by(const Standby::Life& life, int kind, int channel) {
  ::setsid();
  set_process_name("job-fork-standby");
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  ::signal(SIGCHLD, SIG_IGN);  // this process does not wait for its children
  close_all_but({channel});
  redirect_standard_streams(0, 2);
  for (char asked = 0;;) {
    const ssize_t n = ::recv(channel, &asked, 1, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    const Descriptor child = fork_child(
        [&](int its_end) {
          ::close(channel);
          life(its_end);
        },
        kind);
    answer(channel, child.get(), child ? 0 : errno);
  }
}

}  // namespace

Result<Standby> Standby::start(const Life& life, int kind) {
  Descriptor channel =
      fork_child([&](int its_end) { stand_by(life, kind, its_end); }, SOCK_SEQPACKET);
  if (!channel) return cannot(errno);
  // This process only forks. If it does not answer within this time, it never will.
  constexpr timeval kPatience{10, 0};
  ::setsockopt(channel.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  return Standby(std::move(channel));
}

Result<Descriptor> Standby::fork() const {
  const char asked = 1;
  if (::send(channel_.get(), &asked, 1, MSG_NOSIGNAL) != 1) return cannot(errno);
  Letter letter;
  ssize_t n = -1;
  while ((n = ::recvmsg(channel_.get(), &letter.header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (n != sizeof letter.problem) return cannot(n < 0 ? errno : EPIPE);
  const cmsghdr* const part = CMSG_FIRSTHDR(&letter.header);
  if (letter.problem != 0 || part == nullptr) return cannot(letter.problem);
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(part), sizeof descriptor);
  return Descriptor(descriptor);
}

}  // namespace berth::run
