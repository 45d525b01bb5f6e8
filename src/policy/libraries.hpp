// advise(): which compute libraries a program had loaded, and what each would need to use the GPU.
// Pure: file names in, words out.
#pragma once

#include <string>
#include <vector>

#include "model/snapshot.hpp"

namespace berth::policy {

/// One compute library, recognised by the files a process has mapped.
struct LibraryFact {
  std::string name;     // as people import it: "torch", "numpy"
  std::string version;  // from the file's name where that tells it; "" mostly
  std::string build;  // "CPU build", "CUDA build", "ROCm build", "XPU build" (translated); "" where
                      // builds do not differ
  bool can_use_gpu = false;  // this very build has GPU code
};

struct LibraryAdvice {
  std::vector<LibraryFact> facts;
  std::vector<std::string> libraries;  // "torch 1.13 (CPU build)", "numpy": for the report
  std::vector<std::string>
      suggestions;  // sentences, translated; what counts most first, at most three
};

/// `mapped_files`: paths as in /proc/PID/maps, in any order, repeated or not, with or without "
/// (deleted)"; never trusted to be text. No suggestions where the snapshot has no usable GPU: the
/// machine is the reason then, not the program.
[[nodiscard]] LibraryAdvice advise(const std::vector<std::string>& mapped_files,
                                   const model::Snapshot& snapshot);

}  // namespace berth::policy
