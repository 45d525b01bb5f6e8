// The part of the CUDA driver's ABI that the simulated driver and the guard use, written by hand.
// Source: cuda.h of CUDA 13.5. It includes only headers of a freestanding implementation.
#pragma once

#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names, so that its documentation can be
// searched for them.

using CUresult = int;
inline constexpr CUresult CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1,
                          CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NOT_INITIALIZED = 3,
                          CUDA_ERROR_DEINITIALIZED = 4, CUDA_ERROR_NO_DEVICE = 100,
                          CUDA_ERROR_INVALID_DEVICE = 101, CUDA_ERROR_INVALID_IMAGE = 200,
                          CUDA_ERROR_INVALID_CONTEXT = 201,
                          CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217, CUDA_ERROR_INVALID_HANDLE = 400,
                          CUDA_ERROR_ILLEGAL_STATE = 401, CUDA_ERROR_NOT_FOUND = 500,
                          CUDA_ERROR_NOT_READY = 600, CUDA_ERROR_ILLEGAL_ADDRESS = 700,
                          CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
                          CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
                          CUDA_ERROR_CONTEXT_IS_DESTROYED = 709, CUDA_ERROR_NOT_PERMITTED = 800,
                          CUDA_ERROR_NOT_SUPPORTED = 801, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
                          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900, CUDA_ERROR_UNKNOWN = 999;

using CUdevice = int;
using CUdeviceptr = std::uint64_t;
using CUdeviceptr_v1 = std::uint32_t;
struct CUctx_st;
struct CUmod_st;
struct CUlib_st;
struct CUfunc_st;
struct CUkern_st;
struct CUstream_st;
struct CUevent_st;
struct CUarray_st;
struct CUmipmappedArray_st;
struct CUmemPoolHandle_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;
struct CUextMemory_st;
using CUcontext = CUctx_st*;
using CUmodule = CUmod_st*;
using CUlibrary = CUlib_st*;
using CUfunction = CUfunc_st*;
using CUkernel = CUkern_st*;
using CUstream = CUstream_st*;
using CUevent = CUevent_st*;
using CUarray = CUarray_st*;
using CUmipmappedArray = CUmipmappedArray_st*;
using CUmemoryPool = CUmemPoolHandle_st*;
using CUgraph = CUgraph_st*;
using CUgraphNode = CUgraphNode_st*;
using CUgraphExec = CUgraphExec_st*;
using CUexternalMemory = CUextMemory_st*;
using CUmemGenericAllocationHandle = std::uint64_t;

struct CUuuid {
  unsigned char bytes[16];
};

/// cuGetProcAddress: flags and result codes.
inline constexpr std::uint64_t CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2;
enum CUdriverProcAddressQueryResult : int {
  CU_GET_PROC_ADDRESS_SUCCESS = 0,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2
};

enum CUmemLocationType : int { CU_MEM_LOCATION_TYPE_DEVICE = 1, CU_MEM_LOCATION_TYPE_HOST = 2 };
struct CUmemLocation {
  int type;
  int id;
};
static_assert(sizeof(CUmemLocation) == 8);

struct CUmemAllocationProp {
  int type, requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  unsigned char compressionType, gpuDirectRDMACapable;
  unsigned short usage;
  unsigned char reserved[4];
};
static_assert(sizeof(CUmemAllocationProp) == 32);

struct CUmemPoolProps {
  int allocType, handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  std::size_t maxSize;
  unsigned short usage;
  unsigned char gpuDirectRDMACapable;
  unsigned char reserved[53];
};
static_assert(sizeof(CUmemPoolProps) == 88);
/// A pool attribute. Attributes 1 to 3 control how a pool reuses memory; they are not needed here.
inline constexpr int CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4;

struct CUDA_ARRAY_DESCRIPTOR {
  std::size_t Width, Height;
  unsigned Format, NumChannels;
};
static_assert(sizeof(CUDA_ARRAY_DESCRIPTOR) == 24);

struct CUDA_ARRAY3D_DESCRIPTOR {
  std::size_t Width, Height, Depth;
  unsigned Format, NumChannels, Flags;
};
static_assert(sizeof(CUDA_ARRAY3D_DESCRIPTOR) == 40);

/// The array descriptor of CUDA versions before 3.2.
struct CUDA_ARRAY_DESCRIPTOR_v1 {
  unsigned Width, Height, Format, NumChannels;
};
struct CUDA_ARRAY3D_DESCRIPTOR_v1 {
  unsigned Width, Height, Depth, Format, NumChannels, Flags;
};
/// Flags of arrays that get no memory at their creation; memory is mapped later.
inline constexpr unsigned CUDA_ARRAY3D_SPARSE = 0x40, CUDA_ARRAY3D_DEFERRED_MAPPING = 0x80;

inline constexpr unsigned CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2, CU_MEMORYTYPE_ARRAY = 3;
struct CUDA_MEMCPY2D {
  std::size_t srcXInBytes, srcY;
  unsigned srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  std::size_t srcPitch, dstXInBytes, dstY;
  unsigned dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  std::size_t dstPitch, WidthInBytes, Height;
};
static_assert(sizeof(CUDA_MEMCPY2D) == 128);
struct CUDA_MEMCPY2D_v1 {
  unsigned srcXInBytes, srcY, srcMemoryType;
  const void* srcHost;
  CUdeviceptr_v1 srcDevice;
  CUarray srcArray;
  unsigned srcPitch, dstXInBytes, dstY, dstMemoryType;
  void* dstHost;
  CUdeviceptr_v1 dstDevice;
  CUarray dstArray;
  unsigned dstPitch, WidthInBytes, Height;
};
static_assert(sizeof(CUDA_MEMCPY2D_v1) == 96);
/// Also used as CUDA_MEMCPY3D_PEER, in which the reserved pointers are contexts.
struct CUDA_MEMCPY3D {
  std::size_t srcXInBytes, srcY, srcZ, srcLOD;
  unsigned srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  void* reserved0;
  std::size_t srcPitch, srcHeight, dstXInBytes, dstY, dstZ, dstLOD;
  unsigned dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  void* reserved1;
  std::size_t dstPitch, dstHeight, WidthInBytes, Height, Depth;
};
static_assert(sizeof(CUDA_MEMCPY3D) == 200);
using CUDA_MEMCPY3D_PEER = CUDA_MEMCPY3D;
struct CUDA_MEMCPY3D_v1 {
  unsigned srcXInBytes, srcY, srcZ, srcLOD, srcMemoryType;
  const void* srcHost;
  CUdeviceptr_v1 srcDevice;
  CUarray srcArray;
  void* reserved0;
  unsigned srcPitch, srcHeight, dstXInBytes, dstY, dstZ, dstLOD, dstMemoryType;
  void* dstHost;
  CUdeviceptr_v1 dstDevice;
  CUarray dstArray;
  void* reserved1;
  unsigned dstPitch, dstHeight, WidthInBytes, Height, Depth;
};
static_assert(sizeof(CUDA_MEMCPY3D_v1) == 144);

struct CUDA_MEM_ALLOC_NODE_PARAMS {
  CUmemPoolProps poolProps;
  const void* accessDescs;
  std::size_t accessDescCount, bytesize;
  CUdeviceptr dptr;
};
static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == 120);

/// Results of cuGraphNodeGetType: kernels, and nodes that concern memory.
inline constexpr int CU_GRAPH_NODE_TYPE_KERNEL = 0, CU_GRAPH_NODE_TYPE_GRAPH = 4,
                     CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10, CU_GRAPH_NODE_TYPE_MEM_FREE = 11;
/// Parameters of cuGraphAddNode; only the members for memory nodes are declared.
struct CUgraphNodeParams {
  int type, reserved0[3];
  union {
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    CUdeviceptr free;
    long long reserved1[29];
  };
  long long reserved2;
};
static_assert(offsetof(CUgraphNodeParams, alloc) == 16 && sizeof(CUgraphNodeParams) == 256);

inline constexpr unsigned long long CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1,
                                    CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2;
struct CUDA_GRAPH_INSTANTIATE_PARAMS {
  std::uint64_t flags;
  CUstream hUploadStream;
  CUgraphNode hErrNode_out;
  int result_out;
};
static_assert(sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS) == 32);

/// Attributes for cuDeviceGetGraphMemAttribute.
inline constexpr int CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT = 0,
                     CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2;

struct CUipcMemHandle {
  unsigned char reserved[64];
};
struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
  int type;
  union {
    int fd;
    void* handles[2];
  };
  unsigned long long size;
  unsigned flags, reserved[16];
};
static_assert(offsetof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size) == 24 &&
              sizeof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC) == 104);
struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
  unsigned long long offset, size;
  unsigned flags, reserved[16];
};
static_assert(sizeof(CUDA_EXTERNAL_MEMORY_BUFFER_DESC) == 88);

struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  void* attrs;
  unsigned numAttrs;
};
static_assert(sizeof(CUlaunchConfig) == 56);

inline constexpr int CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0;
inline constexpr unsigned CU_MEM_ATTACH_GLOBAL = 1;
enum CUmem_advise : int {
  CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
  CU_MEM_ADVISE_SET_ACCESSED_BY = 5
};
enum CUmem_range_attribute : int {
  CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION = 2,
  CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY = 3
};
inline constexpr CUdevice CU_DEVICE_INVALID = -2;

/// The attributes of cuDeviceGetAttribute that the simulated driver supports.
enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
  CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
  CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
  CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
  CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115
};

// NOLINTEND(readability-identifier-naming)
