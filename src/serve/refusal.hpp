// Error answers of the API: the error as every command prints it, with the matching HTTP status.
#pragma once

#include "base/result.hpp"
#include "model/job.hpp"
#include "serve/server.hpp"

namespace berth::serve {

[[nodiscard]] Reply refusal(const Error& error);
[[nodiscard]] Error no_such_place(const Call& call);  // E0911
/// E1089: the broker with this pid already serves the folder, and it does not exit when idle.
[[nodiscard]] Error another_serves(const std::string& state_folder, pid_t pid);
[[nodiscard]] Reply no_call();                                 // E0919
[[nodiscard]] Reply header_too_large(std::size_t most_bytes);  // HTTP status 431, E0919
[[nodiscard]] Reply body_too_large(std::size_t most_bytes);    // HTTP status 413, E0919
[[nodiscard]] Reply too_much_at_once(std::size_t most_bytes);  // E0928

}  // namespace berth::serve
