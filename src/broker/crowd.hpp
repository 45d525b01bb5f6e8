// Crowd: how much each user has the broker keep of jobs that have not ended. All of it is in memory
// that is everybody's, so nobody may have it all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "base/result.hpp"
#include "model/job.hpp"

namespace berth::broker {

class Crowd {
 public:
  /// For so many more like this one. Fails with kRefused (E0937).
  [[nodiscard]] Status room_for(const model::Job& job, std::size_t count = 1) const;
  void add(const model::Job& job);
  void remove(const model::Job& job);

 private:
  struct Load {
    std::size_t jobs = 0, bytes = 0;  // of names and words
  };
  std::map<std::uint32_t, Load> of_;
};

}  // namespace berth::broker
