// The roots of a recorded machine in tests/data/machines.
#pragma once

#include <string>
#include <test_paths.hpp>

#include "base/file.hpp"

namespace berth {

inline Roots recorded(const std::string& machine) {
  const std::string folder = std::string(BERTH_TEST_DATA) + "/machines/" + machine;
  return {folder + "/proc", folder + "/sys", folder + "/dev", folder + "/etc", ""};
}

}  // namespace berth
