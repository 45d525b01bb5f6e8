#include "base/result.hpp"

#include <unistd.h>

#include <cstdio>

namespace berth {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "error: a bug in berth: %s does not hold (%s:%d) (E7001)\n", condition, file,
               line);
  std::fflush(nullptr);
  ::_exit(70);
}

}  // namespace berth
