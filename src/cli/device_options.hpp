// Options that several verbs share: they select devices, or limit the output to what one user uses.
#pragma once

#include <array>

#include "cli/verb.hpp"

namespace berth::cli {

inline constexpr Option kDevice{
    "-d,--device", "LIST",
    "only these devices: index (0, MIG 0:1), uuid or PCI address, comma separated", true};
inline constexpr Option kUser{"-u,--user", "NAME", "show only what this user (name or uid) uses"};
inline constexpr Option kMine{"-m,--mine", nullptr, "show only what you use"};
inline constexpr Option kWide{"-w,--wide", nullptr, "all columns, however wide the terminal is"};
inline constexpr Option kOpenCl{"--opencl", nullptr,
                                "include OpenCL devices (default: only if no GPU is found)"};
inline constexpr Option kNoOpenCl{"--no-opencl", nullptr, "leave out OpenCL devices"};

}  // namespace berth::cli
