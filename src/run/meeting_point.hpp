// The ports of one try, reserved before its ranks start.
#pragma once

#include <cstdint>
#include <vector>

#include "base/descriptor.hpp"
#include "run/node_place.hpp"
#include "run/port_relay.hpp"
#include "run/rank_plan.hpp"

namespace berth::run {

class MeetingPoint {
 public:
  /// Reserves the ports for `ranks` ranks on this node. If the port that `node` requires is in use
  /// here, is_taken() is true.
  const Meeting& make(const NodePlace& node, std::size_t ranks);
  void close();
  [[nodiscard]] const Meeting& meeting() const { return meeting_; }
  [[nodiscard]] bool is_taken() const { return is_taken_; }
  [[nodiscard]] PortRelay& relay() { return relay_; }
  [[nodiscard]] const PortRelay& relay() const { return relay_; }

 private:
  std::uint16_t hold(std::uint16_t wanted = 0);
  std::uint16_t hold_block(int count);
  void make_with_other_nodes(const NodePlace& node, std::size_t ranks);

  Meeting meeting_;
  std::vector<Descriptor> ports_;  // ports that are kept free for the ranks
  PortRelay relay_;
  bool is_taken_ = false;
};

}  // namespace berth::run
