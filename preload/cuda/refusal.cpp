// Prints one line to stderr if the driver refuses memory that the quota granted. The line says
// whether the reason is the device, its address space or another process.
#include <errno.h>
#include <unistd.h>

#include "preload/cuda/guard.hpp"

namespace berth::guard {

void tell_device_full(int place, std::uint64_t bytes) {
  using GetInfo = CUresult (*)(std::size_t*, std::size_t*);
  const int error = errno;
  const auto info = reinterpret_cast<GetInfo>(driver_function("cuMemGetInfo_v2"));
  const std::uint64_t used = wire::sum_of(*region()->usage, static_cast<std::uint32_t>(place)).used;
  std::size_t left = 0, total = 0;
  if (info == nullptr || info(&left, &total) != CUDA_SUCCESS || left > total) {
    say_once(3,
             "berth: out of memory on the device, not by the job's quota: %s asked for %s, the job "
             "has %s of %s; what others hold is not known",
             who(getpid()).text, show(bytes).text, show(used).text, show(quota_of(place)).text);
  } else if (bytes <= left) {
    say_once(
        3,
        "berth: out of memory by the driver, not by the job's quota: %s asked for %s, which the "
        "driver refused although %s of the device's %s are free: addresses ran out, or no part "
        "of that size is left",
        who(getpid()).text, show(bytes).text, show(left).text, show(total).text);
  } else if (const std::uint64_t taken = total - left, others = taken > used ? taken - used : 0;
             bytes <= total && others > 0 && bytes > left && used + bytes <= total) {
    say_once(3,
             "berth: out of memory by a neighbour, not by the job's quota: %s asked for %s, %s of "
             "the device's %s are free; the job has %s of its %s, others hold %s (berth ps names "
             "them)",
             who(getpid()).text, show(bytes).text, show(left).text, show(total).text,
             show(used).text, show(quota_of(place)).text, show(others).text);
  } else {
    say_once(3,
             "berth: out of memory on the device, not by the job's quota: %s asked for %s, %s of "
             "the device's %s are free; the job has %s of its %s, others hold %s",
             who(getpid()).text, show(bytes).text, show(left).text, show(total).text,
             show(used).text, show(quota_of(place)).text, show(others).text);
  }
  errno = error;
}

}  // namespace berth::guard
