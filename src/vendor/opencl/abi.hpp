// The part of OpenCL's ABI that Berth uses. Values and layouts come from the Khronos headers
// (OpenCL-Headers, CL/cl.h and CL/cl_ext.h, Apache-2.0).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace berth::opencl {

using Platform = struct OpaquePlatform*;
using DeviceId = struct OpaqueDevice*;
using Context = struct OpaqueContext*;
using Queue = struct OpaqueQueue*;
using Program = struct OpaqueProgram*;
using Kernel = struct OpaqueKernel*;
using Buffer = struct OpaqueBuffer*;
using Event = struct OpaqueEvent*;

constexpr std::int32_t kSuccess = 0;
constexpr std::uint64_t kDeviceTypeAll = 0xFFFFFFFF;
constexpr std::uint64_t kDeviceTypeCpu = 1U << 1;

constexpr std::uint32_t kPlatformName = 0x0902;
constexpr std::uint32_t kDeviceType = 0x1000;
constexpr std::uint32_t kDeviceMaxComputeUnits = 0x1002;
constexpr std::uint32_t kDeviceMaxMemAllocSize = 0x1010;
constexpr std::uint32_t kDeviceExtensions = 0x1030;
constexpr std::uint32_t kDeviceMaxClockFrequency = 0x100C;  // MHz
constexpr std::uint32_t kDeviceGlobalMemSize = 0x101F;
constexpr std::uint32_t kDeviceAvailable = 0x1027;
constexpr std::uint32_t kDeviceName = 0x102B;
constexpr std::uint32_t kDeviceVendor = 0x102C;
constexpr std::uint32_t kDriverVersion = 0x102D;
constexpr std::uint32_t kDeviceHostUnifiedMemory = 0x1035;
constexpr std::uint32_t kDevicePciBusInfoKhr = 0x410F;  // cl_khr_pci_bus_info; returns PciBusInfo
/// The numbers of the PCI address, in NVIDIA's extension cl_nv_device_attribute_query.
constexpr std::uint32_t kDevicePciBusIdNv = 0x4008;
constexpr std::uint32_t kDevicePciSlotIdNv = 0x4009;
constexpr std::uint32_t kDevicePciDomainIdNv = 0x400A;
constexpr std::uint32_t kDeviceTopologyAmd = 0x4037;  // AMD's extension; returns TopologyAmd

constexpr std::uint64_t kQueueProfilingEnable = 1U << 1;
constexpr std::uint64_t kMemReadWrite = 1U << 0;
constexpr std::uint64_t kMemAllocHostPtr = 1U << 4;
constexpr std::uint64_t kMapReadWrite = 1U << 0 | 1U << 1;
constexpr std::uint32_t kProfilingStart = 0x1282;  // the time is in nanoseconds
constexpr std::uint32_t kProfilingEnd = 0x1283;
constexpr std::int32_t kMemObjectAllocationFailure = -4;
constexpr std::int32_t kOutOfResources = -5;
constexpr std::int32_t kOutOfHostMemory = -6;

struct PciBusInfo {
  std::uint32_t domain, bus, device, function;
};
static_assert(sizeof(PciBusInfo) == 16);

struct TopologyAmd {
  std::uint32_t type;  // 1: PCIe
  std::array<std::uint8_t, 17> unused;
  std::uint8_t bus, device, function;
};
static_assert(sizeof(TopologyAmd) == 24);
static_assert(offsetof(TopologyAmd, bus) == 21);

}  // namespace berth::opencl
