// Knowledge: facts that hold for all machines, from the tables in data/, where each row names its
// source. A new release needs a new row, not new code.
#pragma once

#include <span>

#include "doctor/knowledge/compatibility.hpp"

namespace berth::doctor {

/// A fault that NVIDIA's driver reports by number (data/xid.toml). All texts are msgids, which are
/// translated when shown.
struct Xid {
  int code;
  const char* what;   // what happened, for the user: "GPU fell off the bus"
  const char* cause;  // probable cause: "PCIe contact lost: power, heat, …"
  // the kind of fault: "app", "hardware", "memory", "link", "driver", "secondary", …
  const char* kind;
  const char* severity;  // "fatal", "error", "warning", "info", "unknown"
  const char* action;    // what to do: "reboot or power-cycle the bare-metal host"; "" if unknown
};
/// Returns all known Xids, sorted by code.
[[nodiscard]] std::span<const Xid> known_xids();

struct Knowledge {
  std::span<const Xid> xids = known_xids();
  /// if not set (nullptr), the tables that are compiled into the program are used
  const Compatibility* other_compatibility = nullptr;

  [[nodiscard]] const Compatibility& compatibility() const {
    return other_compatibility == nullptr ? shipped_compatibility() : *other_compatibility;
  }
};

}  // namespace berth::doctor
