#include "run/socket_bytes.hpp"

#include <dirent.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/descriptor.hpp"
#include "base/text_parts.hpp"

namespace berth::run {
namespace {

constexpr std::size_t kAnswerBytes = 64 << 10;

template <typename T>
bool copy(std::string_view bytes, T& into) {
  if (bytes.size() < sizeof into) return false;
  std::memcpy(&into, bytes.data(), sizeof into);
  return true;
}

std::size_t aligned(std::size_t length) {
  return (length + 3) & ~std::size_t{3};
}

/// The attributes of one socket: length, type, value, each at a multiple of four bytes.
std::uint64_t bytes_in(std::string_view attributes) {
  rtattr head = {};
  while (copy(attributes, head)) {
    if (head.rta_len < sizeof head || head.rta_len > attributes.size()) return 0;
    const std::string_view value = attributes.substr(sizeof head, head.rta_len - sizeof head);
    std::uint64_t acknowledged = 0, received = 0;
    if (head.rta_type == INET_DIAG_INFO &&
        value.size() >= offsetof(tcp_info, tcpi_bytes_received) + sizeof received &&
        copy(value.substr(offsetof(tcp_info, tcpi_bytes_acked)), acknowledged) &&
        copy(value.substr(offsetof(tcp_info, tcpi_bytes_received)), received))
      return acknowledged + received;
    attributes.remove_prefix(std::min(aligned(head.rta_len), attributes.size()));
  }
  return 0;
}

bool ask(int wire, unsigned char family) {
  struct {
    nlmsghdr head;
    inet_diag_req_v2 wanted;
  } request = {};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.wanted.sdiag_family = family;
  request.wanted.sdiag_protocol = IPPROTO_TCP;
  request.wanted.idiag_ext = 1U << (INET_DIAG_INFO - 1U);
  request.wanted.idiag_states = ~0U;
  return ::send(wire, &request, sizeof request, 0) == static_cast<ssize_t>(sizeof request);
}

}  // namespace

std::set<std::uint64_t> sockets_of(pid_t pid, const std::string& proc) {
  constexpr int kMost = 4096;
  std::set<std::uint64_t> sockets;
  DIR* folder = ::opendir((proc + "/" + std::to_string(pid) + "/fd").c_str());
  if (folder == nullptr) return sockets;
  int left = kMost;
  while (const dirent* entry =
             ::readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): its own stream
    if (--left < 0) break;
    std::array<char, 64> target;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const ssize_t n = ::readlinkat(::dirfd(folder), entry->d_name, target.data(), target.size());
    std::string_view words(target.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    constexpr std::string_view kBegin = "socket:[";
    if (!words.starts_with(kBegin) || !words.ends_with(']')) continue;
    words.remove_prefix(kBegin.size());
    words.remove_suffix(1);
    if (const auto number = to_number(words); number && *number > 0)
      sockets.insert(static_cast<std::uint64_t>(*number));
  }
  ::closedir(folder);
  return sockets;
}

bool add_socket_bytes(std::string_view answer, const CountedSockets& sockets,
                      std::uint64_t& bytes) {
  nlmsghdr head = {};
  while (copy(answer, head)) {
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > answer.size()) return false;
    // NLMSG_DONE and NLMSG_ERROR end the answer
    if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY) return false;
    const std::string_view body = answer.substr(sizeof head, head.nlmsg_len - sizeof head);
    inet_diag_msg about = {};
    if (!copy(body, about)) return false;
    const bool is_counted = sockets.numbers.contains(about.idiag_inode) &&
                            !sockets.without_ports.contains(ntohs(about.id.idiag_sport)) &&
                            !sockets.without_ports.contains(ntohs(about.id.idiag_dport));
    if (is_counted) bytes += bytes_in(body.substr(std::min(aligned(sizeof about), body.size())));
    answer.remove_prefix(std::min(aligned(head.nlmsg_len), answer.size()));
  }
  return true;
}

std::optional<std::uint64_t> socket_bytes(const CountedSockets& sockets) {
  constexpr int kMostAnswers = 1024;
  if (sockets.numbers.empty()) return 0;
  const Descriptor wire(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  const timeval patience{0, 200'000};
  if (!wire || ::setsockopt(wire.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0)
    return std::nullopt;
  std::uint64_t bytes = 0;
  std::vector<char> answer(kAnswerBytes);
  for (const int family : {AF_INET, AF_INET6}) {
    if (!ask(wire.get(), static_cast<unsigned char>(family))) return std::nullopt;
    for (int left = kMostAnswers; left > 0; --left) {
      const ssize_t n = ::recv(wire.get(), answer.data(), answer.size(), 0);
      if (n <= 0) return std::nullopt;
      if (!add_socket_bytes({answer.data(), static_cast<std::size_t>(n)}, sockets, bytes)) break;
    }
  }
  return bytes;
}

}  // namespace berth::run
