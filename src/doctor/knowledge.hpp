// Knowledge: what is true of the world rather than of one machine; read from data/ (each row with
// its source), so that a new release needs a row and no code.
#pragma once

#include <span>

#include "doctor/compatibility.hpp"

namespace berth::doctor {

/// A kind of fault that NVIDIA's driver reports by number (data/xid.toml). All texts are msgids.
struct Xid {
  int code;
  const char* what;      // "GPU fell off the bus"
  const char* cause;     // "PCIe contact lost: power, heat, …"
  const char* kind;      // "app", "hardware", "memory", "link", "driver", "secondary", …
  const char* severity;  // "fatal", "error", "warning", "info", "unknown"
  const char* action;    // "reboot or power-cycle the bare-metal host"; "": nobody says
};
/// By code.
[[nodiscard]] std::span<const Xid> known_xids();

struct Knowledge {
  std::span<const Xid> xids = known_xids();
  /// nullptr: the one that is part of the program.
  const Compatibility* other_compatibility = nullptr;

  [[nodiscard]] const Compatibility& compatibility() const {
    return other_compatibility == nullptr ? shipped_compatibility() : *other_compatibility;
  }
};

}  // namespace berth::doctor
