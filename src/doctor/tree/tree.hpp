// Tree: the files of a machine as the doctor sees them: this machine ("/"), another process's root
// (/proc/PID/root), or a recorded machine (a bundle's root/ folder, or one NAME.machine file in
// memory). Links are resolved inside the tree, as in a chroot, so a recorded /usr/lib/libcuda.so.1
// never leads to this machine's file.
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
  std::shared_ptr<const FileTree::Content> content_;  // used instead of fd_ for a file in memory
  Recording::File* recorded_;
};

class Tree {
 public:
  /// Uses a folder as root; "/" is this machine.
  explicit Tree(const std::string& root);
  /// A recorded machine's files, in memory; `origin` is where they came from.
  Tree(FileTree files, const std::string& origin)
      : root_(origin), files_(std::make_shared<const FileTree>(std::move(files))) {}

  /// Replaces everything below `path` with `folder` , for example to give a simulated machine its
  /// own /sys.
  void mount(const std::string& path, const std::string& folder);

  /// From now on, never accesses `path` or anything below it, because its file server does not
  /// answer and the access would block. Such accesses fail with ETIMEDOUT.
  void silence(std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    silent_.push_back(std::move(path));
  }
  /// Whether accessing `path` would lead to a silenced path, also through links.
  [[nodiscard]] bool is_silent(const std::string& path) const;

  /// Reads at most `limit` bytes; a longer file is truncated. Anything but a plain file is
  /// unreadable (EINVAL). Never blocks.
  [[nodiscard]] Fact<std::string> read(const std::string& path, std::size_t limit = 1 << 16) const;
  /// The last `limit` bytes.
  [[nodiscard]] Fact<std::string> read_end(const std::string& path, std::size_t limit) const;
  /// The first line without surrounding whitespace.
  [[nodiscard]] Fact<std::string> line(const std::string& path) const;
  /// Names in a folder, sorted, without "." and ".."; at most `most` of them.
  [[nodiscard]] Fact<std::vector<std::string>> list(const std::string& path,
                                                    std::size_t most = 20'000) const;
  /// Opens a plain file to read parts of it.
  [[nodiscard]] Fact<OpenFile> open_file(const std::string& path) const;
  /// The target of a link, as stored in the link.
  [[nodiscard]] Fact<std::string> link(const std::string& path) const;
  /// The path with all links resolved, relative to the tree's root.
  [[nodiscard]] Fact<std::string> resolve(const std::string& path) const;
  /// Properties of the file at `path`; links are followed. `try_open`: for devices, checks with the
  /// kernel whether opening is allowed, without opening.
  [[nodiscard]] Fact<Node> node(const std::string& path, bool try_open = false) const;
  /// The ctime, in seconds since 1970. A recording only has the ctimes that were requested; others
  /// are absent.
  [[nodiscard]] Fact<std::int64_t> changed(const std::string& path) const;
  [[nodiscard]] bool exists(const std::string& path) const { return node(path).has_value(); }

  /// Calls `read` with this tree and returns its result. If an access was denied on the way (EACCES
  /// and similar), the returned fact records this: lists may be incomplete, and nothing counts as
  /// absent.
  template <typename Read>
  [[nodiscard]] auto watched(Read read) const {
    const auto before = std::exchange(refused_, std::nullopt);
    auto fact = read();
    if (refused_) fact.doubt(*refused_);
    if (before) refused_ = before;
    return fact;
  }

  /// From now on, also records everything that is read.
  void record_into(std::shared_ptr<Recording> recording) { recording_ = std::move(recording); }

  [[nodiscard]] bool is_this_machine() const { return root_ == "/"; }
  [[nodiscard]] const std::string& root() const { return root_; }

  void add_special(std::string path, Special special) {
    specials_.insert_or_assign(std::move(path), special);
  }

 private:
  /// Whether the tree is in memory and the path is not below a mount.
  [[nodiscard]] bool is_in_memory(const std::string& path) const;
  /// The errno with which accesses to the path fail; 0 if it is readable.
  [[nodiscard]] int refused_with(const std::string& path) const;
  [[nodiscard]] FileTree::Found find(const std::string& path, bool follow = true) const;
  [[nodiscard]] Descriptor open(const std::string& path, int flags, int& error) const;
  /// The content of a plain file; `is_more` is set if the file is longer than `limit`.
  [[nodiscard]] Fact<std::string> content(const std::string& path, std::size_t limit, bool from_end,
                                          bool& is_more) const;
  [[nodiscard]] Fact<std::string> read_from(const std::string& path, std::size_t limit,
                                            bool from_end) const;
  /// Adds names in a folder to `names`, at most `most` in total; returns errno.
  [[nodiscard]] int add_names(const std::string& path, std::size_t most,
                              std::vector<std::string>& names) const;
  void note(const std::string& path, const Node& node) const;
  void note_links(std::string path) const;
  /// "/sys" if the path is in /sys and nothing is mounted there, so that the tree does not show the
  /// kernel's state. The same for other kernel folders. "" if it is mounted, or for other paths.
  [[nodiscard]] std::string_view unmounted(const std::string& path) const;
  [[nodiscard]] bool has_entries(const std::string& folder) const;
  template <typename T>
  [[nodiscard]] Fact<T> failed(const std::string& path, int error) const;
  [[nodiscard]] const Special* special(const std::string& path) const;

  struct Mount {
    std::string path;  // ends in "/"
    Descriptor folder;
  };

  struct KernelFiles {
    std::string_view folder;
    std::optional<bool> is_there;  // checked once
  };

  std::string root_;
  Descriptor folder_;
  std::shared_ptr<const FileTree> files_;  // instead of folder_
  std::vector<Mount> mounts_;
  std::vector<std::string> silent_;
  std::map<std::string, Special, std::less<>> specials_;
  std::shared_ptr<Recording> recording_;
  mutable std::array<KernelFiles, 2> kernel_files_{{{"/sys", {}}, {"/proc", {}}}};
  mutable std::optional<Unreadable> refused_;  // the first denied access during watched()
};

}  // namespace berth::doctor
