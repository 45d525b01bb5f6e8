#include "model/pci.hpp"

#include <array>

namespace berth::model {

std::optional<int> pcie_generation(double gts) {
  constexpr std::array<double, 6> kSpeeds = {2.5, 5, 8, 16, 32, 64};
  for (std::size_t i = 0; i < kSpeeds.size(); ++i)
    if (gts > kSpeeds[i] - 0.01 && gts < kSpeeds[i] + 0.01) return static_cast<int>(i) + 1;
  return std::nullopt;
}

}  // namespace berth::model
