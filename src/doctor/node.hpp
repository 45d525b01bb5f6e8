// What stands at a path of a tree.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

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
  bool is_empty = false;  // a file in which there is nothing, and not one whose content is unknown
  std::int64_t modified = 0;  // seconds since 1970
  std::int64_t changed =
      0;  // likewise: when it came to be there, or its rights changed; 0 not told
  /// Devices: errno that open(O_RDWR) would be refused with, 0: it is allowed; nullopt: not asked.
  std::optional<int> open_error;
};

/// One row of a bundle's side table: what plain files cannot be.
struct Special {
  std::optional<Node> node;
  int error = 0;  // every look at the path fails with it
};

}  // namespace berth::doctor
