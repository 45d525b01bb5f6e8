// Standby: a small process, forked while ours has one thread, that forks a replacement when one of
// our processes is killed. By then we have threads, and a child of ours could inherit a locked lock
// and wait for ever.
#pragma once

#include <functional>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace berth::run {

class Standby {
 public:
  /// What a child runs, with its end of a channel.
  using Life = std::function<void(int channel)>;
  /// Call it before the first thread starts. `kind`: the channel's type, such as SOCK_STREAM. Fails
  /// with kUnavailable (E0512).
  [[nodiscard]] static Result<Standby> start(const Life& life, int kind);
  Standby(Standby&&) = default;
  Standby& operator=(Standby&&) = default;

  /// Forks a child that runs it; returns our end of its channel. Fails with kUnavailable (E0512) if
  /// the standby process has ended.
  [[nodiscard]] Result<Descriptor> fork() const;

 private:
  explicit Standby(Descriptor channel) : channel_(std::move(channel)) {}
  Descriptor channel_;
};

}  // namespace berth::run
