#include "system/cgroup.hpp"

#include <algorithm>
#include <limits>

#include "base/text_parts.hpp"

namespace berth::system {
namespace {

// On a machine with thousands of containers, mountinfo is long. Cgroup mounts beyond this number
// are ignored.
constexpr std::size_t kMostMounts = 64;
constexpr std::size_t kMostLevels = 64;

std::vector<std::string> names(std::string_view list) {
  std::vector<std::string> out;
  for (const std::string_view part : split(list, ','))
    if (!part.empty()) out.emplace_back(part);
  return out;
}

}  // namespace

std::string unescaped(std::string_view text) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) &&
        octal(text[i + 3])) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

namespace {

/// `path` without its prefix `root`, compared by whole components; nullopt if `path` is not inside
/// `root`.
std::optional<std::string_view> inside(std::string_view root, std::string_view path) {
  if (root == "/") return path == "/" ? std::string_view() : path;
  if (!path.starts_with(root)) return std::nullopt;
  const std::string_view rest = path.substr(root.size());
  if (!rest.empty() && rest[0] != '/') return std::nullopt;
  return rest;
}

bool has_parent_component(std::string_view path) {
  const auto parts = split(path, '/');
  return std::find(parts.begin(), parts.end(), "..") != parts.end();
}

}  // namespace

std::optional<MountLine> mount_line(std::string_view line) {
  const auto dash = line.find(" - ");
  if (dash == std::string_view::npos) return std::nullopt;
  const auto left = split(line.substr(0, dash), ' ');
  const auto right = split(line.substr(dash + 3), ' ');
  if (left.size() < 6 || right.size() < 3) return std::nullopt;
  return MountLine{left[3], left[4], right[0], right[2], left[2]};
}

std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo) {
  std::vector<CgroupMount> mounts;
  for (const std::string_view line : split(mountinfo, '\n')) {
    if (line.find(" - cgroup") == std::string_view::npos || mounts.size() >= kMostMounts) continue;
    const auto fields = mount_line(line);
    if (!fields || (fields->type != "cgroup" && fields->type != "cgroup2")) continue;
    CgroupMount mount;
    mount.v2 = fields->type == "cgroup2";
    mount.root = unescaped(fields->root);
    mount.point = unescaped(fields->point);
    if (!mount.v2) mount.controllers = names(fields->super_options);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::vector<CgroupMembership> parse_cgroup(std::string_view text) {
  std::vector<CgroupMembership> memberships;
  for (const std::string_view line : split(text, '\n')) {
    const auto first = line.find(':');
    const auto second =
        first == std::string_view::npos ? std::string_view::npos : line.find(':', first + 1);
    if (second == std::string_view::npos || memberships.size() >= kMostMounts) continue;
    const auto hierarchy = to_number(line.substr(0, first));
    const std::string_view path = line.substr(second + 1);
    if (!hierarchy || !path.starts_with('/')) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    memberships.push_back(
        {*hierarchy == 0 && controllers.empty(), names(controllers), std::string(path)});
  }
  return memberships;
}

std::vector<std::string> group_folders(const CgroupMount& mount, std::string_view path) {
  const auto below = inside(mount.root, path);
  if (!below || has_parent_component(*below) || has_parent_component(mount.root))
    return {mount.point};
  std::vector<std::string> folders;
  std::string_view rest = *below;
  while (!rest.empty() && folders.size() < kMostLevels) {
    if (!rest.ends_with('/')) folders.push_back(mount.point + std::string(rest));
    rest = rest.substr(0, rest.rfind('/'));
  }
  folders.push_back(mount.point);
  return folders;
}

std::optional<double> quota_from(std::optional<std::int64_t> quota_microseconds,
                                 std::optional<std::int64_t> period_microseconds) {
  if (!quota_microseconds || !period_microseconds) return std::nullopt;
  if (*quota_microseconds <= 0 || *period_microseconds <= 0) return std::nullopt;
  return static_cast<double>(*quota_microseconds) / static_cast<double>(*period_microseconds);
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const auto parts = split(trim(text.substr(0, text.find('\n'))), ' ');
  if (parts.size() != 2) return std::nullopt;
  return quota_from(to_number(parts[0]), to_number(parts[1]));
}

std::optional<std::uint64_t> parse_memory_limit(std::string_view text,
                                                std::uint64_t machine_bytes) {
  const auto number = to_number(trim(text.substr(0, text.find('\n'))));
  if (!number || *number < 0) return std::nullopt;
  const auto limit = static_cast<std::uint64_t>(*number);
  // v1 shows a number near 2^63 if there is no limit. If the machine's memory is unknown, only a
  // number that large counts as "no limit".
  const std::uint64_t most = machine_bytes == 0 ? std::uint64_t{1} << 60 : machine_bytes;
  if (limit >= most) return std::nullopt;
  return limit;
}

std::optional<std::uint64_t> stat_value(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    std::string_view rest = line.substr(key.size());
    if (rest.empty() || (rest[0] != ' ' && rest[0] != ':')) continue;
    rest = trim(rest.substr(1));
    const bool kibibytes = rest.ends_with(" kB");
    if (kibibytes) rest = trim(rest.substr(0, rest.size() - 3));
    const auto number = to_number(rest);
    if (!number || *number < 0) return std::nullopt;
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max() / 1024;
    if (kibibytes && *number > kMost) return std::nullopt;
    return static_cast<std::uint64_t>(*number) * (kibibytes ? 1024 : 1);
  }
  return std::nullopt;
}

}  // namespace berth::system
