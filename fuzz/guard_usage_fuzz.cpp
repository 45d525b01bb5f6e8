// The file in which a job's processes count their usage. Any of them may write anything there. The
// guard must neither crash nor hang. It must not grant one process more than the limit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/result.hpp"
#include "wire/guard.hpp"

namespace guard = berth::wire::guard;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto usage = std::make_unique<guard::Usage>();
  // The input is repeated over the first 16 places, so that all their fields are hostile.
  constexpr std::size_t kBytes = offsetof(guard::Usage, process) + 16 * sizeof(guard::Process);
  auto* bytes = reinterpret_cast<std::uint8_t*>(usage.get());
  for (std::size_t at = 0; size > 0 && at < kBytes; at += size)
    std::memcpy(bytes + at, data, std::min(size, kBytes - at));
  // The file may also change after the guard has checked it.
  static_cast<void>(guard::valid(*usage));
  BERTH_CHECK(guard::places_of(*usage) <= guard::kMaxProcesses);
  guard::Process* own = guard::take_place(*usage, 1);
  if (own == nullptr) return 0;
  for (std::uint32_t device = 0; device < 2; ++device) {
    guard::Counters& counters = own->device[device];
    constexpr std::uint64_t kLimit = 1U << 20U;
    std::uint64_t granted = 0;
    for (const std::uint64_t wanted : {std::uint64_t{512}, kLimit, ~std::uint64_t{0}})
      if (guard::charge(*usage, counters, device, wanted, kLimit) == guard::Answer::kGranted)
        granted += wanted;
    BERTH_CHECK(granted <= kLimit);
    guard::give_back(counters, granted);
    BERTH_CHECK(counters.used == 0);
  }
  guard::bury_the_dead(*usage);
  BERTH_CHECK(guard::tally_of(*usage, 0).processes <= guard::kMaxProcesses);
  return 0;
}
