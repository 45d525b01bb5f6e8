// Finds DRM files among all open files: checks thousands of links, and reads only the few that lead
// to a DRM device.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "system/drm_fdinfo.hpp"
#include "system/process.hpp"

namespace berth::system {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostDescriptors = 65536;

bool is_folder(const std::string& path) {
  return ::access((path + "/.").c_str(), F_OK) == 0;
}

/// The descriptors of a process that are DRM files. After the time `end`, returns the remaining
/// descriptors without checking them.
std::vector<std::string> drm_descriptors(const std::string& process, Clock::time_point end) {
  const std::string folder = process + "/fd";
  std::vector<std::string> names = list_folder(folder, kMostDescriptors);
  // A recorded machine may lack the links in /proc/PID/fd. In that case, the content of each fdinfo
  // file shows whether it belongs to a DRM file.
  if (names.empty() && !is_folder(folder))
    return list_folder(process + "/fdinfo", kMostDescriptors);
  int seen = 0;
  bool over = false;
  const auto is_other = [&](const std::string& name) {
    over = over || (++seen % 256 == 0 && Clock::now() > end);
    if (over) return false;
    std::array<char, 64> target;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const ssize_t n = ::readlink((folder + "/" + name).c_str(), target.data(), target.size());
    const std::string_view path(target.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    return !path.starts_with("/dev/dri/") && !path.starts_with("/dev/accel/");
  };
  names.erase(std::remove_if(names.begin(), names.end(), is_other), names.end());
  return names;
}

DrmClient& client_of(std::vector<DrmClient>& clients, std::size_t first, std::int64_t pid,
                     const DrmFdinfo& info) {
  for (std::size_t i = first; i < clients.size(); ++i)
    if (clients[i].pci_address == info.pci_address && clients[i].driver == info.driver)
      return clients[i];
  DrmClient client;
  client.pid = pid;
  client.pci_address = info.pci_address;
  client.driver = info.driver;
  clients.push_back(std::move(client));
  return clients.back();
}

}  // namespace

DrmSearch read_drm_clients(const Roots& roots, std::chrono::milliseconds limit) {
  return read_drm_clients(roots, list_pids(roots.drm_proc), limit);
}

DrmSearch read_drm_clients(const Roots& roots, const std::vector<std::int64_t>& pids,
                           std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  DrmSearch search;
  std::vector<DrmClient>& clients = search.clients;
  std::set<std::pair<std::string, std::uint64_t>> seen;
  for (const std::int64_t pid : pids) {
    const std::string process = roots.drm_proc + "/" + std::to_string(pid);
    const std::size_t first = clients.size();
    for (const std::string& name : drm_descriptors(process, end)) {
      if (Clock::now() > end) break;
      const auto text = slurp(fmt::format("{}/fdinfo/{}", process, name), 16384);
      const auto info = text ? parse_drm_fdinfo(*text) : std::nullopt;
      // Without an id, the same client might be counted twice.
      if (!info || !info->client_id) continue;
      const std::string& device = info->pci_address.empty() ? info->driver : info->pci_address;
      if (!seen.emplace(device, *info->client_id).second) continue;
      add_fdinfo(client_of(clients, first, pid, *info), *info);
    }
    search.finished = search.finished && Clock::now() <= end;
    std::sort(clients.begin() + static_cast<std::ptrdiff_t>(first), clients.end(),
              [](const DrmClient& a, const DrmClient& b) { return a.pci_address < b.pci_address; });
    if (!search.finished) break;
  }
  return search;
}

}  // namespace berth::system
