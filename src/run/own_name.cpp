#include "run/own_name.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.hpp"

namespace berth::run {

void call_oneself(const std::string& name) {
  ::prctl(PR_SET_NAME, name.c_str());
  // The kernel shows the memory that argv was put into, and glibc knows where that begins.
  constexpr std::size_t kMost = 4 << 20;
  const auto words = slurp("/proc/self/cmdline", kMost);
  char* begin = ::program_invocation_name;
  if (!words || words->empty() || words->back() != '\0' || words->size() >= kMost) return;
  if (std::memcmp(begin, words->data(), words->size()) != 0) return;
  std::memset(begin, 0, words->size());
  std::memcpy(begin, name.data(), std::min(name.size(), words->size() - 1));
}

}  // namespace berth::run
