// /proc/PID/fdinfo of DRM files: any process can open a file whose driver writes arbitrary text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "system/drm_fdinfo.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto info = berth::system::parse_drm_fdinfo(text);
  if (!info) return 0;
  BERTH_CHECK(!info->driver.empty());
  BERTH_CHECK(info->memory.size() <= 64 && info->engine_ns.size() <= 64);
  berth::system::DrmClient client;
  // Added twice, so that sums reach their limits.
  berth::system::add_fdinfo(client, *info);
  const auto once = client.busy_ns();
  berth::system::add_fdinfo(client, *info);
  BERTH_CHECK(client.busy_ns() >= once);
  return 0;
}
