#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace berth::system {

/// How to start another program of Berth so that it does not depend on the caller's state. It gets
/// this program's variables, only these descriptors, an empty stdin, and default signal handling.
struct Start {
  std::string program;  // a path
  std::vector<std::string> words;
  int out = -1, err = -1;  // descriptors that become 1 and 2
  bool is_daemon = false;  // start it in its own session, in the root folder
};

struct Spawned {
  pid_t pid = -1;
  int problem = 0;  // an errno if the start failed
};

Spawned spawn(const Start& start);

}  // namespace berth::system
