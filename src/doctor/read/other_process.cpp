#include "doctor/read/other_process.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/read/process.hpp"
#include "doctor/read/silent_mounts.hpp"
#include "doctor/tree/tree.hpp"
#include "model/cpu_list.hpp"
#include "system/host.hpp"

namespace berth::doctor {
namespace {

Fact<std::string> part(const std::string& path, std::size_t limit) {
  int problem = 0;
  if (auto text = slurp(path, limit, &problem)) return std::move(*text);
  return Unreadable{path, problem};
}

/// The words after a key: "1000", "1000", … in "Uid:\t1000\t1000\t…".
std::vector<std::string_view> words_of(std::string_view text, std::string_view key) {
  std::vector<std::string_view> words;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    for (std::string_view rest = trim(line.substr(key.size())); !rest.empty();) {
      const auto end = rest.find_first_of(" \t");
      words.push_back(rest.substr(0, end));
      rest = end == std::string_view::npos ? std::string_view() : trim(rest.substr(end));
    }
    break;
  }
  return words;
}

std::optional<std::uint32_t> id_of(std::string_view word) {
  const auto number = to_number(word);
  if (!number || *number < 0 || *number > 0xffffffffLL) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

std::string link_target(const std::string& path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t n = ::readlink(path.c_str(), target.data(), target.size());
  target.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  constexpr std::string_view kGone = " (deleted)";
  if (target.ends_with(kGone)) target.resize(target.size() - kGone.size());
  return target;
}

/// The environment that contains a library: "/home/ada/train" for
/// "/home/ada/train/lib/python3.11/site-packages/torch/_C.so".
std::string environment_around(std::string_view path) {
  for (const std::string_view library : {"/lib/python3.", "/lib64/python3."})
    if (const auto at = path.find(library); at != std::string_view::npos)
      if (path.find("/site-packages/", at) != std::string_view::npos)
        return std::string(path.substr(0, at));
  return "";
}

/// Finds the path under which a process was started. Python searches for pyvenv.cfg next to this
/// path, even if it is a link. Some programs replace their arguments with a title, so a path that
/// does not lead to the executed file is ignored.
class StartedAs {
 public:
  StartedAs(const Tree& tree, std::string folder, const Environment& environment)
      : tree_(tree), folder_(std::move(folder)), environment_(environment) {}

  std::string program() const {
    const std::string executed = link_target(folder_ + "/exe");
    if (executed.empty()) return "";
    for (const std::string& name : names())
      if (tree_.resolve(name).value_or("") == executed) return name;
    // If none of these names leads to the executed file, the loaded files show the environment.
    const std::string maps = slurp(folder_ + "/maps", 8 << 20).value_or("");
    for (const std::string_view line : split(maps, '\n')) {
      const std::string prefix =
          environment_around(line.substr(std::min(line.find('/'), line.size())));
      if (prefix.empty() || !tree_.exists(prefix + "/pyvenv.cfg")) continue;
      if (tree_.resolve(prefix + "/bin/python").value_or("") == executed)
        return prefix + "/bin/python";
    }
    return executed;
  }

 private:
  std::vector<std::string> names() const {
    const std::string words = slurp(folder_ + "/cmdline", 1 << 16).value_or("");
    const std::string first = words.substr(0, words.find('\0'));
    if (first.empty()) return {};
    if (first.front() == '/') return {first};
    if (first.find('/') != std::string::npos) return {link_target(folder_ + "/cwd") + "/" + first};
    std::vector<std::string> found;
    const auto path = environment_.find("PATH");
    if (path == environment_.end()) return found;
    for (const std::string_view one : split(path->second, ':'))
      if (one.starts_with('/')) found.push_back(std::string(one) + "/" + first);
    return found;
  }

  const Tree& tree_;
  std::string folder_;
  const Environment& environment_;
};

/// Whether the other process has the same mounts and root folder as this process.
bool sees_our_files(const std::string& other, const std::string& own) {
  const std::string mounts = link_target(own + "/ns/mnt");
  struct stat one {
  }, two{};
  return !mounts.empty() && mounts == link_target(other + "/ns/mnt") &&
         ::stat((own + "/root").c_str(), &one) == 0 &&
         ::stat((other + "/root").c_str(), &two) == 0 && one.st_dev == two.st_dev &&
         one.st_ino == two.st_ino;
}

}  // namespace

Fact<Identity> identity_from_status(std::string_view status) {
  // The second number in the line is the effective id.
  const auto uids = words_of(status, "Uid:");
  const auto gids = words_of(status, "Gid:");
  const auto uid = uids.size() > 1 ? id_of(uids[1]) : std::nullopt;
  const auto gid = gids.size() > 1 ? id_of(gids[1]) : std::nullopt;
  if (!uid || !gid) return Unreadable{"status", EINVAL};
  Identity identity{*uid, *gid, {}};
  for (const std::string_view word : words_of(status, "Groups:"))
    if (const auto group = id_of(word)) identity.groups.push_back(*group);
  return identity;
}

void limits_from(std::string_view limits, ProcessFacts& facts) {
  const auto soft = [&](std::string_view name) -> Fact<std::uint64_t> {
    const auto words = words_of(limits, name);
    if (words.empty()) return Unreadable{"limits", EINVAL};
    if (words[0] == "unlimited") return {};
    const auto number = to_number(words[0]);
    if (!number || *number < 0) return Unreadable{"limits", EINVAL};
    return static_cast<std::uint64_t>(*number);
  };
  facts.memlock_limit_bytes = soft("Max locked memory");
  facts.stack_limit_bytes = soft("Max stack size");
  facts.address_space_limit_bytes = soft("Max address space");
  facts.open_files_limit = soft("Max open files");
  facts.processes_limit = soft("Max processes");
}

Result<OtherProcess> other_process(std::int64_t pid, const std::string& proc) {
  const std::string folder = proc + "/" + std::to_string(pid);
  const auto status = part(folder + "/status", 1 << 16);
  if (status.is_unreadable() && status.why().error_number == ENOENT)
    return Error{ErrorCode::kNotFound, "E0805", text("there is no process {}", pid), "berth ps"};
  OtherProcess found;
  ProcessFacts& facts = found.facts;
  found.root = folder + "/root";
  found.same_files = sees_our_files(folder, proc + "/self");
  facts.identity = status ? identity_from_status(*status) : Fact<Identity>(status.why());
  facts.environment = part(folder + "/environ", 4 << 20).map([](const std::string& text) {
    return environment_from(text);
  });
  const Environment environment = facts.environment.value_or({});
  Tree tree(found.root);
  constexpr std::chrono::milliseconds kDeadline{1500};
  found.silent = MountsAsked(folder, found.root, environment).finish(kDeadline);
  for (const std::string& one : found.silent) tree.silence(one);
  found.program = StartedAs(tree, folder, environment).program();
  if (status)
    if (const auto words = words_of(*status, "Cpus_allowed_list:"); !words.empty())
      if (const auto cpus = model::parse_cpu_list(words[0])) facts.cpus = *cpus;
  if (const auto limits = part(folder + "/limits", 1 << 14))
    limits_from(*limits, facts);
  else
    facts.memlock_limit_bytes = facts.stack_limit_bytes = facts.address_space_limit_bytes =
        facts.open_files_limit = facts.processes_limit = limits.why();
  facts.has_account = Unreadable{"has_account", 0};
  const auto passwd = part(found.root + "/etc/passwd", 1 << 20);
  const auto services = part(found.root + "/etc/nsswitch.conf", 1 << 16);
  if (facts.identity && (passwd || passwd.is_absent()) && !services.is_unreadable())
    facts.has_account = account_in(passwd.value_or(""), services.value_or(""), facts.identity->uid);
  facts.disk_space = Unreadable{"rooms", 0};
  if (facts.identity && facts.environment)
    facts.disk_space = disk_space_of(tree, environment, facts.identity->uid);
  if (const auto groups = part(folder + "/cgroup", 1 << 16)) {
    if (const auto quota = system::quota_of(Roots{proc, "/sys"}, *groups))
      facts.quota_cores = *quota;
  } else {
    facts.quota_cores = groups.why();
  }
  read_processes_limit(folder, proc + "/self", facts);
  read_shm(found.root + "/dev/shm", facts);
  return found;
}

}  // namespace berth::doctor
