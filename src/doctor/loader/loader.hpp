// Which files would glibc's loader take? Simulates _dl_map_object (elf/dl-load.c): DT_RPATH of the
// object and of those that loaded it, LD_LIBRARY_PATH, DT_RUNPATH, the cache, the default folders.
// Nothing is executed. Not simulated: glibc-hwcaps subfolders, LD_AUDIT, $PLATFORM.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "doctor/facts/process.hpp"
#include "doctor/loader/cache.hpp"
#include "doctor/loader/elf.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

enum class FoundBy : unsigned char {
  kPath,  // the name had a slash
  kRpath,
  kLibraryPath,
  kRunpath,
  kCache,
  kDefault,
  kPreload,
};

/// "LD_LIBRARY_PATH", "the loader's default folders": for people; "" the name had a slash.
[[nodiscard]] std::string words_for(FoundBy by);

struct LoadedObject {
  std::string name;  // as it was asked for
  std::string path;  // in the tree; "" not found
  FoundBy by = FoundBy::kPath;
  int loader = -1;        // index of the object that needs it; -1: the program, or preloaded
  bool is_empty = false;  // there is nothing in the file: the search ends here, and loading fails
  Elf elf;
};

/// What ldconfig would look through for the cache, where a bundle has none: ld.so.conf's folders.
[[nodiscard]] std::vector<std::string> configured_folders(const Tree& tree);

class Loader {
 public:
  Loader(const Tree& tree, const Environment& environment);

  /// Loads a program (or a library as if it were one) and all it needs, breadth first.
  void start(const std::string& path);
  /// False where neither the cache nor any folder of the loader is there: then nothing can be said.
  [[nodiscard]] bool has_folders() const {
    return !cache_.empty() || !configured_.empty() || !defaults_.empty();
  }
  /// dlopen(): `by` is the object whose code calls, 0 for the program. The index of the object, or
  /// -1 where it was not found.
  int open(const std::string& name, int by = 0);

  /// In the order in which they were loaded; what was not found stands there without a path.
  [[nodiscard]] const std::vector<LoadedObject>& objects() const { return objects_; }
  /// Where `name` would be taken from if object `by` asked; nothing is loaded.
  [[nodiscard]] LoadedObject look_up(const std::string& name, int by) const;

 private:
  [[nodiscard]] Fact<Elf> read(const std::string& path) const;
  [[nodiscard]] bool try_file(const std::string& path, FoundBy by, LoadedObject& into) const;
  [[nodiscard]] bool try_folders(const std::vector<std::string>& folders, FoundBy by,
                                 LoadedObject& into) const;
  [[nodiscard]] bool try_cache(bool without_defaults, LoadedObject& into) const;
  [[nodiscard]] std::vector<std::string> folders(const std::string& list,
                                                 const std::string& origin) const;
  [[nodiscard]] int loaded(const std::string& name) const;
  int add(const std::string& name, int by, FoundBy preload);
  void load_needed(std::size_t from);

  const Tree& tree_;
  LoaderCache cache_;
  std::vector<std::string> configured_;  // of ld.so.conf, where there is no cache
  std::vector<std::string> defaults_;
  std::string library_path_, preload_;
  std::uint16_t machine_ = 0;
  std::vector<LoadedObject> objects_;
};

}  // namespace berth::doctor
