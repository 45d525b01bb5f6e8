// Lets the ranks above 0 connect before rank 0 listens. They get ports of our own as MASTER_PORT:
// each connection waits here until rank 0 listens, and is then passed on. Without this, their first
// connection would be refused, and PyTorch would wait a second before the next one.
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace berth::run {

class PortRelay {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts to listen on `count` consecutive loopback ports. They stand for the loopback ports
  /// `target`, `target` + 1, … Returns the first listening port; 0 if no such ports are free.
  /// `count` is at most kMost.
  std::uint16_t open(std::uint16_t target, int count);
  /// Rank 0 has ended: closes connections that still wait for it, and accepts no more.
  void give_up();
  void close();

  /// Adds what to poll for. After poll(), act() takes those entries, which begin at `first`.
  void add_waits(std::vector<pollfd>& waits) const;
  void act(const pollfd* first);
  /// When to call act() next, if poll() reports nothing until then.
  [[nodiscard]] std::optional<Clock::time_point> next_try() const;

  static constexpr int kMost = 4;

 private:
  struct Way {  // one direction of a connection
    std::string bytes;
    bool has_ended = false, is_shut = false;
  };
  struct Connection {
    Descriptor rank;       // connection from the rank
    Descriptor rank_zero;  // connection to rank 0; -1: rank 0 does not listen yet
    std::uint16_t target = 0;
    Way up, down;
    bool is_broken = false;
  };
  struct Listener {
    Descriptor socket;
    std::uint16_t target = 0;
  };

  void accept_from(const Listener& listener);
  void connect_waiting();
  static void take(int from, Way& way, Connection& connection);
  static void pass(int to, Way& way, Connection& connection);
  static pollfd wish(int fd, const Way& in, const Way& out);

  std::vector<Listener> listeners_;
  std::list<Connection> connections_;
  std::optional<Clock::time_point> waiting_since_;
  Clock::time_point next_try_{};
  // when to accept again, after accept() failed for lack of descriptors
  std::optional<Clock::time_point> accept_again_;
};

}  // namespace berth::run
