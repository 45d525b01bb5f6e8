// A lease for a program in another language: it is requested, waited for in steps, and given back.
// It includes the environment that the program must set.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "client/lease.hpp"

namespace berth::library {

class Leased {
 public:
  /// Requests a lease. `wish` is the body of POST /v1/jobs. Fails like the broker, like
  /// client::reach, and with kRefused (E0421) if this process is in a job that has less than the
  /// wish.
  [[nodiscard]] static Result<Leased> ask(std::string_view wish);
  /// Waits at most this long for the lease, and returns it as a JSON document; nullopt if it is not
  /// granted yet. Fails with kRefused (E0412) if the request was cancelled.
  [[nodiscard]] Result<std::optional<std::string>> wait(std::chrono::milliseconds at_most);
  /// Why the lease is not granted yet, as {"schema":1,"message","hint"}.
  [[nodiscard]] Result<std::string> why();
  /// Ends the lease. Do not call it in a process that was forked from the one that requested the
  /// lease.
  void end(int exit_code);

 private:
  Leased(client::Lease lease, model::Request request)
      : lease_(std::move(lease)), request_(std::move(request)) {}
  client::Lease lease_;
  model::Request request_;
  pid_t owner_ = 0;
};

}  // namespace berth::library
