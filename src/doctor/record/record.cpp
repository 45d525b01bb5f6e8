#include "doctor/record/record.hpp"

#include <array>
#include <cerrno>
#include <optional>
#include <set>

#include "base/error_words.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/read/bundle_json.hpp"
#include "doctor/record/record_files.hpp"
#include "doctor/record/redact.hpp"
#include "doctor/record/shareable_names.hpp"
#include "doctor/tree/recorded_machine.hpp"

namespace berth::doctor {
namespace {

/// Whether this is an ELF file. Rules read only some parts of ELF files.
bool is_library(const Recording::File& file) {
  const auto head = file.parts.find(0);
  return head != file.parts.end() && head->second.starts_with(
                                         "\x7f"
                                         "ELF");
}

/// A variable that holds the path of a file, and the standard path of such a file. Both files are
/// redacted alike.
struct NamedFile {
  const char* variable;
  std::string_view kind;
};
constexpr auto kNamedFiles = std::to_array<NamedFile>({{"NCCL_CONF_FILE", "/etc/nccl.conf"},
                                                       {"PIP_CONFIG_FILE", "/etc/pip.conf"},
                                                       {"UV_CONFIG_FILE", "/etc/uv/uv.toml"},
                                                       {"CONDARC", "/etc/conda/.condarc"}});

/// Facts about the machine that redaction needs.
struct Known {
  std::string host;          // real host name of this machine
  std::string service_user;  // user of Ollama's service
  std::map<std::string, std::string_view> named;
};

/// Adds everything that was read to a recorded machine. Keeps the first error.
class Writer {
 public:
  Writer(RecordedMachine& machine, Redaction& redaction, const ShareablePaths& paths, Known known)
      : machine_(machine), redaction_(redaction), paths_(paths), known_(std::move(known)) {}

  void take_links(const std::map<std::string, std::string>& links) {
    // Of the open files of processes, keep only the driver's nodes.
    for (const auto& [path, target] : links)
      if (paths_.shareable(path) == path &&
          (!path.starts_with("/proc/") || path.find("/fd/") == std::string::npos ||
           target.starts_with("/dev/nvidia")))
        links_.emplace(redaction_.apply(path), redaction_.apply(target));
    // Resolves links in the folders of each link's path, so that a link is written only once:
    // /usr/local/cuda/x and /usr/local/cuda-12.4/x may be the same link.
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

  /// The path in the bundle; "" if it is omitted.
  [[nodiscard]] std::string shareable(const std::string& path) {
    return redaction_.apply(paths_.shareable(path));
  }

  void folder(const std::string& path) {
    if (const std::string at = shareable(path); !at.empty() && !paths_.is_omitted(path))
      make(real(at));
  }

  /// Writes the links. Call this last, because the targets must exist.
  void links() {
    for (const auto& [path, target] : links_) machine_.files.put_link(path, target);
  }

  void folders_of_links() {
    for (const auto& [path, target] : links_) make(path.substr(0, path.rfind('/')));
  }

  /// Records that the folder contains this name. Both are redacted first.
  void name_in(const std::string& folder, const std::string& name) {
    const std::string above = shareable(folder);
    if (above.empty()) return;
    const std::string at = place(above + "/" + redaction_.apply(name));
    if (!links_.contains(at) && machine_.files.entry(at) == nullptr)
      machine_.files.put_file(at, FileTree::Content());
  }

  /// Whether this is no ELF file, and was read without gaps: either completely, or up to the
  /// reader's limit.
  [[nodiscard]] static bool is_text(const Recording::File& file) {
    return file.parts.size() == 1 && file.parts.begin()->first == 0 &&
           file.parts.begin()->second.size() == file.size && (file.size <= 4 || !is_library(file));
  }

  /// Writes the file at its real path. If text was read completely under one path, a partial copy
  /// from another path does not replace it.
  void file(const std::string& path, const Recording::File& file) {
    const std::string name = shareable(path);
    if (name.empty()) return;
    const std::string at = real(name);
    const bool is_whole = is_text(file);
    if (!is_whole && whole_.contains(at)) return;
    std::optional<std::string> text;
    if (is_whole) {
      whole_.insert(at);
      const std::string all = redacted_end(file);
      text = all.empty() ? all : redacted_text(path, all);
      if (!text) return omit(path);
      if (*text != all) ++shortened_;
    }
    make(at.substr(0, at.rfind('/')));
    FileTree::Entry* entry = machine_.files.entry(at);
    if (entry == nullptr) entry = machine_.files.put_file(at, FileTree::Content());
    if (entry == nullptr) return fail(at, ENOTDIR);
    if (entry->type != NodeType::kFile) return;
    if (text)
      return entry->content.write(0, text->find('\0') == std::string::npos
                                         ? redaction_.apply(*text)
                                         : redaction_.apply_in_place(*text));
    // Parts that were not read take no space, so even a library of a gigabyte needs only a few
    // rows.
    entry->content.resize(file.size);
    if (!is_library(file)) return;
    for (const auto& [offset, bytes] : file.parts)
      entry->content.write(offset, redaction_.apply_in_place(bytes));
  }

  void document(const std::string& name, const std::string& text) {
    machine_.parts[name] = redaction_.apply(text);
  }

  void special(const std::string& path, const Special& special) {
    if (const std::string at = shareable(path); !at.empty())
      machine_.specials.insert_or_assign(at, special);
  }

  [[nodiscard]] const std::string& failed() const { return failed_; }
  /// The number of files that were reduced to the parts that rules read.
  [[nodiscard]] int shortened() const { return shortened_; }
  /// Paths of the files that were omitted.
  [[nodiscard]] const std::vector<std::string>& omitted() const { return omitted_; }

 private:
  /// The path after all links in it are resolved. A file behind a link is written at the link's
  /// target.
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

  /// The path in the bundle for a path of the machine. Creates the parent folders.
  std::string place(const std::string& path) {
    const auto slash = path.rfind('/');
    const std::string above = real(path.substr(0, slash));
    make(above);
    return above + path.substr(slash);
  }

  /// The part of the text to redact. If the reader's limit cut the text off, the last line is
  /// incomplete and omitted.
  [[nodiscard]] static std::string redacted_end(const Recording::File& file) {
    const std::string& all = file.parts.begin()->second;
    return file.is_cut && all.find('\0') == std::string::npos ? all.substr(0, all.rfind('\n') + 1)
                                                              : all;
  }

  [[nodiscard]] std::optional<std::string> redacted_text(const std::string& path,
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

  /// Marks the path as unreadable, so that it does not look empty or absent.
  void omit(const std::string& path) { omitted_.push_back(path); }

  void make(const std::string& path) {
    if (!path.empty() && machine_.files.make_folder(path) == nullptr) fail(path, ENOTDIR);
  }

  void fail(const std::string& path, int error) {
    if (failed_.empty()) failed_ = printable(path) + ": " + error_words(error);
  }

  RecordedMachine& machine_;
  Redaction& redaction_;
  const ShareablePaths& paths_;
  Known known_;
  std::map<std::string, std::string> links_;  // from the link's path to its target, both redacted
  std::set<std::string> whole_;
  std::vector<std::string> omitted_;
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
  // The home folder usually has the user's name. Hide it too, because the user may have no entry in
  // /etc/passwd, as in a container.
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

void write_tree(const Recording& seen, const ShareablePaths& paths, Writer& writer) {
  writer.take_links(seen.links);
  writer.folders_of_links();
  for (const auto& [path, names] : seen.folders) writer.folder(path);
  for (const bool whole : {true, false})
    for (const auto& [path, file] : seen.files)
      if (Writer::is_text(file) == whole) writer.file(path, file);
  // Keeps the names of files that were not read, because rules compare them ("libcuda.so.535.183"
  // next to ".570.124"). Names in /proc and names of home folders are left out.
  for (const auto& [path, names] : seen.folders) {
    if (path.starts_with("/proc") || has_homes(path)) continue;
    for (const std::string& name : paths.names_in(path))
      if (!seen.specials.contains(path + "/" + name)) writer.name_in(path, name);
  }
  writer.links();
}

/// The environment in the bundle, as text. `dropped` receives the names of omitted variables.
std::string rows_of(const Environment& environment, std::set<std::string>& dropped) {
  std::string rows;
  for (const auto& [name, value] : redacted_environment(environment, dropped))
    rows += name + "=" + printable(value) + "\n";
  return rows;
}

/// The network interfaces that variables of NCCL and Gloo name, separated by commas: "eth0,ib".
std::string interfaces_in(const ProcessFacts& process) {
  std::string names;
  for (const char* name : {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"})
    for (const char c : process.variable(name).value_or("") + ",")
      if (c != '^' && c != '=') names += c;
  return names;
}

}  // namespace

Result<std::vector<std::string>> record(Sources& sources, const std::string& path) {
  if (auto fit = check_record_path(path); !fit) return fit.error();
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
  const ShareablePaths paths(*seen, interfaces_in(process), variables + process_to_json(process));
  Known known{host, service ? service->user : "", {}};
  for (const NamedFile& one : kNamedFiles)
    if (const auto named = process.variable(one.variable)) known.named.emplace(*named, one.kind);
  RecordedMachine machine;
  Writer writer(machine, redaction, paths, std::move(known));
  write_tree(*seen, paths, writer);
  for (const std::string& omitted : writer.omitted())
    seen->specials[omitted] = {std::nullopt, ENODATA};
  for (const auto& [at, special] : seen->specials) writer.special(at, special);
  if (process.environment) writer.document("environment", variables);
  if (sources.kernel_log) writer.document("kernel.log", redacted_log(*sources.kernel_log));
  writer.document("driver.json", driver_to_json(sources.driver));
  if (sources.request.probe) writer.document("probe.json", probe_to_json(*sources.request.probe));
  writer.document("process.json", process_to_json(process));
  std::vector<std::string> redacted = redaction.report();
  for (const std::string& name : dropped)
    redacted.push_back(text("left out: the variable {}", printable(name)));
  if (writer.shortened() > 0)
    redacted.push_back(text_n("left out: the parts of {} file that no rule reads",
                              "left out: the parts of {} files that no rule reads",
                              writer.shortened(), writer.shortened()));
  if (const auto count = static_cast<int>(writer.omitted().size()); count > 0)
    redacted.push_back(text_n("left out: the whole content of {} file",
                              "left out: the whole content of {} files", count, count));
  if (const auto count = static_cast<int>(paths.hidden()); count > 0)
    redacted.push_back(text_n("left out or replaced: {} name of a file or folder",
                              "left out or replaced: {} names of files or folders", count, count));
  if (!writer.failed().empty()) return record_not_written(writer.failed());
  std::string list;
  for (const std::string& line : redacted) list += line + "\n";
  writer.document("redacted.txt", list);
  if (auto written = write_record(machine, path); !written) return written.error();
  return redacted;
}

}  // namespace berth::doctor
