// A lease for a program in another language. The program requests it, waits for it in steps, and
// gives it back. The result includes the variables that the program must set.
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
  /// Requests a lease. `wish` is the body of POST /v1/jobs. Fails with kRefused (E0421) if this
  /// process is in a job that has less than the wish, with the errors of client::reach(), or with
  /// the broker's error.
  [[nodiscard]] static Result<Leased> ask(std::string_view wish);
  /// Waits up to `at_most` for the lease, and returns it as a JSON document. Returns nullopt if the
  /// lease is not granted yet. Fails with kRefused (E0412) if the request was cancelled.
  [[nodiscard]] Result<std::optional<std::string>> wait(std::chrono::milliseconds at_most);
  /// Why the lease is not granted yet, as the JSON {"schema":1,"message","hint"}.
  [[nodiscard]] Result<std::string> why();
  /// Ends the lease. Must be called in the process that requested the lease, not in a child that
  /// was forked from it.
  void end(int exit_code);

 private:
  Leased(client::Lease lease, model::Request request)
      : lease_(std::move(lease)), request_(std::move(request)) {}
  client::Lease lease_;
  model::Request request_;
  pid_t owner_ = 0;
};

}  // namespace berth::library
