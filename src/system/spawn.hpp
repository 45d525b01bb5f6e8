#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace berth::system {

/// How to start another program of Berth. The program does not depend on the caller's state. The
/// program gets this process's environment, only these descriptors, and default signal handling.
struct Start {
  std::string program;  // a path, or a name that is looked up in PATH
  std::vector<std::string> words;
  std::vector<std::string> variables =
      {};  // "NAME=value": adds a variable to those of this process, or replaces one of them
  int out = -1, err = -1;  // descriptors that become 1 and 2
  int in = -1;             // descriptor that becomes 0; -1: stdin is empty
  int more = -1;           // descriptor that becomes 3; -1: none
  // start the program in its own session, with the root folder as working directory
  bool is_daemon = false;
};

struct Spawned {
  pid_t pid = -1;
  int problem = 0;  // errno if the start failed
};

Spawned spawn(const Start& start);

}  // namespace berth::system
