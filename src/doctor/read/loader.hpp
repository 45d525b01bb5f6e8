// Simulates which files glibc's loader would load (_dl_map_object in elf/dl-load.c): DT_RPATH of
// the object and its loaders, LD_LIBRARY_PATH, DT_RUNPATH, the cache, the default folders. Executes
// nothing. Not simulated: glibc-hwcaps folders, LD_AUDIT, $PLATFORM.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "doctor/facts/process.hpp"
#include "doctor/read/cache.hpp"
#include "doctor/read/elf.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

enum class FoundBy : unsigned char {
  kPath,  // found by its path, because the name contains a slash
  kRpath,
  kLibraryPath,
  kRunpath,
  kCache,
  kDefault,
  kPreload,
};

/// The reason why an object was found, in words: "LD_LIBRARY_PATH", "the loader's default folders";
/// "" if the name contained a slash.
[[nodiscard]] std::string words_for(FoundBy by);

struct LoadedObject {
  std::string name;  // the name as requested
  std::string path;  // path in the tree; empty if not found
  FoundBy by = FoundBy::kPath;
  int loader = -1;        // index of the object that needs it; -1: the program, or preloaded
  bool is_empty = false;  // the file is empty, so the search ends here and loading fails
  Elf elf;
};

/// The folders in ld.so.conf, for a bundle without a loader cache.
[[nodiscard]] std::vector<std::string> configured_folders(const Tree& tree);

class Loader {
 public:
  Loader(const Tree& tree, const Environment& environment);

  /// Loads a program and all its dependencies, breadth first. `path` may also be a library, which
  /// is loaded in the same way.
  void start(const std::string& path);
  /// False if neither the loader's cache nor any of its folders exists. Then a library that is not
  /// found may still exist.
  [[nodiscard]] bool has_folders() const {
    return !cache_.empty() || !configured_.empty() || !defaults_.empty();
  }
  /// Simulates dlopen(). `by` is the calling object, 0 for the program. Returns the index of the
  /// object, or -1 if it was not found.
  int open(const std::string& name, int by = 0);

  /// Objects in load order. Those that were not found have no path.
  [[nodiscard]] const std::vector<LoadedObject>& objects() const { return objects_; }
  /// The file that object `by` would get for `name`, without loading it.
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
  std::vector<std::string> configured_;  // folders from ld.so.conf, used if there is no cache
  std::vector<std::string> defaults_;
  std::string library_path_, preload_;
  std::uint16_t machine_ = 0;
  std::vector<LoadedObject> objects_;
};

}  // namespace berth::doctor
