// The daemon: one event loop that owns the broker's state, its journal, its socket and the handles
// of job processes. Every change is in the journal before anyone learns of it. If a write fails,
// the state goes back to what the journal contains.
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
  std::string socket;        // path
  std::string link;          // a link to the socket; "": no link
  std::string state_folder;  // folder of the journal
  /// Also serves callers with the token at this TCP address, such as "127.0.0.1:8642"; "": no TCP.
  std::string tcp;
  bool for_all = false;  // serves all users of the machine; otherwise only this user
  int idle_seconds = 0;  // exits after being idle this long; 0: never
  std::string
      lock_folder;  // folder of the locks with which brokers reserve devices; "": no other brokers
  bool gives_way = false;  // starts no job while the system broker is running
  Settings settings;
  std::vector<std::uint32_t> admin_gids;  // group ids of settings.admins
  // The following members are for the system broker (docs/access.md).
  std::string groups = "berth";  // folder of the jobs' control groups; "": none
  std::string enforce_on;        // control group to keep away from the GPUs; "": user.slice
  std::function<void(const std::string&)> note = {};  // reports a sentence to the administrator
  inventory::Sources sources;
  std::string version;   // Berth's version, for metrics
  bool watches = false;  // true: always sample the machine; false: only after a client requests it
};

/// Runs until SIGTERM, SIGINT, or the idle limit. Calls `ready` when the socket answers. Fails with
/// the errors of Journal::open(), Server::listen() and ForeignProcesses::begin().
[[nodiscard]] Status run_daemon(const DaemonOptions& options,
                                const std::function<void()>& ready = {});

}  // namespace berth::serve
