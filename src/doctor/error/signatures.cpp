// Messages of drivers, containers, libraries and frameworks, as people paste them. The wording
// comes from public reports (the sources of the rules) and from the programs. The meanings are
// limited to what those reports found.
#include <array>

#include "base/text.hpp"
#include "doctor/error/error_text.hpp"

namespace berth::doctor {
namespace {

constexpr const char* kMismatch =
    msgid("the driver's library and its kernel module in use are of different versions");
constexpr const char* kNoModule = msgid("no kernel module of NVIDIA's answered");
constexpr const char* kNoDevice = msgid("the driver works, but shows this program no GPU");
constexpr const char* kNotStarted =
    msgid("the driver is running, but could not initialize the GPU");
constexpr const char* kOffTheBus = msgid("the GPU does not answer on its bus any more");
constexpr const char* kXid = msgid("the driver reports a fault of the GPU; the number says which");
constexpr const char* kNoWindow =
    msgid("the firmware or hypervisor assigned no address space to the GPU's memory");
constexpr const char* kFabric = msgid("a service that the GPU needs has not initialized it yet");
constexpr const char* kUnknown =
    msgid("CUDA could not start and does not know why; the message has several causes");
constexpr const char* kTooOld = msgid("the driver is too old for the program's CUDA");
constexpr const char* kCompat = msgid(
    "CUDA's compat library is used on a GPU that does not support it, or with an incompatible "
    "driver");
constexpr const char* kOrdinal =
    msgid("the program requests a GPU index that does not exist for it");
constexpr const char* kBusy = msgid("the GPU accepts no further process");
constexpr const char* kMps = msgid("MPS is requested, but its daemon cannot be reached");
constexpr const char* kEcc = msgid("the GPU's memory returned data that ECC could not correct");
constexpr const char* kFilter =
    msgid("NVML has no permission to use the GPU; in a container the device filter has lost it");
constexpr const char* kPermission = msgid("this user or container may not open the GPU's nodes");
constexpr const char* kWsl = msgid("inside WSL the driver of Windows did not answer");
constexpr const char* kEngine = msgid("the container engine cannot pass a GPU to containers");
constexpr const char* kLegacyHook = msgid(
    "the container toolkit's legacy hook failed in ldconfig; its CDI mode does not need it: sudo "
    "nvidia-ctk config --set nvidia-container-runtime.mode=cdi --in-place");
constexpr const char* kImage = msgid("the image needs a newer driver than the machine has");
constexpr const char* kCdi =
    msgid("the container engine's device description (CDI) is missing or outdated");
constexpr const char* kPod = msgid("the container was not given its GPU by the cluster");
constexpr const char* kNoCuda = msgid("the driver's library is not where this program searches");
constexpr const char* kStub =
    msgid("a stub library, which is only for linking, is loaded instead of the driver's");
constexpr const char* kSymbol = msgid("two CUDA libraries of different versions were loaded");
constexpr const char* kCudnn =
    msgid("cuDNN is incomplete, or its libraries have different versions");
constexpr const char* kMissing = msgid("a CUDA library is not where this program searches");
constexpr const char* kOldLibrary = msgid("a CUDA library is too old for the framework");
constexpr const char* kAbi = msgid("an extension was built for another PyTorch");
constexpr const char* kReleases = msgid("package releases that are incompatible");
constexpr const char* kParts =
    msgid("a package lacks its compiled parts, or another package with its name is installed");
constexpr const char* kHome = msgid("the cache folder is not writable for this user");
constexpr const char* kVideo = msgid("the container lacks the driver's video libraries");
constexpr const char* kPair = msgid("torchvision or torchaudio belongs to another PyTorch");
constexpr const char* kLibdevice = msgid("XLA does not find the toolkit's libdevice");
constexpr const char* kLibc = msgid("the system's C or C++ library is older than a wheel needs");
constexpr const char* kPtxas = msgid("an assembler (ptxas) that is older than the GPU");
constexpr const char* kLinker = msgid("a compiler does not find the driver's library for linking");
constexpr const char* kCpuTorch = msgid("this PyTorch was built without CUDA");
constexpr const char* kNoKernels = msgid("the framework has no code for this GPU");
constexpr const char* kTensorflow = msgid("TensorFlow does not find all of CUDA's libraries");
constexpr const char* kJax = msgid("JAX has no CUDA plugin, or one that does not fit");
constexpr const char* kBitsandbytes = msgid("bitsandbytes has no binary for this CUDA");
constexpr const char* kOrt = msgid("ONNX Runtime could not load its CUDA provider");
constexpr const char* kToolkit =
    msgid("the toolkit on this machine is not the one PyTorch was built with");
constexpr const char* kPtx = msgid("the code is from a newer CUDA than the driver can compile");
constexpr const char* kCompiler = msgid("a compiler or header for builds is missing");
constexpr const char* kMemory = msgid("the GPU's memory ran out");
constexpr const char* kOpenMp = msgid("two OpenMP runtimes conflict");
constexpr const char* kHostMemory = msgid("the machine's memory ran out, not the GPU's");
constexpr const char* kMacMemory = msgid("the memory that a Mac lets its GPU use ran out");
constexpr const char* kNoTorch = msgid("the Python that ran has no PyTorch");
constexpr const char* kPort =
    msgid("the port is in use, by an earlier run that did not end or by another user");
constexpr const char* kPeers = msgid(
    "a process could not reach another one over the network: check host name, interface and "
    "firewall");
constexpr const char* kRemoved = msgid("tensorflow-gpu was removed; installing it fails");
constexpr const char* kShm = msgid("shared memory (/dev/shm) is too small or full");
constexpr const char* kLimits = msgid("a limit for files, processes or threads was reached");
constexpr const char* kNccl = msgid("the GPUs or processes could not communicate");
constexpr const char* kInterface = msgid("a configured network interface does not exist");
constexpr const char* kPinned =
    msgid("the limit for locked memory is too low for the network card");
constexpr const char* kIllegal =
    msgid("a kernel failed: usually a bug in the program, before the line in the message");
constexpr const char* kFork = msgid("a process forked after it had used CUDA");
constexpr const char* kSetDevice = msgid("a call that needs a GPU got a CPU device");
constexpr const char* kKfd =
    msgid("ROCm has no permission for its device nodes, or its module is not loaded");
constexpr const char* kGfx = msgid("ROCm has no code for this GPU");
constexpr const char* kXpu = msgid("PyTorch sees no Intel GPU, or was built without them");
constexpr const char* kVisible = msgid("a program reads CUDA_VISIBLE_DEVICES as numbers");
constexpr const char* kCublas = msgid(
    "cuBLAS could not start: usually it has too little memory, or its libraries have different "
    "versions");
constexpr const char* kNoFreeGpu =
    msgid("no node of the cluster has such a GPU free, or no node reports one");
constexpr const char* kScheduler =
    msgid("the scheduler knows no such GPUs: sinfo -o '%N %G' lists its GPUs and their names");
constexpr const char* kNvvm = msgid("Numba does not find CUDA's compiler (NVVM)");
constexpr const char* kVllm = msgid("vLLM found no GPU, and this is not a CPU build");
constexpr const char* kOlderThanFormat = msgid(
    "the GPU is too old for the number format or the kernel: use another --dtype or another GPU");
constexpr const char* kNoHip = msgid("ROCm is installed, but shows this program no GPU");
constexpr const char* kNoExec =
    msgid("a library is on a noexec file system, or the process cannot map more memory");
constexpr const char* kOldNvcc = msgid("nvcc is too old to compile for the GPU");
constexpr const char* kCounters = msgid(
    "only administrators may read the GPU's counters: options nvidia "
    "NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, or --cap-add SYS_ADMIN");
constexpr const char* kUnfinished = msgid("a package installation was interrupted");
constexpr const char* kSlurmFile = msgid("Slurm is configured for a GPU that is not on this node");
constexpr const char* kRejected = msgid("Secure Boot rejects the module");
constexpr const char* kOtherKernel =
    msgid("the module is not installed or not built for this kernel");
constexpr const char* kWantsGpu = msgid("a program needs a GPU, but PyTorch sees none");
constexpr const char* kNoSuchNode =
    msgid("a device that the container requests does not exist on the machine");

constexpr const char* kModuleRules = "DRV01 DRV02 DRV03 DRV04 DRV08 HW02 HW03 CTR18";
constexpr const char* kNoDeviceRules =
    "ENV01 ENV02 ENV03 ENV04 DRV19 DRV09 DRV12 CTR01 CTR02 CTR06 CTR17 HW08";
constexpr const char* kMissingRules = "LIB04 FW08 FW11 FW15 LIB03 LIB06 LIB07 ENV08";
constexpr const char* kOomRules = "RT02 RT01 ENV17";
constexpr const char* kNoGpuRules =
    "FW01 FW13 FW14 DRV01 DRV02 DRV04 DRV05 LIB01 ENV01 ENV02 CTR01 CTR07 FW02 WSL01 WSL02";
constexpr const char* kNoHipRules = "AMD01 AMD02 AMD06 WSL05 ENV01 ENV02 ENV06 CTR19 HW02 FW07";
constexpr const char* kUnknownRules = "DRV13 DRV11 DRV14 DRV12 CTR02";

// Rows that state their cause come first. Rows are matched in this order; it does not rank their
// importance.
constexpr auto kRows = std::to_array<Signature>({
    {"driver-mismatch", "driver/library version mismatch", 2, "DRV05 DRV18", kMismatch},
    {"driver-mismatch", "api mismatch: the client has", 2, "DRV05 DRV18", kMismatch},
    {"no-kernel-module", "couldn't communicate with the nvidia driver", 2, kModuleRules, kNoModule},
    {"no-kernel-module", "nvml: driver not loaded", 2, kModuleRules, kNoModule},
    {"no-kernel-module", "nvml error: driver not loaded", 2,
     "DRV01 DRV02 DRV03 DRV04 DRV08 HW02 HW03 CTR18 CTR17", kNoModule},
    {"gpu-not-started", "no devices were found", 2, "DRV09 DRV06 DRV07 DRV08 HW04 HW08",
     kNotStarted},
    {"gpu-not-started", "nvidia-smi*no devices found", 2, "DRV09 DRV06 DRV07 DRV08 HW04 HW08",
     kNotStarted},
    {"gpu-not-started", "rminitadapter failed", 2, "DRV09 HW04", kNotStarted},
    {"gpu-not-started", "no nvidia gpu found", 2, "DRV08 DRV09 HW01", kNotStarted},
    {"open-module", "does not include the required gpu system processor", 2, "DRV06", kNotStarted},
    {"open-module", "requires use of the nvidia open kernel modules", 2, "DRV07", kNotStarted},
    {"legacy-driver", "supported through the nvidia*legacy drivers", 2, "DRV08", kNotStarted},
    {"no-window", "bar1 is 0m", 2, "HW04", kNoWindow},
    {"no-window", "bar2 is 0m", 2, "HW04", kNoWindow},
    {"no-window", "i/o region assigned to your nvidia device is invalid", 2, "HW04", kNoWindow},
    {"off-the-bus", "gpu has fallen off the bus", 2, "HW08 DRV23 HW09", kOffTheBus},
    {"off-the-bus", "gpu is lost", 2, "HW08 DRV23 HW09", kOffTheBus},
    {"xid", "nvrm: xid", 2, "DRV23 HW08", kXid},
    {"xid", "timeout waiting for rpc from gsp", 2, "DRV23 DRV09", kXid},
    {"sxid", "sxid (pci", 2, "DRV24", kXid},
    {"not-yet-initialized", "system not yet initialized", 2, "DRV15 DRV14 DRV27", kFabric},
    {"not-yet-initialized", "cuda_error_system_not_ready", 2, "DRV15 DRV14 DRV27", kFabric},
    {"unknown-error", "cuda unknown error", 1, kUnknownRules, kUnknown},
    {"unknown-error", "error (999)", 1, kUnknownRules, kUnknown},
    {"unknown-error", "cuda_error_unknown", 1, kUnknownRules, kUnknown},
    {"unknown-error", "cudaerrorunknown", 1, kUnknownRules, kUnknown},
    {"unknown-error", "cuda error: unknown error", 1, kUnknownRules, kUnknown},
    {"launch-failure", "unspecified launch failure", 1, "DRV13 DRV23", kIllegal},
    {"launch-failure", "an illegal memory access was encountered", 1, "DRV23", kIllegal},
    {"launch-failure", "device-side assert triggered", 1, "", kIllegal},
    {"compat-library", "forward compatibility was attempted on non supported hw", 2, "CTR14 FW02",
     kCompat},
    {"compat-library", "unsupported display driver / cuda driver combination", 2,
     "FW02 DRV05 CTR13 CTR14 DRV17", kCompat},
    {"driver-too-old", "nvidia driver on your system is too old", 2, "FW02 CTR14", kTooOld},
    {"driver-too-old", "cuda driver version is insufficient for cuda runtime version", 2,
     "FW02 CTR14 LIB02 DRV05", kTooOld},
    {"driver-too-old", "cudaerrorinsufficientdriver", 2, "FW02 CTR14 LIB02 DRV05", kTooOld},
    {"no-driver", "found no nvidia driver on your system", 2,
     "DRV01 DRV02 DRV03 DRV04 DRV08 HW01 HW02 HW03 CTR01 CTR07 LIB01 LIB02 WSL01 WSL02", kNoModule},
    {"no-device", "no cuda gpus are available", 1, kNoDeviceRules, kNoDevice},
    {"no-device", "no cuda-capable device is detected", 1, kNoDeviceRules, kNoDevice},
    {"no-device", "cuda_error_no_device", 1, kNoDeviceRules, kNoDevice},
    {"no-device", "cudaerrornodevice", 1, kNoDeviceRules, kNoDevice},
    {"bad-ordinal", "invalid device ordinal", 2, "ENV02 ENV04 ENV01 ENV24", kOrdinal},
    {"bad-ordinal", "cuda_error_invalid_device", 2, "ENV02 ENV04 ENV01", kOrdinal},
    {"device-busy", "cuda-capable device(s) is/are busy or unavailable", 2, "DRV20 DRV23", kBusy},
    {"device-busy", "cuda-capable devices are busy or unavailable", 2, "DRV20 DRV23", kBusy},
    {"device-busy", "cudaerrordevicesunavailable", 2, "DRV20 DRV23", kBusy},
    {"mps", "mps client failed to connect", 2, "DRV22", kMps},
    {"mps", "cuda_error_mps_", 2, "DRV22", kMps},
    {"ecc", "uncorrectable ecc error encountered", 2, "DRV26 DRV25 DRV23", kEcc},
    {"ecc", "cuda_error_ecc_uncorrectable", 2, "DRV26 DRV25 DRV23", kEcc},
    {"device-filter", "failed to initialize nvml: unknown error", 2, "CTR02 CTR03", kFilter},
    {"no-permission", "failed to initialize nvml: insufficient permissions", 2,
     "CTR12 DRV12 CTR11 CTR02", kPermission},
    {"wsl-blocked", "gpu access blocked by the operating system", 2, "WSL01 WSL03 WSL02", kWsl},
    {"engine", "could not select device driver*gpu", 2, "CTR04 CTR05", kEngine},
    {"engine", "unknown or invalid runtime name: nvidia", 2, "CTR04 CTR05", kEngine},
    {"engine", "devices.allow: operation not permitted", 2, "CTR18 CTR12", kEngine},
    {"legacy-hook", "ldcache error: process*terminated", 2, "CTR09 CTR04", kLegacyHook},
    {"engine", "nvidia-container-cli:*error", 1, "CTR04 CTR18 CTR09 CTR08 LIB01", kEngine},
    {"image-requirement", "requirement error: unsatisfied condition", 2, "CTR08", kImage},
    {"cdi", "unresolvable cdi devices", 2, "CTR09 CTR10", kCdi},
    {"cdi", "stat nvidia.com/gpu", 2, "CTR10 CTR09", kCdi},
    {"pod", "incompatible strategy detected auto", 2, "CTR17 CTR04", kPod},
    {"libcuda", "libcuda.so.1: cannot open shared object file", 2,
     "LIB01 CTR01 CTR07 CTR20 WSL01 WSL02", kNoCuda},
    {"libcuda", "libnvidia-ml.so.1: cannot open shared object file", 2,
     "LIB01 CTR01 CTR07 CTR04 CTR20 WSL01", kNoCuda},
    {"libcuda", "could not load dynamic library 'libcuda.so.1'", 2,
     "LIB01 CTR01 CTR07 CTR20 WSL01 WSL02", kNoCuda},
    {"libcuda", "libcuda.so.1 does not exist", 2, "LIB01 CTR01 CTR07 WSL01", kNoCuda},
    {"stub", "cuda driver is a stub library", 2, "LIB02 ENV07", kStub},
    {"stub", "cudaapierror: [34]", 2, "LIB02 ENV07", kStub},
    {"stub", "cuda_error_stub_library", 2, "LIB02 ENV07", kStub},
    {"mixed-libraries", "undefined symbol: __nvjitlink", 2, "LIB05 ENV08 LIB03 LIB08", kSymbol},
    {"mixed-libraries", "undefined symbol: nccl", 2, "LIB03 LIB05 LIB09 ENV08 LIB08", kSymbol},
    {"mixed-libraries", "undefined symbol: cublas", 2, "LIB03 LIB05 ENV08 LIB08", kSymbol},
    {"cudnn", "cudnn_status_sublibrary_", 2, "LIB06", kCudnn},
    {"cudnn", "could not load library libcudnn", 2, "LIB04 LIB06 ENV08", kCudnn},
    {"cudnn", "unable to load any of {libcudnn", 2, "LIB04 LIB06 ENV08", kCudnn},
    {"cudnn", "libcudnn.so*cannot open shared object file", 2, "LIB04 LIB06 FW15 ENV08", kCudnn},
    {"cudnn", "cudnn_status_not_initialized", 1, "LIB06 RT01 RT02 FW02", kCudnn},
    {"extension-abi", "undefined symbol: _zn3c10", 2, "FW06 FW05", kAbi},
    {"extension-abi", "undefined symbol: _znk3c10", 2, "FW06 FW05", kAbi},
    {"extension-abi", "undefined symbol: _zn2at", 2, "FW06 FW05", kAbi},
    {"extension-abi", "undefined symbol: _zn5torch", 2, "FW06 FW05", kAbi},
    {"torchvision", "torchvision::nms does not exist", 2, "FW05 FW18", kPair},
    {"missing-library", "libcudart.so*cannot open shared object file", 2, kMissingRules, kMissing},
    {"missing-library", "libcublas*cannot open shared object file", 2, kMissingRules, kMissing},
    {"missing-library", "could not load library libcublas", 2, kMissingRules, kMissing},
    {"missing-library", "libnvrtc.so*cannot open shared object file", 2, kMissingRules, kMissing},
    {"missing-library", "failed to open libnvrtc-builtins.so", 2, kMissingRules, kMissing},
    {"missing-library", "libnvjitlink.so*cannot open shared object file", 2, kMissingRules,
     kMissing},
    {"missing-library", "libcusparse.so*cannot open shared object file", 2, kMissingRules,
     kMissing},
    {"missing-library", "libcusolver.so*cannot open shared object file", 2, kMissingRules,
     kMissing},
    {"missing-library", "libcufft.so*cannot open shared object file", 2, kMissingRules, kMissing},
    {"missing-library", "libnccl.so*cannot open shared object file", 2, kMissingRules, kMissing},
    {"missing-library", "failed to load libcu", 2, "FW11 LIB04", kMissing},
    {"jax-libraries", "unable to load cusparse", 2, "FW10 LIB04 ENV08 LIB07", kMissing},
    {"jax-libraries", "unable to load cudnn", 2, "FW10 LIB04 ENV08 LIB07", kMissing},
    {"old-library", "loaded runtime cudnn library*but source was compiled with", 2, "LIB07 LIB06",
     kOldLibrary},
    {"old-library", "was built against*minimum supported", 2, "LIB07", kOldLibrary},
    {"old-library", "found cu*version*minimum supported", 2, "LIB07", kOldLibrary},
    {"libdevice", "libdevice not found", 2, "LIB10 ENV17", kLibdevice},
    {"libdevice", "can't find libdevice", 2, "LIB10 ENV17", kLibdevice},
    {"libc", "version `glibc_*' not found", 2, "LIB12", kLibc},
    {"libc", "version `glibcxx_*' not found", 2, "LIB12", kLibc},
    {"link-libcuda", "cannot find -lcuda", 2, "LIB11", kLinker},
    {"link-libcuda", "libcuda.so cannot found", 2, "LIB11 LIB01 CTR20", kLinker},
    {"ptxas", "is not defined for option 'gpu-name'", 2, "FW22", kPtxas},
    {"ptxas", "is not defined for option gpu-name", 2, "FW22", kPtxas},
    {"cpu-pytorch", "torch not compiled with cuda enabled", 2, "FW01 FW13 FW14 FW07", kCpuTorch},
    {"no-kernels", "no kernel image is available", 2, "FW03 FW04 FW06", kNoKernels},
    {"no-kernels", "not compatible with the current pytorch installation", 2, "FW03 FW04",
     kNoKernels},
    {"no-kernels", "cudaerrornokernelimagefordevice", 2, "FW03 FW04 FW06", kNoKernels},
    {"no-kernels", "which is of cuda capability", 2, "FW04 FW03", kNoKernels},
    {"tensorflow", "cannot dlopen some gpu libraries", 2, "FW08 LIB04", kTensorflow},
    {"jax-plugin", "cuda-enabled jaxlib is not installed", 2, "FW10", kJax},
    {"jax-plugin", "no gpu/tpu found, falling back to cpu", 1, "FW10", kJax},
    {"bitsandbytes", "libbitsandbytes_cuda*.so", 2, "FW17 ENV18", kBitsandbytes},
    {"bitsandbytes", "cuda setup failed despite gpu being available", 2, "FW17 ENV18 LIB04",
     kBitsandbytes},
    {"onnxruntime", "libonnxruntime_providers_cuda.so", 2, "FW15 LIB04", kOrt},
    {"onnxruntime", "'cudaexecutionprovider' is not in available provider", 2, "FW15", kOrt},
    {"other-toolkit", "the detected cuda version*mismatches", 2, "ENV11 ENV10", kToolkit},
    {"other-toolkit", "cuda_home environment variable is not set", 2, "ENV10 ENV11", kToolkit},
    {"ptx", "ptx was compiled with an unsupported toolchain", 2, "FW16 FW02 FW03 ENV11", kPtx},
    {"ptx", "cuda_error_unsupported_ptx_version", 2, "FW16 FW02 FW03 ENV11", kPtx},
    {"compiler", "unsupported gnu version", 2, "FW19", kCompiler},
    {"compiler", "python.h: no such file or directory", 2, "FW19", kCompiler},
    {"compiler", "failed to find c compiler", 2, "FW19", kCompiler},
    {"compiler", "ninja is required to load c++ extensions", 2, "FW19", kCompiler},
    {"other-toolkit", "could not find nvcc", 2, "ENV10 ENV11", kToolkit},
    {"releases", "compiled using numpy 1.x cannot be run in", 2, "FW25", kReleases},
    {"releases", "numpy is not available", 2, "FW25", kReleases},
    {"releases", "numba needs numpy", 2, "FW25", kReleases},
    {"releases", "no module named 'triton.ops", 2, "FW25", kReleases},
    {"releases", "disabling pytorch because pytorch", 2, "FW25", kReleases},
    {"releases", "could not load libtorchcodec", 2, "FW25 FW26", kReleases},
    {"parts", "no module named 'mmcv._ext'", 2, "FW26", kParts},
    {"parts", "cannot find dgl c++ graphbolt library", 2, "FW26", kParts},
    {"parts", "has no attribute 'standardgpuresources'", 2, "FW21", kParts},
    {"missing-library", "library libcublas*is not found or cannot be loaded", 2, "LIB04", kMissing},
    {"profiler", "err_nvgpuctrperm", 2, "", kCounters},
    {"unfinished-packages", "dpkg was interrupted", 2, "DRV33", kUnfinished},
    {"unfinished-packages", "error processing package nvidia", 2, "DRV33 DRV02", kUnfinished},
    {"slurm-file", "can't stat gres.conf file", 2, "CTR25", kSlurmFile},
    {"slurm-file", "gres/gpu count reported lower than configured", 2, "CTR25", kSlurmFile},
    {"no-amdsmi", "no module named 'amdsmi'", 2, "FW29", kNoHip},
    {"home", "permission denied: '/.triton", 2, "ENV26", kHome},
    {"home", "permission denied: '/.cache", 2, "ENV26", kHome},
    {"home", "permission denied: '/.config/vllm", 2, "ENV26", kHome},
    {"video", "cannot load libnvcuvid", 2, "CTR21", kVideo},
    {"openmp", "omp: error #15", 2, "CPU04", kOpenMp},
    {"openmp", "mkl_threading_layer=intel is incompatible with", 2, "CPU04", kOpenMp},
    {"out-of-memory", "cuda out of memory", 2, kOomRules, kMemory},
    {"out-of-memory", "cuda_error_out_of_memory", 2, kOomRules, kMemory},
    {"out-of-memory", "cuda error: out of memory", 2, kOomRules, kMemory},
    {"out-of-memory", "cudaerrormemoryallocation", 2, kOomRules, kMemory},
    {"out-of-memory", "hip out of memory", 2, kOomRules, kMemory},
    {"out-of-memory", "would exceed allowed memory. (out of memory)", 2, kOomRules, kMemory},
    {"out-of-memory", "resource_exhausted: out of memory", 2, kOomRules, kMemory},
    {"out-of-memory", "oom when allocating tensor", 2, kOomRules, kMemory},
    {"out-of-memory", "outofmemoryerror: out of memory allocating", 2, kOomRules, kMemory},
    {"xpu-memory", "xpu out of memory", 2, kOomRules, kMemory},
    {"out-of-memory", "cudnn_status_alloc_failed", 2, kOomRules, kMemory},
    // A message from NCCL, which allocates buffers through CUDA.
    {"out-of-memory", "cuda failure 'out of memory'", 2, kOomRules, kMemory},
    {"out-of-memory", "cuda failure 2 'out of memory'", 2, kOomRules, kMemory},
    {"mac-memory", "mps backend out of memory", 2, "", kMacMemory},
    {"host-memory", "memoryerror: unable to allocate", 2, "", kHostMemory},
    {"host-memory", "defaultcpuallocator: can't allocate memory", 2, "", kHostMemory},
    {"host-memory", "defaultcpuallocator: not enough memory", 2, "", kHostMemory},
    {"host-memory", "dataloader worker*killed by signal: killed", 2, "", kHostMemory},
    {"shared-memory", "dataloader worker*killed by signal: bus error", 2, "CTR15 RT06", kShm},
    {"shared-memory", "insufficient shared memory (shm)", 2, "CTR15 RT06", kShm},
    {"shared-memory", "posix_fallocate failed*no space left on device", 2, "CTR15 RT06", kShm},
    {"shared-memory", "ncclshmopen", 2, "CTR15 RT06", kShm},
    {"shared-memory", "error while creating shared memory segment", 2, "CTR15 RT06", kShm},
    {"limits", "too many open files", 2, "RT07", kLimits},
    {"limits", "can't start new thread", 2, "CPU03 RT07", kLimits},
    {"limits", "pthread_create failed*resource temporarily unavailable", 2, "CPU03 RT07", kLimits},
    {"limits", "libgomp: thread creation failed", 2, "CPU03 RT07", kLimits},
    {"nccl", "nccl*unhandled system error", 1, "CTR15 RT06 CTR16 ENV13 ENV14 HW11 HW12", kNccl},
    {"nccl", "nccl*unhandled cuda error", 1, "HW11 HW12 RT08 DRV23 FW02", kNccl},
    {"nccl", "watchdog caught collective operation timeout", 1, "HW11 HW12 ENV13 RT11 AMD04",
     kNccl},
    {"peers", "connectfullmesh", 2, "ENV13 RT11", kPeers},
    {"port-taken", "eaddrinuse", 2, "", kPort},
    {"port-taken", "server socket has failed to listen", 2, "", kPort},
    {"port-taken", "address already in use", 1, "", kPort},
    {"no-torch", "no module named 'torch'", 2, "", kNoTorch},
    {"tensorflow-gpu", "the \"tensorflow-gpu\" package has been removed", 2, "SRC16", kRemoved},
    {"tensorflow-gpu", "no matching distribution found for tensorflow-gpu", 2, "SRC16", kRemoved},
    {"interface", "unable to find address for", 2, "ENV13 RT11", kInterface},
    {"interface", "no socket interface found", 2, "ENV13 RT11", kInterface},
    {"pinned-memory", "ibv_reg_mr*cannot allocate memory", 2, "CTR16 RT07", kPinned},
    {"fork", "cannot re-initialize cuda in forked subprocess", 2, "SRC34 ENV22", kFork},
    {"set-device-cpu", "expected a cuda device, but got: cpu", 2, "SRC02", kSetDevice},
    {"kfd", "unable to open /dev/kfd", 2, "AMD01 CTR19", kKfd},
    {"kfd", "rock module is not loaded", 2, "AMD01 CTR19 HW02", kKfd},
    {"rocm-code", "tensilelibrary", 2, "AMD02 ENV12", kGfx},
    {"rocm-code", "hip*invalid device function", 2, "AMD02 ENV12", kGfx},
    {"rocm-code", "hiperrornobinaryforgpu", 2, "AMD02 ENV12", kGfx},
    {"xpu", "torch not compiled with xpu enabled", 2, "XPU01", kXpu},
    {"xpu", "no xpu devices are available", 2, "XPU02 XPU03 XPU01", kXpu},
    {"module-rejected", "could not insert 'nvidia*key was rejected by service", 2, "DRV03",
     kRejected},
    {"module-rejected", "could not insert 'nvidia*required key not available", 2, "DRV03",
     kRejected},
    {"no-module-file", "could not insert 'nvidia*exec format error", 2, "DRV02", kOtherKernel},
    {"no-module-file", "could not insert 'nvidia*unknown symbol", 2, "DRV02", kOtherKernel},
    {"no-module-file", "module nvidia not found in directory", 2, "DRV02 DRV01", kOtherKernel},
    {"no-module-file", "module nvidia-current not found in directory", 2, "DRV02 DRV01",
     kOtherKernel},
    {"no-module-file", "bad return status for module build on kernel", 2, "DRV02 DRV01",
     kOtherKernel},
    {"gpu-not-started", "could not insert 'nvidia*no such device", 2,
     "DRV08 DRV06 DRV07 DRV09 HW01 HW03 HW04", kNotStarted},
    {"libcuda", "could not find cuda drivers on your machine", 2,
     "LIB01 DRV01 DRV02 CTR01 CTR07 WSL01 FW08", kNoCuda},
    {"libcuda", "failed call to cuinit: unknown error (303)", 2, "LIB01 DRV01 CTR01 CTR07 WSL01",
     kNoCuda},
    {"libcuda", "unable to load cuda driver library", 2, "LIB01 CTR01 CTR07 CTR20", kNoCuda},
    {"cublas", "cublas_status_not_initialized", 1, "RT01 RT02 ENV08 FW03 FW02", kCublas},
    {"cublas", "cublas_status_alloc_failed", 1, "RT01 RT02", kCublas},
    {"launch-failure", "cublas_status_execution_failed", 1, "DRV23 ENV08 LIB03", kIllegal},
    {"launch-failure", "memory access fault by gpu node", 1, "ENV12 AMD02 AMD08", kIllegal},
    {"cudnn", "dnn library initialization failed", 1, "LIB06 LIB07 RT01 ENV17", kCudnn},
    {"missing-library", "libnvinfer*cannot open shared object file", 2, "LIB04 FW15", kMissing},
    {"jax-libraries", "unable to use cuda because of the following issues", 2,
     "LIB07 FW10 LIB04 ENV08", kOldLibrary},
    {"jax-plugin", "unable to initialize backend 'cuda'", 1, "FW10 LIB07 ENV01 ENV02 DRV01 CTR01",
     kJax},
    {"nvvm", "libnvvm cannot be found", 2, "FW16 LIB10 ENV10", kNvvm},
    {"nvvm", "missing libdevice file", 2, "FW16 LIB10 ENV10", kNvvm},
    {"no-gpu-wanted", "failed to infer device type", 1,
     "FW29 FW01 FW13 FW14 DRV01 DRV02 DRV04 DRV05 LIB01 ENV01 ENV02 CTR01 CTR07 FW02 WSL01 WSL02",
     kVllm},
    {"no-gpu-wanted",
     "attempting to deserialize object on a cuda device but torch.cuda.is_available() is false", 1,
     kNoGpuRules, kWantsGpu},
    {"older-gpu", "bfloat16 is only supported on gpus with compute capability", 2, "",
     kOlderThanFormat},
    {"older-gpu", "not supported in this architecture", 2, "FW04", kOlderThanFormat},
    {"no-kernels", "flashattention only supports ampere gpus or newer", 2, "FW04 FW03", kNoKernels},
    {"old-nvcc", "unsupported gpu architecture 'compute_", 2, "FW03 ENV10 ENV11 FW09", kOldNvcc},
    {"link-libcuda", "-lcuda*returned non-zero exit status", 1, "LIB11 FW19", kLinker},
    {"noexec", "failed to map segment from shared object", 2, "FW19", kNoExec},
    {"ptx", "triton error [cuda]: device kernel image is invalid", 2, "FW22 FW16 FW02 FW03", kPtx},
    {"out-of-memory", "unable to allocate cuda0 buffer", 2, kOomRules, kMemory},
    {"nccl", "ncclsystemerror", 1, "CTR15 RT06 CTR16 ENV13 ENV14 HW11 HW12", kNccl},
    {"nccl", "ncclunhandledcudaerror", 1, "HW11 HW12 RT08 DRV23 FW02", kNccl},
    {"no-node", "error gathering device information while adding custom device", 2,
     "CTR19 CTR10 DRV11 HW02", kNoSuchNode},
    {"pod", "insufficient nvidia.com/gpu", 1, "CTR17 CTR04 CTR27 DRV01", kNoFreeGpu},
    {"scheduler", "requested node configuration is not available", 1, "", kScheduler},
    {"scheduler", "invalid generic resource (gres) specification", 2, "", kScheduler},
    {"no-hip-device", "no hip gpus are available", 1, kNoHipRules, kNoHip},
    {"no-hip-device", "no rocm-capable device is detected", 1, kNoHipRules, kNoHip},
    {"no-hip-device", "could not initialize tensile host: no devices found", 1, kNoHipRules,
     kNoHip},
    {"kfd", "hsa_status_error_out_of_resources", 1, "AMD01 CTR19 AMD02 CTR16", kKfd},
    {"rocm-code", "hsa_status_error_invalid_isa", 2, "AMD02 ENV12", kGfx},
    {"xpu", "no device of requested type available", 1, "XPU02 XPU03", kXpu},
    {"xpu", "native api failed", 1, "XPU06 XPU05 XPU02 XPU03", kXpu},
    {"visible-uuid", "invalid literal for int()*'gpu-", 2, "ENV03", kVisible},
    {"visible-uuid", "invalid literal for int()*'mig-", 2, "ENV03 ENV04", kVisible},
});

}  // namespace

std::span<const Signature> signatures() {
  return kRows;
}

}  // namespace berth::doctor
