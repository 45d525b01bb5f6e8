// Reads the arguments that the parts of `berth plan` share.
#pragma once

#include <string>

#include "base/result.hpp"
#include "cli/verb.hpp"
#include "plan/catalogue.hpp"
#include "plan/memory.hpp"

namespace berth::cli {

/// The model that the user named after `fit` or `gpu`, described with --params, or gave as a file.
/// Fails with kInvalidArgument (E0974), or with the errors of find_model() and model_in_file().
[[nodiscard]] Result<plan::Model> planned_model(const Arguments& arguments);
/// Reads the options for the task, the batch and so on. Fails with kInvalidArgument (E0975, or the
/// errors of parse_integer()).
[[nodiscard]] Result<plan::Work> planned_work(const Arguments& arguments, const plan::Model& model);
/// The precision of the weights: the requested one or, if none was requested, that of most weights
/// in the model file.
[[nodiscard]] std::string precision_of(const plan::Model& model, const plan::Work& work);
/// One line with the assumptions behind the numbers: "assumed: inference, batch 1, 2048 tokens,
/// bf16; …".
[[nodiscard]] std::string assumptions(const plan::Model& model, const plan::Work& work);
/// The GPU or partition of this machine with the most memory. Fails with kNoDevice (E0976).
[[nodiscard]] Result<plan::Gpu> gpu_here(const Context& context, const plan::GpuCommand& command);
/// The GPU that --gpu names: a GPU of the catalogue or, for "here", the result of gpu_here(). Also
/// fails with kNotFound (E1046) if the GPU's memory size is not known.
[[nodiscard]] Result<plan::Gpu> planned_gpu(const Context& context, const std::string& named,
                                            const plan::GpuCommand& command);

/// Reads a number above 0 and at most `most`. The number may be 0 if `may_be_0`. Without the
/// option, returns `usual`. Fails with kInvalidArgument (E0978).
[[nodiscard]] Result<double> amount(const Arguments& arguments, const char* option, double usual,
                                    double most, bool may_be_0 = false,
                                    const char* hint = "berth help plan");

/// Runs `berth plan measure -- COMMAND…`.
Result<int> plan_measure(const Context& context);
/// Runs `berth plan gpu MODEL` or `berth plan cost --gpu NAME`.
Result<int> plan_gpu(const Context& context);
Result<int> plan_cost(const Context& context);

}  // namespace berth::cli
