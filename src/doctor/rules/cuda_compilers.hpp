// Packages that compile for the GPU at run time with an installed CUDA compiler: parts of FW02,
// FW03, FW04, ENV11 and LIB10.
#pragma once

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// FW02: compilers that generate PTX of a newer CUDA version than the driver accepts. Minor-version
/// compatibility does not extend to PTX.
void ptx_newer_than_driver(Examination& look);
/// FW03 and FW04: a compiler that does not support the GPU. `newer` selects GPUs that are too new
/// for the compiler; if false, GPUs that are too old.
void compiler_without_gpu(Examination& look, bool newer);
/// ENV11: an old ptxas in PATH that JAX uses instead of the one in its wheels.
void older_ptxas_first(Examination& look);
/// LIB10: a TensorFlow that needs ptxas for training, on a machine without ptxas.
void no_ptxas(Examination& look);

}  // namespace berth::doctor
