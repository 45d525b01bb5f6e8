#include "system/spawn.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string_view>

namespace berth::system {

Spawned spawn(const Start& start) {
  std::vector<const char*> words;
  words.reserve(start.words.size() + 1);
  for (const std::string& one : start.words) words.push_back(one.c_str());
  words.push_back(nullptr);
  std::vector<const char*> variables;
  for (const std::string& one : start.variables) variables.push_back(one.c_str());
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view old(*one);
    const std::string_view name = old.substr(0, old.find('=') + 1);
    if (std::none_of(start.variables.begin(), start.variables.end(),
                     [&](const std::string& added) { return added.starts_with(name); }))
      variables.push_back(*one);
  }
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions = {};
  posix_spawnattr_t attributes = {};
  ::posix_spawn_file_actions_init(&actions);
  if (start.in < 0)
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  else
    ::posix_spawn_file_actions_adddup2(&actions, start.in, 0);
  ::posix_spawn_file_actions_adddup2(&actions, start.out, 1);
  ::posix_spawn_file_actions_adddup2(&actions, start.err, 2);
  if (start.more >= 0) ::posix_spawn_file_actions_adddup2(&actions, start.more, 3);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, start.more >= 0 ? 4 : 3);
  if (start.is_daemon) ::posix_spawn_file_actions_addchdir_np(&actions, "/");
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  const int session = start.is_daemon ? POSIX_SPAWN_SETSID : 0;
  ::posix_spawnattr_setflags(
      &attributes, static_cast<short>(session | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  Spawned spawned;
  // For historical reasons, posix_spawnp() takes char* const[]. It does not change the strings.
  spawned.problem = ::posix_spawnp(&spawned.pid, start.program.c_str(), &actions, &attributes,
                                   const_cast<char* const*>(words.data()),
                                   const_cast<char* const*>(variables.data()));
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return spawned;
}

}  // namespace berth::system
