// What processes sent and received over TCP. /proc/PID/io does not count TCP. So a process that
// downloads with recv() looks there like a process that only waits.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace berth::run {

/// The numbers of the sockets that the process has open; empty if they cannot be read.
[[nodiscard]] std::set<std::uint64_t> sockets_of(pid_t pid, const std::string& proc = "/proc");

/// Which sockets count: those with these numbers, but not with one of these ports at either end.
struct CountedSockets {
  std::set<std::uint64_t> numbers;
  std::set<std::uint16_t> without_ports = {};
};

/// Adds up the bytes of these sockets in one answer of the kernel (sock_diag(7)). False if the
/// answer has ended, or if it is no answer of sock_diag. Pure.
[[nodiscard]] bool add_socket_bytes(std::string_view answer, const CountedSockets& sockets,
                                    std::uint64_t& bytes);

/// The bytes that were received, or sent and acknowledged, over these sockets since each was
/// opened. Covers only TCP in this process's network namespace. nullopt if the kernel gives no
/// list.
[[nodiscard]] std::optional<std::uint64_t> socket_bytes(const CountedSockets& sockets);

}  // namespace berth::run
