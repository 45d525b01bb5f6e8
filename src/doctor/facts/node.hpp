// What exists at a path in a file tree.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace berth::doctor {

enum class NodeType : unsigned char { kFile, kFolder, kLink, kCharacter, kBlock, kFifo, kSocket };

/// The file at a path, and whether it can be opened.
struct Node {
  NodeType type = NodeType::kFile;
  mode_t mode = 0;  // permission bits
  uid_t uid = 0;
  gid_t gid = 0;
  unsigned major = 0, minor = 0;  // devices
  std::uint64_t size = 0;
  /// Whether the file is really empty. False for a file in a bundle whose content was not recorded.
  bool is_empty = false;
  std::int64_t modified = 0;  // time of the last change of the content, in seconds since 1970
  std::int64_t changed = 0;   // ctime: when it was created or its metadata changed; 0 if unknown
  /// For devices: the errno that open(O_RDWR) would return; 0: allowed; nullopt: not checked.
  std::optional<int> open_error;
};

/// Properties of one path that plain files cannot represent. A bundle stores them in a separate
/// table.
struct Special {
  std::optional<Node> node;
  int error = 0;  // if not 0: the errno that every access to the path returns
};

}  // namespace berth::doctor
