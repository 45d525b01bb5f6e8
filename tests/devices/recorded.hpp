// A recorded machine of tests/data/machines as roots to read.
#pragma once

#include <string>

#include "base/file.hpp"

namespace berth {

inline Roots recorded(const std::string& machine) {
  const std::string folder = std::string(BERTH_TEST_DATA) + "/machines/" + machine;
  return {folder + "/proc", folder + "/sys", folder + "/dev", folder + "/etc", ""};
}

}  // namespace berth
