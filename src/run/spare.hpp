// Spare: a small process, forked while ours has one thread, that stands by to fork what we need
// when somebody killed it. By then we have threads, and a child of ours could wait for ever for a
// lock that one of them held.
#pragma once

#include <functional>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace berth::run {

class Spare {
 public:
  /// The rest of a child's life, with its end of a channel.
  using Life = std::function<void(int channel)>;
  /// To be called before there are threads. `kind` of channel: SOCK_STREAM, say. Fails with
  /// kUnavailable (E0512).
  [[nodiscard]] static Result<Spare> start(const Life& life, int kind);
  Spare(Spare&&) = default;
  Spare& operator=(Spare&&) = default;

  /// A child that lives so: our end of its channel. Fails with kUnavailable (E0512) where nobody
  /// stands by any more.
  [[nodiscard]] Result<Descriptor> fork() const;

 private:
  explicit Spare(Descriptor channel) : channel_(std::move(channel)) {}
  Descriptor channel_;
};

}  // namespace berth::run
