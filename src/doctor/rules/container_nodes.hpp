// Part of rule CTR04: a Kubernetes node, whose container engine has to know NVIDIA's runtime.
#pragma once

#include "doctor/rule.hpp"

namespace berth::doctor {

/// Whether what starts the node's pods reads of NVIDIA's runtime, and who gets it.
void runtimes_of_node(Examination& look);

}  // namespace berth::doctor
