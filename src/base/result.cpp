#include "base/result.hpp"

#include <unistd.h>

#include <cstdio>

namespace berth {

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kNoDevice:
      return "no_device";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kPermissionDenied:
      return "permission_denied";
    case ErrorCode::kRefused:
      return "refused";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

std::optional<ErrorCode> error_code(std::string_view name) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code)
    if (berth::name(static_cast<ErrorCode>(code)) == name) return static_cast<ErrorCode>(code);
  return std::nullopt;
}

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "error: a bug in berth: %s does not hold (%s:%d) (E7001)\n", condition, file,
               line);
  std::fflush(nullptr);
  ::_exit(70);
}

}  // namespace berth
