// mountinfo, /proc/PID/cgroup, cpu.max, memory limits, cpuinfo and signs of containers: an image
// controls much of them. The input is split at zero bytes: mountinfo, cgroup, the rest.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "system/cgroup.hpp"
#include "system/container.hpp"
#include "system/cpu_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t first = text.find('\0');
  const std::string_view mountinfo = text.substr(0, first);
  const std::string_view rest = first == std::string_view::npos ? text : text.substr(first + 1);
  const std::string_view cgroup = rest.substr(0, rest.find('\0'));
  const auto memberships = berth::system::parse_cgroup(cgroup);
  for (const auto& mount : berth::system::parse_cgroup_mounts(mountinfo)) {
    for (const auto& membership : memberships) {
      const auto folders = berth::system::group_folders(mount, membership.path);
      BERTH_CHECK(!folders.empty() && folders.back() == mount.point);
      // No path may leave the mount.
      for (const auto& folder : folders) BERTH_CHECK(folder.starts_with(mount.point));
    }
  }
  const auto quota = berth::system::parse_cpu_max(rest);
  BERTH_CHECK(!quota || *quota > 0);
  const auto limit = berth::system::parse_memory_limit(rest, 1ULL << 40);
  BERTH_CHECK(!limit || *limit < 1ULL << 40);
  static_cast<void>(berth::system::stat_value(rest, "MemTotal"));
  // Every file has hostile contents.
  const berth::system::ContainerView view{[](const char*) { return false; },
                                          [&](const char* path) -> std::optional<std::string> {
                                            const std::string_view name(path);
                                            return std::string(name.ends_with("mountinfo")
                                                                   ? mountinfo
                                                               : name.ends_with("cgroup") ? cgroup
                                                                                          : rest);
                                          },
                                          [](const char*) { return std::nullopt; }};
  static_cast<void>(berth::system::container_by_files(view));
  static_cast<void>(berth::system::container_by_variables(view));
  static_cast<void>(berth::system::parse_cpu_model(rest));
  return 0;
}
