// The roots of a machine in tests/data/machines, which CMake unpacks.
#pragma once

#include <string>
#include <test_paths.hpp>

#include "base/file.hpp"

namespace berth {

inline Roots recorded(const std::string& machine) {
  const std::string folder = std::string(BERTH_TEST_MACHINES) + "/" + machine;
  return {folder + "/proc", folder + "/sys", folder + "/dev", folder + "/etc", ""};
}

}  // namespace berth
