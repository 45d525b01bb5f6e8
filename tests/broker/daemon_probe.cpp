// daemon_probe SOCKET STATE_FOLDER [all [GROUPS [MODE ENFORCE_ON EXEMPT_USER EXEMPT_GROUP]]]: runs
// only the daemon, until it is killed. "all": serves every user; GROUPS: the name of a folder for
// the jobs' control groups. Prints "ready" when it answers.
#include <cstdio>
#include <string>

#include "serve/daemon.hpp"

int main(int count, char** words) {
  if (count < 3) return 2;
  berth::serve::DaemonOptions options;
  options.socket = words[1];
  options.state_folder = words[2];
  options.for_all = count > 3;
  options.groups = count > 4 ? words[4] : "";
  if (count > 8) {
    options.settings.mode = words[5];
    options.enforce_on = words[6];
    if (*words[7] != 0) options.settings.exempt_users = {words[7]};
    if (*words[8] != 0) options.settings.exempt_groups = {words[8]};
  }
  options.note = [](const std::string& sentence) {
    std::fprintf(stderr, "note: %s\n", sentence.c_str());
  };
  options.sources = berth::inventory::Sources::from_environment();
  const auto ended = berth::serve::run_daemon(options, [] {
    std::puts("ready");
    std::fflush(stdout);
  });
  if (ended) return 0;
  std::fprintf(stderr, "%s: %s\n", ended.error().id.c_str(), ended.error().message.c_str());
  return 1;
}
