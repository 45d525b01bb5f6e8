// UserLoad: counts how much of the broker's memory the unfinished jobs of each user take. All users
// share this memory, so there is a limit for each user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "base/result.hpp"
#include "model/job.hpp"

namespace berth::broker {

class UserLoad {
 public:
  /// Whether `count` more jobs like this one may be added. Fails with kRefused (E0937).
  [[nodiscard]] Status room_for(const model::Job& job, std::size_t count = 1) const;
  void add(const model::Job& job);
  void remove(const model::Job& job);

 private:
  struct Load {
    std::size_t jobs = 0, bytes = 0;  // bytes: size of the jobs' names and arguments
  };
  std::map<std::uint32_t, Load> of_;
};

}  // namespace berth::broker
