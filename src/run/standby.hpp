// Standby: a small process, forked while ours has one thread, that forks a replacement when a
// process of ours is killed. By then we have threads, and a child forked from us could wait for
// ever for a lock that one of them held.
#pragma once

#include <functional>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace berth::run {

class Standby {
 public:
  /// The rest of a child's life, with its end of a channel.
  using Life = std::function<void(int channel)>;
  /// To be called before there are threads. `kind` of channel: SOCK_STREAM, say. Fails with
  /// kUnavailable (E0512).
  [[nodiscard]] static Result<Standby> start(const Life& life, int kind);
  Standby(Standby&&) = default;
  Standby& operator=(Standby&&) = default;

  /// A child that lives so: our end of its channel. Fails with kUnavailable (E0512) where nobody
  /// stands by any more.
  [[nodiscard]] Result<Descriptor> fork() const;

 private:
  explicit Standby(Descriptor channel) : channel_(std::move(channel)) {}
  Descriptor channel_;
};

}  // namespace berth::run
