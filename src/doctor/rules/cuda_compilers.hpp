// Programs that compile for the GPU while they run, with a compiler of CUDA that lies beside them:
// parts of FW02, FW03, FW04, ENV11 and LIB10.
#pragma once

#include "doctor/rule.hpp"

namespace berth::doctor {

/// FW02: PTX that is newer than the driver, which minor-version compatibility does not cover.
void ptx_newer_than_driver(Examination& look);
/// FW03 and FW04: a compiler that does not know the GPU yet, or no longer.
void compiler_without_gpu(Examination& look, bool newer);
/// ENV11: an older ptxas in PATH, which JAX takes before that of its wheels.
void older_ptxas_first(Examination& look);
/// LIB10: a TensorFlow whose training needs ptxas, and there is none.
void no_ptxas(Examination& look);

}  // namespace berth::doctor
