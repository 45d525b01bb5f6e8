// Tree: the files of a machine as the doctor sees them: this one ("/"), another process's
// (/proc/PID/root), or a recorded one (a bundle's root/ with its side table). Links are followed
// inside the tree, as chroot would, so that a recorded /usr/lib/libcuda.so.1 never leads to ours.
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
#include "doctor/fact.hpp"
#include "doctor/node.hpp"
#include "doctor/recording.hpp"

namespace berth::doctor {

/// A plain file of a tree.
class OpenFile {
 public:
  OpenFile(Descriptor fd, Recording::File* recorded)
      : fd_(std::make_shared<Descriptor>(std::move(fd))), recorded_(recorded) {}
  /// Exactly `size` bytes; false where the file does not reach.
  bool read_at(std::uint64_t offset, void* into, std::size_t size) const;

 private:
  std::shared_ptr<Descriptor> fd_;
  Recording::File* recorded_;
};

class Tree {
 public:
  /// `root` is a folder; "/" is this machine.
  explicit Tree(const std::string& root);

  /// What is below `path` comes from `folder` (a simulated machine has its own /sys).
  void mount(const std::string& path, const std::string& folder);

  /// Nothing at `path` or below it is looked at from now on: its server does not answer, and
  /// whoever looks there waits for it. Looks fail with ETIMEDOUT.
  void silence(std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    silent_.push_back(std::move(path));
  }
  /// Whether a look at `path` would lead there, by whatever links.
  [[nodiscard]] bool is_silent(const std::string& path) const;

  /// At most `limit` bytes; a longer file is cut. Anything but a plain file is unreadable (EINVAL),
  /// and never waited for.
  [[nodiscard]] Fact<std::string> read(const std::string& path, std::size_t limit = 1 << 16) const;
  /// The last `limit` bytes.
  [[nodiscard]] Fact<std::string> read_end(const std::string& path, std::size_t limit) const;
  /// The first line without surrounding blanks.
  [[nodiscard]] Fact<std::string> line(const std::string& path) const;
  /// Names in a folder, sorted, without "." and ".."; at most `most` of them.
  [[nodiscard]] Fact<std::vector<std::string>> list(const std::string& path,
                                                    std::size_t most = 20'000) const;
  /// A plain file, for reading parts of it.
  [[nodiscard]] Fact<OpenFile> open_file(const std::string& path) const;
  /// Where a link points to, as it is written.
  [[nodiscard]] Fact<std::string> link(const std::string& path) const;
  /// The path after all links were followed, seen from the tree's root.
  [[nodiscard]] Fact<std::string> resolve(const std::string& path) const;
  /// Follows links. `try_open`: devices only; the kernel is asked, nothing is opened.
  [[nodiscard]] Fact<Node> node(const std::string& path, bool try_open = false) const;
  /// When a file came to be there, in seconds since 1970; a recording has it of those alone that
  /// were asked for it, and of other recorded files it is absent.
  [[nodiscard]] Fact<std::int64_t> changed(const std::string& path) const;
  [[nodiscard]] bool exists(const std::string& path) const { return node(path).has_value(); }

  /// What `read` makes of this tree; where it was refused a look on the way (EACCES and the like),
  /// the fact says so: a list may lack something, and nothing is called absent.
  template <typename Read>
  [[nodiscard]] auto watched(Read read) const {
    const auto before = std::exchange(refused_, std::nullopt);
    auto fact = read();
    if (refused_) fact.doubt(*refused_);
    if (before) refused_ = before;
    return fact;
  }

  /// From now on, everything that is looked at is noted there as well.
  void record_into(std::shared_ptr<Recording> recording) { recording_ = std::move(recording); }

  [[nodiscard]] bool is_this_machine() const { return root_ == "/"; }
  [[nodiscard]] const std::string& root() const { return root_; }

  void add_special(std::string path, Special special) {
    specials_.insert_or_assign(std::move(path), special);
  }

 private:
  [[nodiscard]] Descriptor open(const std::string& path, int flags, int& error) const;
  [[nodiscard]] Fact<std::string> read_from(const std::string& path, std::size_t limit,
                                            bool from_end) const;
  void note(const std::string& path, const Node& node) const;
  void note_links(std::string path) const;
  /// "/sys" where the path is below it, and nothing is: a root without the kernel's files says
  /// nothing of what the kernel has. "" it is there, or the path is elsewhere.
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
    std::optional<bool> is_there;  // asked once
  };

  std::string root_;
  Descriptor folder_;
  std::vector<Mount> mounts_;
  std::vector<std::string> silent_;
  std::map<std::string, Special, std::less<>> specials_;
  std::shared_ptr<Recording> recording_;
  mutable std::array<KernelFiles, 2> kernel_files_{{{"/sys", {}}, {"/proc", {}}}};
  mutable std::optional<Unreadable> refused_;  // the first, in watched()
};

}  // namespace berth::doctor
