// Tree: the files of a machine as the doctor sees them: of this machine ("/"), of another process
// (/proc/PID/root), or of a recorded machine (the root/ folder of a bundle, or a NAME.machine file
// in memory). Links are resolved inside the tree, as in a chroot, so that a recorded link never
// leads to a file of this machine.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "doctor/facts/fact.hpp"
#include "doctor/facts/node.hpp"
#include "doctor/tree/file_tree.hpp"
#include "doctor/tree/recording.hpp"

namespace berth::doctor {

/// A plain file in a tree.
class OpenFile {
 public:
  OpenFile(Descriptor fd, Recording::File* recorded)
      : fd_(std::make_shared<Descriptor>(std::move(fd))), recorded_(recorded) {}
  OpenFile(std::shared_ptr<const FileTree::Content> content, Recording::File* recorded)
      : content_(std::move(content)), recorded_(recorded) {}
  /// Reads exactly `size` bytes; false if the file is too short.
  bool read_at(std::uint64_t offset, void* into, std::size_t size) const;

 private:
  std::shared_ptr<Descriptor> fd_;
  std::shared_ptr<const FileTree::Content> content_;  // used for files in memory, instead of fd_
  Recording::File* recorded_;
};

class Tree {
 public:
  /// A tree whose root is a folder; "/" is this machine.
  explicit Tree(const std::string& root);
  /// The files of a recorded machine, in memory; `origin` is the path from which they were read.
  Tree(FileTree files, const std::string& origin)
      : root_(origin), files_(std::make_shared<const FileTree>(std::move(files))) {}

  /// Replaces everything below `path` by the content of `folder`, for example to give a simulated
  /// machine its own /sys.
  void mount(const std::string& path, const std::string& folder);

  /// From now on, all accesses to `path` and to paths below it fail with ETIMEDOUT. The file server
  /// of `path` does not respond, so a real access would block.
  void silence(std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    silent_.push_back(std::move(path));
  }
  /// Whether an access to `path` would reach a silenced path, directly or through links.
  [[nodiscard]] bool is_silent(const std::string& path) const;

  /// The first `limit` bytes of a plain file. Other files are unreadable (EINVAL). Never blocks.
  [[nodiscard]] Fact<std::string> read(const std::string& path, std::size_t limit = 1 << 16) const;
  /// The last `limit` bytes of a plain file.
  [[nodiscard]] Fact<std::string> read_end(const std::string& path, std::size_t limit) const;
  /// The first line of a plain file, without surrounding blanks.
  [[nodiscard]] Fact<std::string> line(const std::string& path) const;
  /// At most `most` names in a folder, sorted, without "." and "..".
  [[nodiscard]] Fact<std::vector<std::string>> list(const std::string& path,
                                                    std::size_t most = 20'000) const;
  /// Opens a plain file, to read parts of it.
  [[nodiscard]] Fact<OpenFile> open_file(const std::string& path) const;
  /// The target of a link, as stored in the link.
  [[nodiscard]] Fact<std::string> link(const std::string& path) const;
  /// The path with all links resolved, relative to the tree's root.
  [[nodiscard]] Fact<std::string> resolve(const std::string& path) const;
  /// Properties of the file at `path`, after links are resolved. `try_open`: for a device, also
  /// whether the kernel would permit opening it. The device is not opened.
  [[nodiscard]] Fact<Node> node(const std::string& path, bool try_open = false) const;
  /// The ctime, in seconds since 1970. A recording contains only the ctimes that were requested
  /// when it was made. Other ctimes are absent.
  [[nodiscard]] Fact<std::int64_t> changed(const std::string& path) const;
  [[nodiscard]] bool exists(const std::string& path) const { return node(path).has_value(); }

  /// Calls `read` and returns its fact. If an access was denied during the call (EACCES and
  /// similar), the fact becomes partial or unreadable, because lists may then be incomplete.
  template <typename Read>
  [[nodiscard]] auto watched(Read read) const {
    const auto before = std::exchange(refused_, std::nullopt);
    auto fact = read();
    if (refused_) fact.doubt(*refused_);
    if (before) refused_ = before;
    return fact;
  }

  /// From now on, everything that is read is also recorded.
  void record_into(std::shared_ptr<Recording> recording) { recording_ = std::move(recording); }

  [[nodiscard]] bool is_this_machine() const { return root_ == "/"; }
  [[nodiscard]] const std::string& root() const { return root_; }

  void add_special(std::string path, Special special) {
    specials_.insert_or_assign(std::move(path), special);
  }

 private:
  /// Whether the tree is in memory and the path is not below a mount.
  [[nodiscard]] bool is_in_memory(const std::string& path) const;
  /// The errno with which all accesses to the path fail; 0 if they do not fail.
  [[nodiscard]] int refused_with(const std::string& path) const;
  [[nodiscard]] FileTree::Found find(const std::string& path, bool follow = true) const;
  [[nodiscard]] Descriptor open(const std::string& path, int flags, int& error) const;
  /// The content of a plain file. `is_more` becomes true if the file is longer than `limit`.
  [[nodiscard]] Fact<std::string> content(const std::string& path, std::size_t limit, bool from_end,
                                          bool& is_more) const;
  [[nodiscard]] Fact<std::string> read_from(const std::string& path, std::size_t limit,
                                            bool from_end) const;
  /// Adds the names in a folder to `names`, up to `most` in total. Returns 0 or errno.
  [[nodiscard]] int add_names(const std::string& path, std::size_t most,
                              std::vector<std::string>& names) const;
  void note(const std::string& path, const Node& node) const;
  void note_links(std::string path) const;
  /// "/sys" or "/proc" if the path is below this folder, but nothing is mounted there. A missing
  /// file then proves nothing. "" for all other paths.
  [[nodiscard]] std::string_view unmounted(const std::string& path) const;
  [[nodiscard]] bool has_entries(const std::string& folder) const;
  template <typename T>
  [[nodiscard]] Fact<T> failed(const std::string& path, int error) const;
  [[nodiscard]] const Special* special(const std::string& path) const;

  struct Mount {
    std::string path;  // path of the mount point, with a final "/"
    Descriptor folder;
  };

  struct KernelFiles {
    std::string_view folder;
    // whether the folder has entries, so that it is mounted; empty if not checked yet
    std::optional<bool> is_there;
  };

  std::string root_;
  Descriptor folder_;
  std::shared_ptr<const FileTree> files_;  // used for trees in memory, instead of folder_
  std::vector<Mount> mounts_;
  std::vector<std::string> silent_;
  std::map<std::string, Special, std::less<>> specials_;
  std::shared_ptr<Recording> recording_;
  mutable std::array<KernelFiles, 2> kernel_files_{{{"/sys", {}}, {"/proc", {}}}};
  mutable std::optional<Unreadable> refused_;  // the first denied access during watched()
};

}  // namespace berth::doctor
