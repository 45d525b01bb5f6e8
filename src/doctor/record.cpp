#include "doctor/record.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/bundle.hpp"
#include "doctor/bundle_json.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/redact.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kLongestText = 256 << 10;

/// Puts files, folders and links below one folder; remembers the first thing that fails.
class Writer {
 public:
  Writer(std::string folder, Redaction& redaction, std::map<std::string, std::string> links,
         std::string host, std::string service_user)
      : folder_(std::move(folder)),
        redaction_(redaction),
        links_(std::move(links)),
        host_(std::move(host)),
        service_user_(std::move(service_user)) {
    // Where each link is, seen without the links above it: what is reached through
    // /usr/local/cuda → cuda-12.4 is no link of its own.
    for (int steps = 0; steps < 4; ++steps) {
      std::map<std::string, std::string> placed;
      for (const auto& [path, target] : links_) {
        const auto slash = path.rfind('/');
        const std::string at = real(path.substr(0, slash)) + path.substr(slash);
        if (at != target) placed.emplace(at, target);
      }
      if (placed == links_) break;
      links_ = std::move(placed);
    }
  }

  void folder(const std::string& path) { make(folder_ + "/root" + real(redaction_.apply(path))); }

  /// After everything else: nothing is written through a link, which may lead to this machine's own
  /// files.
  void links() {
    for (const auto& [path, target] : links_) {
      const std::string at = folder_ + "/root" + path;
      if (::symlink(target.c_str(), at.c_str()) != 0 && errno != EEXIST) fail(at);
    }
  }

  void folders_of_links() {
    for (const auto& [path, target] : links_)
      make(folder_ + "/root" + path.substr(0, path.rfind('/')));
  }

  void name_in(const std::string& folder, const std::string& name) {
    const std::string at = place(folder + "/" + name);
    struct stat about {};
    if (!links_.contains(at.substr(folder_.size() + 5)) && ::lstat(at.c_str(), &about) != 0)
      write(at, "");
  }

  /// Read from its first byte to its last, and short enough to be looked through.
  [[nodiscard]] static bool is_whole(const std::string& path, const Recording::File& file) {
    return file.parts.size() == 1 && file.parts.begin()->second.size() == file.size &&
           (file.size <= kLongestText || path == kPackagesFile);
  }

  /// Where its links lead; what was read as a whole goes first, and stays as it is.
  void file(const std::string& path, const Recording::File& file) {
    const std::string at = folder_ + "/root" + real(redaction_.apply(path));
    if (!is_whole(path, file) && whole_.contains(at)) return;
    if (is_whole(path, file)) whole_.insert(at);
    make(at.substr(0, at.rfind('/')));
    const Descriptor fd(::open(at.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) {
      if (errno != EISDIR && errno != ELOOP) fail(at);
      return;
    }
    if (is_whole(path, file)) {
      const std::string& all = file.parts.begin()->second;
      if (all.find('\0') != std::string::npos)
        return put(fd.get(), at, 0, redaction_.apply_in_place(all));
      const std::string text = path == "/etc/hosts"   ? redacted_hosts(all, host_)
                               : path == "/etc/group" ? redacted_group(all, service_user_)
                                                      : redacted_file(path, all);
      if (text != all) ++shortened_;
      put(fd.get(), at, 0,
          redaction_.apply(is_package_settings(path) ? told_settings(text) : text));
      return;
    }
    // Too long to look through for passwords, and for what nobody asks for.
    if (is_package_settings(path) || path == kPackagesFile) return;
    // Holes where nobody looked: a library of a gigabyte stays a few blocks.
    if (::ftruncate(fd.get(), static_cast<off_t>(file.size)) != 0) fail(at);
    for (const auto& [offset, bytes] : file.parts)
      put(fd.get(), at, offset, redaction_.apply_in_place(bytes));
  }

  void document(const std::string& name, const std::string& text) {
    write(folder_ + "/" + name, redaction_.apply(text));
  }

  [[nodiscard]] const std::string& failed() const { return failed_; }
  /// Files that tell only what rules ask of them.
  [[nodiscard]] int shortened() const { return shortened_; }

 private:
  /// The path with links before its last part followed, so that what lies behind a link is written
  /// where the link leads.
  [[nodiscard]] std::string real(const std::string& path) const {
    std::string done;
    std::vector<std::string> left;
    const auto push = [&left](std::string_view text) {
      const auto parts = split(text, '/');
      for (auto part = parts.rbegin(); part != parts.rend(); ++part)
        if (!part->empty() && *part != ".") left.emplace_back(*part);
    };
    push(path);
    for (int steps = 0; !left.empty() && steps < 400; ++steps) {
      const std::string part = left.back();
      left.pop_back();
      if (part == "..") {
        done.erase(std::min(done.rfind('/'), done.size()));
        continue;
      }
      const std::string next = done + "/" + part;
      const auto link = links_.find(next);
      if (link == links_.end()) {
        done = next;
        continue;
      }
      if (link->second.starts_with('/')) done.clear();
      push(link->second);
    }
    return done;
  }

  /// Where it goes; the folders above are made.
  std::string place(const std::string& path) {
    const std::string told = redaction_.apply(path);
    const auto slash = told.rfind('/');
    std::string above = folder_ + "/root" + real(told.substr(0, slash));
    make(above);
    return above + told.substr(slash);
  }

  void make(const std::string& path) {
    for (auto slash = path.find('/', 1); slash != std::string::npos;
         slash = path.find('/', slash + 1))
      ::mkdir(path.substr(0, slash).c_str(), 0700);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) fail(path);
  }

  void write(const std::string& at, const std::string& text) {
    const Descriptor fd(::open(at.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!fd) return fail(at);
    put(fd.get(), at, 0, text);
  }

  void put(int fd, const std::string& at, std::uint64_t offset, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return fail(at);
      bytes.remove_prefix(static_cast<std::size_t>(n));
      offset += static_cast<std::uint64_t>(n);
    }
  }

  void fail(const std::string& path) {
    if (failed_.empty()) failed_ = printable(path) + ": " + error_words(errno);
  }

  std::string folder_;
  Redaction& redaction_;
  std::map<std::string, std::string> links_;  // already redacted
  std::string host_;                          // this machine's name, as it is
  std::string service_user_;                  // of Ollama's service
  std::set<std::string> whole_;
  std::string failed_;
  int shortened_ = 0;
};

Redaction names_of(const Sources& sources, const std::string& host) {
  Redaction redaction;
  redaction.hide_host(host);
  const auto variable = [&](const char* name) -> std::string {
    return sources.process.variable(name).value_or("");
  };
  for (const char* name : {"USER", "LOGNAME", "SUDO_USER"}) redaction.hide_user(variable(name));
  // A service or a container may have neither, and its home is still somebody's.
  const std::string home = variable("HOME");
  redaction.hide_user(home.substr(home.rfind('/') + 1));
  if (const auto users = sources.tree.read("/etc/passwd", 1 << 20))
    for (const std::string_view line : split(*users, '\n')) {
      const auto fields = split(line, ':');
      if (fields.size() > 2 && to_number(fields[2]).value_or(0) >= 1000)
        redaction.hide_user(std::string(fields[0]));
    }
  return redaction;
}

std::string rows_of(const std::map<std::string, Special>& specials) {
  std::string rows;
  for (const auto& [path, special] : specials) rows += special_to_json(path, special) + "\n";
  return rows;
}

std::map<std::string, std::string> redacted(const std::map<std::string, std::string>& links,
                                            Redaction& redaction) {
  std::map<std::string, std::string> told;
  // Of a process's open files only those of the driver count.
  for (const auto& [path, target] : links)
    if (!path.starts_with("/proc/") || path.find("/fd/") == std::string::npos ||
        target.starts_with("/dev/nvidia"))
      told.emplace(redaction.apply(path), redaction.apply(target));
  return told;
}

void write_tree(const Recording& seen, Writer& writer) {
  writer.folders_of_links();
  for (const auto& [path, names] : seen.folders) writer.folder(path);
  for (const bool whole : {true, false})
    for (const auto& [path, file] : seen.files)
      if (Writer::is_whole(path, file) == whole) writer.file(path, file);
  // A folder's other names matter ("libcuda.so.535.183" beside ".570.124"); whose processes run
  // and who has a home here does not.
  for (const auto& [path, names] : seen.folders) {
    if (path.starts_with("/proc") || has_homes(path)) continue;
    for (const std::string& name : names)
      if (!seen.specials.contains(path + "/" + name)) writer.name_in(path, name);
  }
  writer.links();
}

Error not_written(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "E0804", text("cannot write the bundle: {}", what),
          "berth doctor --record \"$(mktemp -d)\""};
}

}  // namespace

Result<std::vector<std::string>> record(Sources& sources, const std::string& folder) {
  struct stat there {};
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return not_written(printable(folder) + ": " + error_words(errno));
  if (::stat(folder.c_str(), &there) != 0 || !S_ISDIR(there.st_mode))
    return not_written(printable(folder) + ": " + error_words(ENOTDIR));
  if (!list_folder(folder).empty()) return not_written(text("{} is not empty", printable(folder)));

  const auto seen = std::make_shared<Recording>();
  const std::string host = sources.tree.line("/proc/sys/kernel/hostname").value_or("");
  Redaction redaction = names_of(sources, host);
  sources.tree.record_into(seen);
  const auto service = collect(sources).platform.ollama_service;
  sources.tree.record_into(nullptr);

  Writer writer(folder, redaction, redacted(seen->links, redaction), host,
                service ? service->user : "");
  write_tree(*seen, writer);
  writer.document("nodes.jsonl", rows_of(seen->specials));
  std::set<std::string> dropped;
  if (sources.process.environment) {
    std::string rows;
    for (const auto& [name, value] : redacted_environment(*sources.process.environment, dropped))
      rows += name + "=" + printable(value) + "\n";
    writer.document("environment", rows);
  }
  if (sources.kernel_log) writer.document("kernel.log", redacted_log(*sources.kernel_log));
  writer.document("driver.json", driver_to_json(sources.driver));
  if (sources.asked.probe) writer.document("probe.json", probe_to_json(*sources.asked.probe));
  ProcessFacts process = sources.process;
  if (!sources.python.empty()) process.python = sources.python;
  writer.document("process.json", process_to_json(process));
  std::vector<std::string> told = redaction.report();
  for (const std::string& name : dropped)
    told.push_back(text("left out: the variable {}", printable(name)));
  if (writer.shortened() > 0)
    told.push_back(text_n("left out: of {} file what no rule asks for",
                          "left out: of {} files what no rule asks for", writer.shortened(),
                          writer.shortened()));
  if (!writer.failed().empty()) return not_written(writer.failed());
  std::string list;
  for (const std::string& line : told) list += line + "\n";
  writer.document("redacted.txt", list);
  return told;
}

}  // namespace berth::doctor
