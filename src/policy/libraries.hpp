// advise(): finds which compute libraries a program has loaded, and what each of them needs to use
// the GPU. Pure: takes file names and returns sentences.
#pragma once

#include <string>
#include <vector>

#include "model/snapshot.hpp"

namespace berth::policy {

/// One compute library, recognised by the files a process has mapped.
struct LibraryFact {
  std::string name;          // name in Python's `import`: "torch", "numpy"
  std::string version;       // version in the file's name; usually ""
  std::string build;         // "CPU build", "CUDA build" … (translated); "" if only one exists
  bool can_use_gpu = false;  // this build contains GPU code
};

struct LibraryAdvice {
  std::vector<LibraryFact> facts;
  std::vector<std::string> libraries;  // names for the report: "torch 1.13 (CPU build)", "numpy"
  /// At most three translated sentences, the most important first.
  std::vector<std::string> suggestions;
};

/// `mapped_files`: paths from /proc/PID/maps in any order, possibly repeated or with " (deleted)";
/// they may be invalid UTF-8. If the snapshot has no usable GPU, makes no suggestions, because no
/// library could then use a GPU.
[[nodiscard]] LibraryAdvice advise(const std::vector<std::string>& mapped_files,
                                   const model::Snapshot& snapshot);

}  // namespace berth::policy
