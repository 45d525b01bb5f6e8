// Standby: a small process that is forked while this process has only one thread. It forks a
// replacement when one of our helper processes is killed. By then this process has several threads,
// so its own child could inherit a locked lock and wait for ever.
#pragma once

#include <functional>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace berth::run {

class Standby {
 public:
  /// What a child runs. The argument is its end of a channel.
  using Life = std::function<void(int channel)>;
  /// Call it before the first thread starts. `kind`: the channel's type, such as SOCK_STREAM. Fails
  /// with kUnavailable (E0512).
  [[nodiscard]] static Result<Standby> start(const Life& life, int kind);
  Standby(Standby&&) = default;
  Standby& operator=(Standby&&) = default;

  /// Makes the standby process fork a child, which runs the function given to start(). Returns our
  /// end of the channel to that child.
  /// Fails with kUnavailable (E0512) if the standby process has ended.
  [[nodiscard]] Result<Descriptor> fork() const;

 private:
  explicit Standby(Descriptor channel) : channel_(std::move(channel)) {}
  Descriptor channel_;
};

}  // namespace berth::run
