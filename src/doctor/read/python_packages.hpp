// Reads the folders of sys.path: distributions, conda packages, CUDA libraries.
#pragma once

#include "doctor/facts/python.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

/// Fills all members of `facts` that depend on its path and prefix.
void read_packages(const Tree& tree, const Fact<Environment>& environment, PythonFacts& facts);
void read_openmp(const Tree& tree, PythonFacts& facts);
void read_cuda_files(const Tree& tree, const Fact<Environment>& environment, PythonFacts& facts);

}  // namespace berth::doctor
