// A dump of PyTorch's flight recorder: a pickle that a rank of the job writes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/pickle.hpp"
#include "base/result.hpp"
#include "run/flight_recorder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth::run;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto pickle = berth::Pickle::read_plain(bytes);
  const auto found = last_collective(bytes);
  if (found) BERTH_CHECK(pickle && !found->name.empty());
  return 0;
}
