// daemon_probe SOCKET STATE_FOLDER [all]: the daemon by itself, until it is killed; "all": for
// every user. Prints "ready" when it answers.
#include <cstdio>

#include "serve/daemon.hpp"

int main(int count, char** words) {
  if (count < 3) return 2;
  berth::serve::DaemonOptions options;
  options.socket = words[1];
  options.state_folder = words[2];
  options.for_all = count > 3;
  options.sources = berth::inventory::Sources::from_environment();
  const auto ended = berth::serve::run_daemon(options, [] {
    std::puts("ready");
    std::fflush(stdout);
  });
  if (ended) return 0;
  std::fprintf(stderr, "%s: %s\n", ended.error().id.c_str(), ended.error().message.c_str());
  return 1;
}
