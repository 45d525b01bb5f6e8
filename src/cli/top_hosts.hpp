// `berth top --host a,b`: the live view, or the stream of JSON, of several machines.
#pragma once

#include "cli/verb.hpp"
#include "top/keys.hpp"

namespace berth::cli {

/// Shows the machines until the user ends the view. Keys change the settings. Fails with
/// kInvalidArgument (E0965: not the name of a machine) or kUnsupported (E0983: no terminal).
[[nodiscard]] Result<int> watch_hosts(const Context& context, top::Settings& settings);

}  // namespace berth::cli
