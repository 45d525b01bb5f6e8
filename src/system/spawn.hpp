#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace berth::system {

/// Another program of ours, started as if by nobody in particular: it has our variables, no
/// descriptor but these, reads nothing, and every signal does to it what it does by default,
/// whatever signals the caller ignores or blocks.
struct Start {
  std::string program;  // a path
  std::vector<std::string> words;
  int out = -1, err = -1;  // become 1 and 2
  bool is_daemon = false;  // in a session of its own, in the root folder
};

struct Spawned {
  pid_t pid = -1;
  int problem = 0;  // an errno: it was not started
};

Spawned spawn(const Start& start);

}  // namespace berth::system
