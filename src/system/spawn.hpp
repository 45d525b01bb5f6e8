#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace berth::system {

/// How to start another of our programs, independent of the caller's state: it gets our variables,
/// only these descriptors, an empty stdin, and default signal handling.
struct Start {
  std::string program;  // a path
  std::vector<std::string> words;
  int out = -1, err = -1;  // become 1 and 2
  bool is_daemon = false;  // in its own session, in the root folder
};

struct Spawned {
  pid_t pid = -1;
  int problem = 0;  // an errno: the start failed
};

Spawned spawn(const Start& start);

}  // namespace berth::system
