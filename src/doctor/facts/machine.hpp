// What the kernel shows of the machine: its bus, modules, device nodes, log. From files alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

/// One GPU, NVSwitch or other function on the PCI bus.
struct PciFunction {
  std::string address;                                   // "0000:81:00.0"
  std::uint32_t vendor = 0, device = 0, class_code = 0;  // class: 24 bits, 0x030200
  Fact<std::string> driver;                              // absent: none is bound

  [[nodiscard]] bool is_gpu() const {
    // 0300 VGA, 0302 3D, 0380 other display controllers, 1200 accelerators
    const std::uint32_t kind = class_code >> 8;
    return kind == 0x0300 || kind == 0x0302 || kind == 0x0380 || kind == 0x1200;
  }
};

struct MachineFacts {
  Fact<std::string> kernel;  // "6.8.0-45-generic"
  Fact<std::vector<PciFunction>> pci;
  Fact<std::vector<std::string>> modules;  // loaded ones, as in /proc/modules
};

[[nodiscard]] MachineFacts collect_machine(const Tree& tree);

}  // namespace berth::doctor
