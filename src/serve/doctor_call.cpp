#include "serve/doctor_call.hpp"

#include "base/text.hpp"
#include "serve/refusal.hpp"
#include "system/child_run.hpp"

namespace berth::serve {

Reply doctor_reply(const std::atomic<bool>& is_over) {
  constexpr std::size_t kMostBytes = 4 << 20;
  const system::ChildResult doctor = system::run_child({.program = "/proc/self/exe",
                                                        .words = {"berth", "doctor", "--json"},
                                                        .longest = std::chrono::seconds(60),
                                                        .most_bytes = kMostBytes},
                                                       is_over);
  const bool is_whole = doctor.problem == 0 && doctor.is_over && doctor.output.starts_with('{') &&
                        doctor.output.size() < kMostBytes;
  if (!is_whole)
    return refusal(
        {ErrorCode::kUnavailable, "E0992", text("doctor gave no answer"), "berth doctor"});
  return {200, doctor.output};
}

}  // namespace berth::serve
