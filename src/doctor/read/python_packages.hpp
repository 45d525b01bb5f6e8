// What lies in the folders of a sys.path: distributions, conda's packages, CUDA's libraries.
#pragma once

#include "doctor/facts/python.hpp"

namespace berth::doctor {

/// Fills everything of `facts` that follows from its path and prefix.
void read_packages(const Tree& tree, const Fact<Environment>& environment, PythonFacts& facts);
void read_openmp(const Tree& tree, PythonFacts& facts);
void read_cuda_files(const Tree& tree, const Fact<Environment>& environment, PythonFacts& facts);

}  // namespace berth::doctor
