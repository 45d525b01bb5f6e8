#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text_parts.hpp"
#include "doctor/knowledge/config_lines.hpp"
#include "doctor/read/place.hpp"
#include "doctor/read/process.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {
namespace {

/// Free space of the file system of `path`, or of its nearest existing parent. nullopt if the file
/// system is read-only, or small on purpose.
std::optional<DiskSpace> disk_space_at(const Tree& tree, std::string path, const char* what,
                                       bool is_root) {
  struct statvfs about {};
  for (;; path = parent(path)) {
    const auto place = tree.resolve(path);
    if (place && ::statvfs((tree.root() + *place).c_str(), &about) == 0) break;
    if (path == "/") return std::nullopt;
  }
  if ((about.f_flag & ST_RDONLY) != 0 || about.f_blocks == 0) return std::nullopt;
  // A small file system that is nearly empty is usually small on purpose: a container's /tmp in
  // memory, for example.
  constexpr std::uint64_t kSmall = 1 << 30;
  if (about.f_blocks * about.f_frsize < kSmall && about.f_bavail > about.f_blocks / 2 &&
      (about.f_files == 0 || about.f_favail > 0))
    return std::nullopt;
  DiskSpace space{path, what, about.f_frsize * (is_root ? about.f_bfree : about.f_bavail),
                  std::nullopt};
  if (about.f_files != 0) space.free_files = is_root ? about.f_ffree : about.f_favail;
  return space;
}

}  // namespace

std::vector<std::pair<std::string, const char*>> written_folders(const Environment& environment) {
  std::vector<std::pair<std::string, const char*>> folders;
  for (const char* name : {"TMPDIR", "HOME", "XDG_CACHE_HOME", "HF_HOME", "TRITON_CACHE_DIR",
                           "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT"})
    if (const auto found = environment.find(name);
        found != environment.end() && found->second.starts_with('/'))
      folders.emplace_back(found->second, name);
  return folders;
}

Fact<std::vector<DiskSpace>> disk_space_of(const Tree& tree, const Environment& environment,
                                           uid_t user) {
  if (const auto root = tree.list("/", 1000); root.is_unreadable()) return root.why();
  std::vector<DiskSpace> spaces;
  std::optional<Unreadable> silent;
  const auto add = [&](const std::string& path, const char* what) {
    if (tree.is_silent(path)) {
      silent = Unreadable{path, ETIMEDOUT};
      return;
    }
    const auto space = disk_space_at(tree, path, what, user == 0);
    if (space && std::none_of(spaces.begin(), spaces.end(),
                              [&](const DiskSpace& one) { return one.path == space->path; }))
      spaces.push_back(*space);
  };
  auto folders = written_folders(environment);
  if (folders.empty() || folders.front().second != std::string_view("TMPDIR"))
    folders.insert(folders.begin(), {"/tmp", "TMPDIR"});
  for (const auto& [path, variable] : folders) add(path, variable);
  if (tree.exists("/var/lib/docker")) add("/var/lib/docker", "/var/lib/docker");
  Fact<std::vector<DiskSpace>> found(std::move(spaces));
  if (silent) found.doubt(*silent);
  return found;
}

Fact<bool> account_in(const std::string& passwd, const std::string& services, uid_t uid) {
  for (const std::string_view line : split(passwd, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() > 2 && to_number(fields[2]) == static_cast<std::int64_t>(uid)) return true;
  }
  if (asks_a_directory(services, "passwd")) return Unreadable{"has_account", 0};
  return false;
}

}  // namespace berth::doctor
