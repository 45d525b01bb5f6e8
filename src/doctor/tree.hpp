// Tree: the files of a machine as the doctor sees them: this one ("/"), another process's
// (/proc/PID/root), or a recorded one (a bundle's root/ with its side table). Links are followed
// inside the tree, as chroot would, so that a recorded /usr/lib/libcuda.so.1 never leads to ours.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "doctor/fact.hpp"

namespace berth::doctor {

enum class NodeType : unsigned char { kFile, kFolder, kLink, kCharacter, kBlock, kFifo, kSocket };

/// What stands at a path, and whether it can be opened.
struct Node {
  NodeType type = NodeType::kFile;
  mode_t mode = 0;  // permission bits
  uid_t uid = 0;
  gid_t gid = 0;
  unsigned major = 0, minor = 0;  // devices
  std::uint64_t size = 0;
  std::int64_t modified = 0;  // seconds since 1970
  /// Devices: errno of open(O_RDWR), 0 when it succeeds; nullopt: not tried.
  std::optional<int> open_error;
};

class Tree {
 public:
  /// `root` is a folder; "/" is this machine.
  explicit Tree(const std::string& root);

  /// What is below `path` comes from `folder` (a simulated machine has its own /sys).
  void mount(const std::string& path, const std::string& folder);

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
  [[nodiscard]] Fact<std::shared_ptr<Descriptor>> open_file(const std::string& path) const;
  /// Where a link points to, as it is written.
  [[nodiscard]] Fact<std::string> link(const std::string& path) const;
  /// The path after all links were followed, seen from the tree's root.
  [[nodiscard]] Fact<std::string> resolve(const std::string& path) const;
  /// Follows links. `try_open`: devices only; they are opened and closed again.
  [[nodiscard]] Fact<Node> node(const std::string& path, bool try_open = false) const;
  [[nodiscard]] bool exists(const std::string& path) const { return node(path).has_value(); }

  [[nodiscard]] bool is_this_machine() const { return root_ == "/"; }
  [[nodiscard]] const std::string& root() const { return root_; }

  /// One row of a bundle's side table: what plain files cannot be.
  struct Special {
    std::optional<Node> node;
    int error = 0;  // every look at the path fails with it
  };
  void add_special(std::string path, Special special) {
    specials_.insert_or_assign(std::move(path), std::move(special));
  }

 private:
  [[nodiscard]] Descriptor open(const std::string& path, int flags, int& error) const;
  [[nodiscard]] Fact<std::string> read_from(const std::string& path, std::size_t limit,
                                            bool from_end) const;
  [[nodiscard]] const Special* special(const std::string& path) const;

  struct Mount {
    std::string path;  // ends in "/"
    Descriptor folder;
  };

  std::string root_;
  Descriptor folder_;
  std::vector<Mount> mounts_;
  std::map<std::string, Special, std::less<>> specials_;
};

}  // namespace berth::doctor
