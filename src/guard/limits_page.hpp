// The limits of a running job, in memory that only `berth run` can write (decision 26). The job
// opens it read-only through a link in its folder.
#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "wire/guard.hpp"

namespace berth::guard {

class LimitsPage {
 public:
  /// Creates the limits in memory. Fails with kUnavailable (E0520).
  [[nodiscard]] static Result<LimitsPage> make(const wire::guard::Limits& limits);
  /// Creates the limits in a new file at `path` instead, because a memfd cannot be mounted into a
  /// container. The file is mounted read-only, so the job cannot change it. Fails with kUnavailable
  /// (E0520).
  [[nodiscard]] static Result<LimitsPage> make_in(const std::string& path,
                                                  const wire::guard::Limits& limits);
  LimitsPage(LimitsPage&& other) noexcept;
  LimitsPage& operator=(LimitsPage&&) = delete;
  ~LimitsPage();

  /// The path under which processes of the same user can open the limits while this process lives:
  /// /proc/PID/fd/N.
  [[nodiscard]] std::string path() const;
  /// Whether `path` leads to these limits.
  [[nodiscard]] bool is_at(const std::string& path) const;
  [[nodiscard]] const wire::guard::Limits& limits() const { return *mapped_; }
  /// Sets the memory limit of every device that has one. The guard uses the new limit from the
  /// job's next call on.
  void set_memory(std::uint64_t bytes);
  void set_share(int permille);
  /// Sets how much memory of the job on one device is missing in the job's own counters.
  void set_hidden(std::size_t place, std::uint64_t bytes);
  /// Tells `berth resize` that its request with this number has been handled.
  void answer(std::uint64_t request);

 private:
  LimitsPage(Descriptor file, wire::guard::Limits* mapped)
      : file_(std::move(file)), mapped_(mapped) {}
  Descriptor file_;
  wire::guard::Limits* mapped_;
};

}  // namespace berth::guard
