#include "doctor/rules/unread_words.hpp"

#include <algorithm>
#include <array>

#include "base/error_words.hpp"
#include "base/text.hpp"
#include "doctor/facts/driver_answers.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {
namespace {

struct Words {
  std::string_view key;  // name of a fact, or the call that failed
  const char* says;      // msgid
};
#define BERTH_WORDS(type, key, words) {#key, words},
constexpr auto kWords = std::to_array<Words>({
    {"sched_getaffinity", msgid("on which cores the process may run")},
    {"environment", msgid("the process's variables")},
    {"gcc", msgid("which compiler is installed")},
    {"gpus", msgid("the driver's list of GPUs")},
    {"kernel.log", msgid("the kernel's log")},
    {"nvcc", msgid("which nvcc is installed")},
    {"ptxas", msgid("which ptxas is installed")},
    {"Python.h", msgid("Python's headers")},
    {"ninja", msgid("whether ninja is installed")},
    {"rooms", msgid("how much disk space is left")},
    {"getrlimit", msgid("the process's limits")},
    {"limits", msgid("the process's limits")},
    {"getgroups", msgid("the process's user")},
    {"status", msgid("the process's user")},
    {"uid", msgid("the process's user")},
    // clang-format off
    BERTH_GPU_FACTS(BERTH_WORDS)
    BERTH_DRIVER_FACTS(BERTH_WORDS)
    BERTH_PROCESS_FACTS(BERTH_WORDS)
    // clang-format on
});
#undef BERTH_WORDS

}  // namespace

std::string said_of(const Unreadable& why) {
  // On a simulated machine, only the PCI bus and the driver exist. All other facts have ENODATA.
  if (why.error_number == ENODATA) return text("not available on a simulated machine");
  // Every Linux has files in /sys and /proc, so an empty folder is not mounted.
  if (is_unmounted(why)) return text("{} is empty or not mounted here", why.where);
  const auto row = std::find_if(kWords.begin(), kWords.end(),
                                [&](const Words& one) { return one.key == why.where; });
  const std::string where = row == kWords.end() ? why.where : std::string(tr(row->says));
  if (why.error_number == 0) return where;
  return fmt::format("{}: {}", where, error_words(why.error_number));
}

}  // namespace berth::doctor
