#include "serve/doctor_call.hpp"

#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "serve/refusal.hpp"
#include "system/child_run.hpp"

namespace berth::serve {

Reply doctor_reply(const std::string& language, const std::atomic<bool>& is_over) {
  constexpr std::size_t kMostBytes = 4 << 20;
  std::vector<std::string> words{"berth", "doctor", "--json"};
  if (!language.empty()) words.insert(words.end(), {"--lang", language});
  const system::ChildResult doctor = system::run_child({.program = "/proc/self/exe",
                                                        .words = std::move(words),
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
