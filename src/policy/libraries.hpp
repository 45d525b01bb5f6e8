// advise(): which compute libraries a program loaded, and what each of them needs to use the GPU.
// Pure: takes file names and returns sentences.
#pragma once

#include <string>
#include <vector>

#include "model/snapshot.hpp"

namespace berth::policy {

/// One compute library, recognised by the files a process has mapped.
struct LibraryFact {
  std::string name;     // name for `import`: "torch", "numpy"
  std::string version;  // version in the file's name; usually ""
  std::string build;  // "CPU build", "CUDA build", … (translated); "" if the library has only one
                      // kind of build
  bool can_use_gpu = false;  // this build contains GPU code
};

struct LibraryAdvice {
  std::vector<LibraryFact> facts;
  std::vector<std::string> libraries;    // "torch 1.13 (CPU build)", "numpy": for the report
  std::vector<std::string> suggestions;  // translated; the most important first, at most three
};

/// `mapped_files`: paths from /proc/PID/maps in any order, possibly repeated or with " (deleted)";
/// they may be invalid UTF-8. Makes no suggestions if the snapshot has no usable GPU, because then
/// the reason is the machine and not the program.
[[nodiscard]] LibraryAdvice advise(const std::vector<std::string>& mapped_files,
                                   const model::Snapshot& snapshot);

}  // namespace berth::policy
