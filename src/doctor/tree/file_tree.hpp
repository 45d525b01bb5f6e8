// FileTree: a recorded machine's files, folders and links, in memory. Resolves paths as the kernel
// does in a chroot: links and ".." never leave the tree.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/node.hpp"

namespace berth::doctor {

class FileTree {
 public:
  /// The content of a file. Only pages that were written are stored, and the other bytes are zero.
  /// A library of 1 GB with a few recorded parts therefore needs little memory.
  class Content {
   public:
    static constexpr std::size_t kPage =
        240;  // a multiple of 16 and 48, so that rows of text are full

    Content() = default;
    explicit Content(std::string_view text) { write(0, text); }
    void write(std::uint64_t offset, std::string_view bytes);
    void resize(std::uint64_t size) { size_ = size > size_ ? size : size_; }
    /// At most `most` bytes, starting at `offset`.
    [[nodiscard]] std::string read(std::uint64_t offset, std::size_t most) const;
    [[nodiscard]] std::uint64_t size() const { return size_; }
    /// The stored pages, by offset. An offset is a multiple of kPage.
    [[nodiscard]] const std::map<std::uint64_t, std::string>& pages() const { return pages_; }

   private:
    std::uint64_t size_ = 0;
    std::map<std::uint64_t, std::string> pages_;
  };

  struct Entry {
    NodeType type = NodeType::kFolder;  // kFolder, kFile or kLink
    mode_t mode = 0755;
    int layer = 0;       // the layer that created this entry
    std::string target;  // target of a link
    Content content;     // content of a file
    std::map<std::string, std::unique_ptr<Entry>, std::less<>> below;  // entries of a folder
  };

  struct Found {
    const Entry* entry = nullptr;
    std::string path;  // path after links were resolved
    int error = 0;     // errno that says why there is no entry
  };

  /// `follow`: whether a link at the end of the path is resolved too.
  [[nodiscard]] Found find(std::string_view path, bool follow = true) const;

  /// These functions add an entry and return it. They resolve links except at the end of the path,
  /// and create missing folders. An entry of an earlier layer is replaced. They return nullptr if a
  /// component of the path is a file, or if the current layer already has another entry at the
  /// path.
  Entry* put_file(std::string_view path, Content content, mode_t mode = 0644);
  Entry* put_link(std::string_view path, std::string target);
  Entry* make_folder(std::string_view path);
  /// The entry at a path; a link at its end is not resolved. nullptr if there is none.
  [[nodiscard]] Entry* entry(std::string_view path);
  /// Removes an entry and everything below it. Returns false if there is none.
  bool remove(std::string_view path);

  /// Starts a new layer, whose entries may replace those of earlier layers.
  void next_layer() { ++layer_; }
  [[nodiscard]] const Entry& root() const { return root_; }
  /// The number of entries that were created, including those that were removed later.
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Place {
    Entry* folder = nullptr;
    std::string name;
  };
  [[nodiscard]] Place place(std::string_view path);
  [[nodiscard]] Entry* put(std::string_view path, Entry entry);

  Entry root_;
  int layer_ = 0;
  std::size_t size_ = 1;
};

}  // namespace berth::doctor
