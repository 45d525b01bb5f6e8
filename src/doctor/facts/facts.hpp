// Facts: everything that the doctor knows about a machine and a target (the program to diagnose).
// They are collected once and then stay constant. Paths are those that the target sees, even if the
// files were read from another tree.
#pragma once

#include "doctor/facts/container.hpp"
#include "doctor/facts/driver_answers.hpp"
#include "doctor/facts/driver_files.hpp"
#include "doctor/facts/gpu_nodes.hpp"
#include "doctor/facts/imports.hpp"
#include "doctor/facts/libraries.hpp"
#include "doctor/facts/machine.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/facts/package_builds.hpp"
#include "doctor/facts/package_index.hpp"
#include "doctor/facts/platform.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/facts/python.hpp"
#include "doctor/facts/python_parts.hpp"
#include "doctor/facts/rdma.hpp"
#include "doctor/facts/toolchain.hpp"

namespace berth::doctor {

struct Facts {
  MachineFacts machine;
  NvidiaFacts nvidia;
  DriverAnswers driver;
  ProcessFacts process;
  GpuNodes nodes;
  DriverFiles files;
  ContainerFacts container;
  PlatformFacts platform;
  RocmFacts rocm;
  WslFacts wsl;
  RdmaFacts rdma;
  LibraryFacts libraries;
  PythonFacts python;
  PythonParts parts;
  PackageSources packages;
  Fact<std::vector<PackageBuild>> builds;
  ImportFacts imports;
  ToolchainFacts toolchain;
  Fact<std::vector<std::string>> gpu_models;
};

}  // namespace berth::doctor
