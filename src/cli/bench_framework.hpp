// `berth bench train` and `berth bench infer`.
#pragma once

#include "base/result.hpp"
#include "cli/verb.hpp"

namespace berth::cli {

/// Measures a model in a Python's own framework. Exit code 1: a precision failed, or none ran.
/// Fails with kInvalidArgument (E1048: no such precision) or kNotFound (E1049: no PyTorch), and as
/// `berth run` does.
[[nodiscard]] Result<int> bench_framework(const Context& context);

}  // namespace berth::cli
