#include "doctor/record.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/bundle.hpp"
#include "doctor/bundle_json.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/redact.hpp"
#include "doctor/told_names.hpp"

namespace berth::doctor {
namespace {

/// What rules read of it stands in its parts; a text that begins it is none of them.
bool is_library(const Recording::File& file) {
  const auto head = file.parts.find(0);
  return head != file.parts.end() && head->second.starts_with(
                                         "\x7f"
                                         "ELF");
}

/// Texts that somebody else's name stands for, by the variable that names them.
struct NamedFile {
  const char* variable;
  std::string_view kind;
};
constexpr auto kNamedFiles = std::to_array<NamedFile>({{"NCCL_CONF_FILE", "/etc/nccl.conf"},
                                                       {"PIP_CONFIG_FILE", "/etc/pip.conf"},
                                                       {"UV_CONFIG_FILE", "/etc/uv/uv.toml"},
                                                       {"CONDARC", "/etc/conda/.condarc"}});

/// What cannot be told of texts without knowing the machine.
struct Known {
  std::string host;          // this machine's name, as it is
  std::string service_user;  // of Ollama's service
  std::map<std::string, std::string_view> named;
};

/// Puts files, folders and links below one folder; remembers the first thing that fails.
class Writer {
 public:
  Writer(std::string folder, Redaction& redaction, const ToldPaths& paths, Known known)
      : folder_(std::move(folder)),
        redaction_(redaction),
        paths_(paths),
        known_(std::move(known)) {}

  void take_links(const std::map<std::string, std::string>& links) {
    // Of a process's open files only those of the driver count.
    for (const auto& [path, target] : links)
      if (paths_.told(path) == path &&
          (!path.starts_with("/proc/") || path.find("/fd/") == std::string::npos ||
           target.starts_with("/dev/nvidia")))
        links_.emplace(redaction_.apply(path), redaction_.apply(target));
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

  /// Where a path goes; "" nowhere.
  [[nodiscard]] std::string told(const std::string& path) {
    return redaction_.apply(paths_.told(path));
  }

  void folder(const std::string& path) {
    if (const std::string at = told(path); !at.empty() && !paths_.is_left_out(path))
      make(folder_ + "/root" + real(at));
  }

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

  /// `name` as it is told.
  void name_in(const std::string& folder, const std::string& name) {
    const std::string above = told(folder);
    if (above.empty()) return;
    const std::string at = place(above + "/" + redaction_.apply(name));
    struct stat about {};
    if (!links_.contains(at.substr(folder_.size() + 5)) && ::lstat(at.c_str(), &about) != 0)
      write(at, "");
  }

  /// Read from its first byte to its last, or as far as its reader goes.
  [[nodiscard]] static bool is_text(const Recording::File& file) {
    return file.parts.size() == 1 && file.parts.begin()->first == 0 &&
           file.parts.begin()->second.size() == file.size && (file.size <= 4 || !is_library(file));
  }

  /// Where its links lead; what was read as a whole goes first, and stays as it is.
  void file(const std::string& path, const Recording::File& file) {
    const std::string name = told(path);
    if (name.empty()) return;
    const std::string at = folder_ + "/root" + real(name);
    const bool is_whole = is_text(file);
    if (!is_whole && whole_.contains(at)) return;
    std::optional<std::string> text;
    if (is_whole) {
      whole_.insert(at);
      const std::string all = told_end(file);
      text = all.empty() ? all : told_text(path, all);
      if (!text) return left_out(path);
      if (*text != all) ++shortened_;
    }
    make(at.substr(0, at.rfind('/')));
    const Descriptor fd(::open(at.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) {
      if (errno != EISDIR && errno != ELOOP) fail(at);
      return;
    }
    if (text)
      return put(fd.get(), at, 0,
                 text->find('\0') == std::string::npos ? redaction_.apply(*text)
                                                       : redaction_.apply_in_place(*text));
    // Holes where nobody looked: a library of a gigabyte stays a few blocks.
    if (::ftruncate(fd.get(), static_cast<off_t>(file.size)) != 0) fail(at);
    if (!is_library(file)) return;
    for (const auto& [offset, bytes] : file.parts)
      put(fd.get(), at, offset, redaction_.apply_in_place(bytes));
  }

  void document(const std::string& name, const std::string& text) {
    write(folder_ + "/" + name, redaction_.apply(text));
  }

  [[nodiscard]] const std::string& failed() const { return failed_; }
  /// Files that tell only what rules ask of them.
  [[nodiscard]] int shortened() const { return shortened_; }
  /// Files that tell nothing.
  [[nodiscard]] const std::vector<std::string>& untold() const { return untold_; }

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
    const auto slash = path.rfind('/');
    std::string above = folder_ + "/root" + real(path.substr(0, slash));
    make(above);
    return above + path.substr(slash);
  }

  /// Of a text that was cut only whole lines can be looked through.
  [[nodiscard]] static std::string told_end(const Recording::File& file) {
    const std::string& all = file.parts.begin()->second;
    return file.is_cut && all.find('\0') == std::string::npos ? all.substr(0, all.rfind('\n') + 1)
                                                              : all;
  }

  [[nodiscard]] std::optional<std::string> told_text(const std::string& path,
                                                     const std::string& text) const {
    const auto matters = [this](const std::string& one) { return paths_.matters(one); };
    if (path == "/etc/hosts") return redacted_hosts(text, known_.host);
    if (path == "/etc/group") return redacted_group(text, known_.service_user);
    if (path == "/etc/ld.so.cache") return redacted_loader_cache(text, matters);
    if (path.starts_with("/etc/ld.so.conf") || path.ends_with(".pth"))
      return redacted_folders(text, matters);
    if (text == "~Module signature appended~\n") return text;
    const auto named = known_.named.find(path);
    return redacted_file(named == known_.named.end() ? path : named->second, text);
  }

  /// A row says that it cannot be read, so that nobody takes it for empty, or for not there.
  void left_out(const std::string& path) { untold_.push_back(path); }

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
  const ToldPaths& paths_;
  Known known_;
  std::map<std::string, std::string> links_;  // already redacted
  std::set<std::string> whole_;
  std::vector<std::string> untold_;
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

std::string rows_of(const std::map<std::string, Special>& specials, const ToldPaths& paths) {
  std::string rows;
  for (const auto& [path, special] : specials)
    if (const std::string told = paths.told(path); !told.empty())
      rows += special_to_json(told, special) + "\n";
  return rows;
}

void write_tree(const Recording& seen, const ToldPaths& paths, Writer& writer) {
  writer.take_links(seen.links);
  writer.folders_of_links();
  for (const auto& [path, names] : seen.folders) writer.folder(path);
  for (const bool whole : {true, false})
    for (const auto& [path, file] : seen.files)
      if (Writer::is_text(file) == whole) writer.file(path, file);
  // A folder's other names matter ("libcuda.so.535.183" beside ".570.124"); whose processes run
  // and who has a home here does not.
  for (const auto& [path, names] : seen.folders) {
    if (path.starts_with("/proc") || has_homes(path)) continue;
    for (const std::string& name : paths.names_in(path))
      if (!seen.specials.contains(path + "/" + name)) writer.name_in(path, name);
  }
  writer.links();
}

/// The environment as it goes out; `dropped` gets the names of what does not.
std::string rows_of(const Environment& environment, std::set<std::string>& dropped) {
  std::string rows;
  for (const auto& [name, value] : redacted_environment(environment, dropped))
    rows += name + "=" + printable(value) + "\n";
  return rows;
}

/// Interfaces that NCCL and Gloo were told of: "eth0,ib".
std::string interfaces_in(const ProcessFacts& process) {
  std::string names;
  for (const char* name : {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"})
    for (const char c : process.variable(name).value_or("") + ",")
      if (c != '^' && c != '=') names += c;
  return names;
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

  ProcessFacts process = sources.process;
  if (!sources.python.empty()) process.python = sources.python;
  std::set<std::string> dropped;
  const std::string variables =
      process.environment ? rows_of(*process.environment, dropped) : std::string();
  const ToldPaths paths(*seen, interfaces_in(process), variables + process_to_json(process));
  Known known{host, service ? service->user : "", {}};
  for (const NamedFile& one : kNamedFiles)
    if (const auto path = process.variable(one.variable)) known.named.emplace(*path, one.kind);
  Writer writer(folder, redaction, paths, std::move(known));
  write_tree(*seen, paths, writer);
  for (const std::string& path : writer.untold()) seen->specials[path] = {std::nullopt, ENODATA};
  writer.document("nodes.jsonl", rows_of(seen->specials, paths));
  if (process.environment) writer.document("environment", variables);
  if (sources.kernel_log) writer.document("kernel.log", redacted_log(*sources.kernel_log));
  writer.document("driver.json", driver_to_json(sources.driver));
  if (sources.asked.probe) writer.document("probe.json", probe_to_json(*sources.asked.probe));
  writer.document("process.json", process_to_json(process));
  std::vector<std::string> told = redaction.report();
  for (const std::string& name : dropped)
    told.push_back(text("left out: the variable {}", printable(name)));
  if (writer.shortened() > 0)
    told.push_back(text_n("left out: of {} file what no rule asks for",
                          "left out: of {} files what no rule asks for", writer.shortened(),
                          writer.shortened()));
  if (const auto count = static_cast<int>(writer.untold().size()); count > 0)
    told.push_back(text_n("left out: all of {} file", "left out: all of {} files", count, count));
  if (const auto count = static_cast<int>(paths.hidden()); count > 0)
    told.push_back(text_n("left out, or told by another: {} name in a folder",
                          "left out, or told by another: {} names in folders", count, count));
  if (!writer.failed().empty()) return not_written(writer.failed());
  std::string list;
  for (const std::string& line : told) list += line + "\n";
  writer.document("redacted.txt", list);
  return told;
}

}  // namespace berth::doctor
