// The texts that frameworks print when memory runs out. A cheap search for words excludes most
// texts. A text that contains the words counts only if it states the error, not if it quotes or
// mentions it.
#include <algorithm>
#include <array>
#include <cctype>
#include <regex>

#include "run/failure.hpp"

namespace berth::run {
namespace {

constexpr std::string_view kBare = "CUDA out of memory";  // the complete message

constexpr auto kWords = std::to_array<std::string_view>(
    {"CUDA out of memory. Tried to allocate",
     kBare,
     "NPU out of memory. Tried to allocate",
     "MUSA out of memory. Tried to allocate",
     "MLU out of memory. Tried to allocate",
     "MUSA error: out of memory",
     "CUDA failure 2: out of memory",
     "$ Torch: not enough memory: you tried to allocate",
     "HIP out of memory. Tried to allocate",
     "XPU out of memory. Tried to allocate",
     "CUDA error: out of memory",
     "HIP error: out of memory",
     "CUDA driver error: out of memory",
     "cuda runtime error (2) : out of memory",
     "CUDA error 2: out of memory",
     "[CUDA] out of memory",
     "CUDA out of memory occurred when warming up",
     "Cuda failure 2 'out of memory'",
     "Cuda failure 'out of memory'",
     "would exceed allowed memory. (out of memory)",
     "MPS backend out of memory",
     "Out of memory error on GPU",
     "Error: Out of memory. Requested ",
     "not enough memory for tree-ctrs",
     "cuMemAlloc failed: out of memory",
     "cuMemAllocManaged failed: out of memory",
     "Out of memory while trying to allocate",
     "RESOURCE_EXHAUSTED: Out of memory",
     "Ran out of memory in memory space hbm",
     "DefaultCPUAllocator: can't allocate memory",
     "DefaultCPUAllocator: not enough memory",
     "Failed to allocate memory for requested buffer",
     "cudaErrorMemoryAllocation",
     "hipErrorMemoryAllocation",
     "hipErrorOutOfMemory",
     "OOM when allocating tensor with shape",
     "RESOURCE_EXHAUSTED: Failed to allocate",
     "std::bad_alloc",
     "[enforce fail at alloc_cpu.cpp:",
     "Failed to allocate scratch buffer for device",
     "[metal::malloc] Attempting to allocate",
     "[metal::malloc] Unable to allocate",
     "[malloc_or_wait] Unable to allocate",
     "PT_DEVMEM Allocation failed",
     "(PT_DEVMEM) Allocation failed",
     "CUDNN_STATUS_ALLOC_FAILED",
     "CUBLAS_STATUS_ALLOC_FAILED",
     "CUSOLVER_STATUS_ALLOC_FAILED",
     "CUSPARSE_STATUS_ALLOC_FAILED",
     "CUFFT_ALLOC_FAILED",
     "HIPBLAS_STATUS_ALLOC_FAILED",
     "MEM_OBJECT_ALLOCATION_FAILURE",
     "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
     "CUDA_ERROR_OUT_OF_MEMORY",
     "_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
     "_RESULT_ERROR_OUT_OF_HOST_MEMORY",
     "UR_RESULT_ERROR_OUT_OF_RESOURCES",
     "PI_ERROR_OUT_OF_RESOURCES",
     "PI_ERROR_OUT_OF_HOST_MEMORY",
     " failed: OUT_OF_RESOURCES",
     " failed: OUT_OF_HOST_MEMORY",
     "clCreateBuffer failed: INVALID_BUFFER_SIZE",
     "create_buffer failed: INVALID_BUFFER_SIZE",
     "Invalid buffer size: ",
     "kIOGPUCommandBufferCallbackErrorOutOfMemory",
     " bytes for new constant",
     "That was not possible. There are ",
     "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a "
     "non-contiguous input",
     "Dst tensor is not initialized",
     "Dst tensor is not copied",
     "Memory allocation error on worker",
     "Out of Host Memory",
     "Memory Object Allocation Failure"});

/// If the sentence continues after these words, it only mentions the error.
constexpr auto kEnds = std::to_array<std::string_view>(
    {"CUDA out of memory. Tried to allocate", "std::bad_alloc", "Out of Host Memory",
     "Memory Object Allocation Failure", "cudaErrorMemoryAllocation", "hipErrorMemoryAllocation",
     "hipErrorOutOfMemory"});

bool found(std::string_view text, const std::regex& pattern) {
  return std::regex_search(text.begin(), text.end(), pattern);
}

std::string_view before(std::string_view text, std::size_t at, std::size_t most) {
  return text.substr(at > most ? at - most : 0, std::min(at, most));
}

bool stands(std::string_view text, std::string_view word) {
  // The words state an error if they come first, after a colon ("RuntimeError: …"), or after one of
  // these words.
  static const std::regex leads(
      R"((^|[^\w\s]|\n|:\d+|\b(error|code|status|with|returned|returns|got|in|due to))[ \t]*$)",
      std::regex::icase);
  static const std::regex quotes(
      R"(\b(pars(e|ed|ing)|line \d+ of|logs?|regex|patterns?|(un)?expect(s|ed|ing)?|match(es|ed)?|says?|said|grep|contains?|previous(ly)?|earlier|last (run|job|time))\b|\w\.(log|txt|jsonl?|csv|out|err)\b)",
      std::regex::icase);
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::string_view after = text.substr(at + word.size(), 3);
    bool goes_on = false;
    if (std::find(kEnds.begin(), kEnds.end(), word) != kEnds.end()) {
      goes_on = after.size() > 1 && after[0] == ' ' &&
                std::islower(static_cast<unsigned char>(after[1])) != 0;
    } else if (word == kBare) {
      const auto rest = after.find_first_not_of(" .!");
      goes_on = rest != std::string_view::npos && after[rest] != '\n';
    }
    const auto line = text.rfind('\n', at);
    const auto begin = line == std::string_view::npos || at == 0 ? 0 : line + 1;
    const bool quoted = found(before(text.substr(begin), at - begin, 200), quotes);
    if (!goes_on && !quoted &&
        (at == 0 || word.front() == ' ' || word.front() == '_' ||
         found(before(text, at, 12), leads)))
      return true;
  }
  return false;
}

}  // namespace

bool is_out_of_memory_line(std::string_view line) {
  static const std::regex types(
      R"(^(torch(\.cuda|\._C)?\.OutOfMemoryError|torch\.AcceleratorOutOfMemoryError|cupy(_backends)?\..*\bOutOfMemoryError|cuda\.core\..*\bCUDAOutOfMemoryError|rmm\..*\bout_of_memory|ray\.exceptions\.OutOfMemoryError|([a-z_.]*\.)?_?(Array)?MemoryError)(:|$))");
  static const std::regex tensorflow(R"(^tensorflow\..*\bResourceExhaustedError:)");
  static const std::regex of_memory(
      R"(\bOOM\b|[Oo]ut of memory|[Ff]ailed to allocate (memory|scratch buffer)|[Uu]nable to allocate|[Cc]an ?not allocate memory|Attempting to (allocate|reserve) |memory space hbm)");
  static const std::regex of_files(
      R"([Nn]o space left on device|[Qq]uota exceeded|[Tt]oo many open files|larger than max|\.tempstate\d|memory space [sv]mem)");
  // Generic exception types, which frameworks raise for all errors.
  static const std::regex anything(
      R"(^(([\w.]*\.)?(RuntimeError|JaxRuntimeError|XlaRuntimeError|InternalError|CUDARuntimeError|CUDADriverError|LogicError|AcceleratorError|CudaAPIError|CudaSupportError)|(torch|jax|jaxlib|tensorflow|cupy|cupy_backends|numba|numba_cuda|pycuda|pyopencl|cuda|rmm|triton|onnxruntime|xgboost|lightgbm|catboost|_catboost|paddle|ray|mlx|warp)\.[\w.]+): ?)");
  constexpr std::size_t kMost = 4096;  // the text may be arbitrarily long
  line = line.substr(0, kMost);
  if (found(line, types)) return true;
  if (found(line, tensorflow)) {
    std::string text(line);
    constexpr std::string_view kHint =
        "Hint: If you want to see a list of allocated tensors when OOM happens";
    if (const auto at = text.find(kHint); at != std::string::npos) text.erase(at, kHint.size());
    return found(text, of_memory) && !found(text, of_files);
  }
  std::match_results<std::string_view::const_iterator> type;
  if (!std::regex_search(line.begin(), line.end(), type, anything)) return false;
  line.remove_prefix(static_cast<std::size_t>(type.length(0)));
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
    return line.find(word) != std::string_view::npos && stands(line, word);
  });
}

}  // namespace berth::run
