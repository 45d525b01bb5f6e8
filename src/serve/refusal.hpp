// How the API says no: the error as every verb prints it, under the status that HTTP has for it.
#pragma once

#include "base/result.hpp"
#include "model/job.hpp"
#include "serve/server.hpp"

namespace berth::serve {

[[nodiscard]] Reply refusal(const Error& error);
[[nodiscard]] Error no_such_place(const Call& call);  // E0911

}  // namespace berth::serve
