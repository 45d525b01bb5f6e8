// The daemon: one event loop that owns the broker's state, its journal, its socket and the handles
// of the jobs' processes. Every change is in the journal before anyone is told of it; where the
// journal refuses it, the state is what the journal last held.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "inventory/observe.hpp"
#include "serve/settings.hpp"

namespace berth::serve {

struct DaemonOptions {
  std::string socket;        // its path
  std::string link;          // where it is found as well; "" nowhere
  std::string state_folder;  // of the journal
  std::string tcp;           // "127.0.0.1:8642": answers there too, to who has the token; "" not
  bool for_all = false;      // of the machine; else for its own user alone
  int idle_seconds = 0;      // leaves when it had nothing to do for so long; 0: never
  std::string lock_folder;   // where brokers of this machine meet; "": there is no other
  bool gives_way = false;    // to the broker of all users, while that is there
  Settings settings;
  std::vector<std::uint32_t> admin_gids;  // of settings.admins
  // Of root's broker for all users (docs/access.md).
  std::string groups = "berth";  // the folder of its jobs' control groups; "": it makes none
  std::string enforce_on;        // control group; "": user.slice
  std::function<void(const std::string&)> note = {};  // a sentence for whoever runs it
  inventory::Sources sources;
};

/// Until SIGTERM, SIGINT, or idleness. Calls `ready` when the socket answers. Fails as
/// Journal::open, Server::listen, and Outsiders::begin.
[[nodiscard]] Status run_daemon(const DaemonOptions& options,
                                const std::function<void()>& ready = {});

}  // namespace berth::serve
