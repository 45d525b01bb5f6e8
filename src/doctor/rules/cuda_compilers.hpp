// Programs that compile for the GPU at run time with an installed CUDA compiler: parts of FW02,
// FW03, FW04, ENV11 and LIB10.
#pragma once

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// FW02: compilers whose PTX is newer than the driver. Minor-version compatibility does not include
/// PTX.
void ptx_newer_than_driver(Examination& look);
/// FW03 and FW04: a compiler that does not yet support the GPU, or no longer supports it.
void compiler_without_gpu(Examination& look, bool newer);
/// ENV11: an old ptxas in PATH that JAX uses instead of the one in its wheels.
void older_ptxas_first(Examination& look);
/// LIB10: a TensorFlow that needs ptxas for training, and no ptxas is installed.
void no_ptxas(Examination& look);

}  // namespace berth::doctor
