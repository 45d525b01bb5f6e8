#include "run/own_name.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.hpp"

namespace berth::run {

void set_process_name(const std::string& name) {
  ::prctl(PR_SET_NAME, name.c_str());
  // The kernel shows the memory in which argv was stored; glibc has a pointer to its beginning.
  char* begin = ::program_invocation_name;
  static std::size_t room = 0;  // the size is the same in all children, so it is computed once
  if (room == 0) {
    constexpr std::size_t kMost = 4 << 20;
    const auto words = slurp("/proc/self/cmdline", kMost);
    if (!words || words->empty() || words->back() != '\0' || words->size() >= kMost) return;
    if (std::memcmp(begin, words->data(), words->size()) != 0) return;
    room = words->size();
  }
  std::memset(begin, 0, room);
  std::memcpy(begin, name.data(), std::min(name.size(), room - 1));
}

}  // namespace berth::run
