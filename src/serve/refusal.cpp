#include "serve/refusal.hpp"

#include "base/exit_code.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
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
  return {status_of(error), output::error_json(error, exit_code_of(error))};
}

Error no_such_place(const Call& call) {
  return {ErrorCode::kNotFound, "E0911",
          text("the API has no endpoint {} {}", printable(call.method), printable(call.path)), ""};
}

Error another_serves(const std::string& state_folder, pid_t pid) {
  return {ErrorCode::kUnavailable, "E1089",
          text("another broker serves {} already: process {}", printable(state_folder), pid),
          text("kill {}    then start this broker again; running jobs continue", pid)};
}

Reply no_call() {
  return refusal({ErrorCode::kInvalidArgument, "E0919", text("this is not an HTTP request"), ""});
}

Reply header_too_large(std::size_t most) {
  return {431, refusal({ErrorCode::kInvalidArgument, "E0919",
                        text("the header of a call may have at most {}", show_bytes(most)), ""})
                   .body};
}

Reply body_too_large(std::size_t most) {
  return {
      413,
      refusal(
          {ErrorCode::kInvalidArgument, "E0919",
           text(
               "the body of a call (for example a job's command and variables) may have at most {}",
               show_bytes(most)),
           "env | wc -c"})
          .body};
}

Reply too_much_at_once(std::size_t most) {
  return refusal({ErrorCode::kUnavailable, "E0928",
                  text("your pending requests and answers use more than {} of memory: try again "
                       "when some have been answered",
                       show_bytes(most)),
                  ""});
}

}  // namespace berth::serve
