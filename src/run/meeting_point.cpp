#include "run/meeting_point.hpp"

#include <fmt/format.h>

#include "run/held_port.hpp"

namespace berth::run {
namespace {

/// Programs also use the ports after MASTER_PORT, for a second group of processes.
constexpr int kBlock = PortRelay::kMost;

}  // namespace

const Meeting& MeetingPoint::make(const NodePlace& node, std::size_t ranks) {
  close();
  if (node.count > 1) {
    make_with_other_nodes(node, ranks);
    return meeting_;
  }
  meeting_.address = "127.0.0.1";
  meeting_.port = hold_block(kBlock);
  if (meeting_.port != 0 && ranks > 1) meeting_.relay_port = relay_.open(meeting_.port, kBlock);
  meeting_.jax_port = hold();
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::uint16_t port = hold();
    if (port == 0) {
      meeting_.workers.clear();
      break;
    }
    meeting_.workers.push_back(fmt::format("127.0.0.1:{}", port));
  }
  return meeting_;
}

void MeetingPoint::close() {
  ports_.clear();
  relay_.close();
  meeting_ = {};
  is_taken_ = false;
}

/// Reserves the port `wanted` (0: any free port). Returns its number, or 0 if no port is free.
std::uint16_t MeetingPoint::hold(std::uint16_t wanted) {
  HeldPort held = hold_port(wanted);
  if (held.socket) ports_.push_back(std::move(held.socket));
  return held.number;
}

/// Reserves `count` consecutive ports, and returns the first. If no such block is free, reserves
/// one port.
std::uint16_t MeetingPoint::hold_block(int count) {
  constexpr int kMostTries = 32;
  for (int i = 0; i < kMostTries; ++i) {
    std::vector<Descriptor> row;
    HeldPort first = hold_port();
    if (!first.socket) return 0;
    row.push_back(std::move(first.socket));
    for (int k = 1; k < count; ++k) {
      HeldPort next = hold_unused_port(static_cast<std::uint16_t>(first.number + k));
      if (next.socket) row.push_back(std::move(next.socket));
    }
    if (static_cast<int>(row.size()) < count) continue;
    for (Descriptor& one : row) ports_.push_back(std::move(one));
    return first.number;
  }
  return hold();
}

/// All nodes know the port of node 0, and number their other ports from there.
void MeetingPoint::make_with_other_nodes(const NodePlace& node, std::size_t ranks) {
  // NodePlace::port is chosen so that this many ports follow.
  constexpr std::size_t kMostWorkers = 14;
  meeting_.address = node.address;
  meeting_.port = node.port;
  meeting_.jax_port = static_cast<std::uint16_t>(node.port + 1);
  is_taken_ = node.rank == 0 && hold(node.port) == 0;
  if (ranks > kMostWorkers) return;
  for (const std::string& peer : node.peers)
    for (std::size_t i = 0; i < ranks; ++i)
      meeting_.workers.push_back(fmt::format("{}:{}", peer, node.port + 2 + i));
}

}  // namespace berth::run
