// Packages of which some releases do not go together (data/compat.toml, pairs).
#pragma once

#include <string>

namespace berth::doctor {

/// Two packages of which some releases do not go together: `bad` ones of the other, or all but the
/// `good` ones; neither: what the first requires in its metadata, and refuses to do without.
/// `what` is a msgid; `use`: what to install, "" follows from the rows.
struct PackagePair {
  std::string package, versions, with, bad, good, what, use, source;
};

}  // namespace berth::doctor
