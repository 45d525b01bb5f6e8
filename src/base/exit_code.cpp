#include "base/exit_code.hpp"

namespace berth {

ExitCode exit_code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return kUsage;
    case ErrorCode::kNotFound:
      return kNothing;
    case ErrorCode::kNoDevice:
      return kNoDevice;
    case ErrorCode::kUnsupported:
      return kNothing;
    case ErrorCode::kUnavailable:
      return kUnreachable;
    case ErrorCode::kPermissionDenied:
      return kPermission;
    case ErrorCode::kRefused:
      return kRefused;
    case ErrorCode::kInternal:
      return kBug;
  }
  return kBug;
}

}  // namespace berth
