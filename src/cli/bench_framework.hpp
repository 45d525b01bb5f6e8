// `berth bench train` and `berth bench infer`.
#pragma once

#include "base/result.hpp"
#include "cli/verb.hpp"

namespace berth::cli {

/// Measures a model in the user's PyTorch. Returns exit code 1 if a precision failed or none ran.
/// Fails with kInvalidArgument (E1048: unknown precision), kNotFound (E1049: no PyTorch), or the
/// errors of `berth run`.
[[nodiscard]] Result<int> bench_framework(const Context& context);

}  // namespace berth::cli
