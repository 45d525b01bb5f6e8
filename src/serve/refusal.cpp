#include "serve/refusal.hpp"

#include "base/file.hpp"
#include "base/text.hpp"
#include "output/error.hpp"

namespace berth::serve {
namespace {

int status_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kRefused:
    case ErrorCode::kNoDevice:
    case ErrorCode::kUnsupported:
      return 409;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

}  // namespace

Reply refusal(const Error& error) {
  return {status_of(error), output::error_json(error, 0)};
}

Error no_such_place(const Call& call) {
  return {ErrorCode::kNotFound, "E0911",
          text("the API has no {} {}", printable(call.method), printable(call.path)), ""};
}

}  // namespace berth::serve
