// is_out_of_memory(): whether an error says that memory ran out, of a GPU or of the host. It needs
// no header of CUDA, HIP or OpenCL, and no libberth.
//
// A code of an enum is recognised by the name of its type. An exception is recognised by its type,
// or by its text. The texts and the rules for them are those of the Python package
// (python/berth/oom.py); tests/cpp_test.py compares both.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace berth {
namespace detail {

/// What an error means for a retry.
enum class Verdict { other, out_of_memory, context_lost };

/// The name of the type T as the compiler writes it, such as "cudaError".
template <typename T>
constexpr std::string_view name_of_type() {
  const std::string_view all = __PRETTY_FUNCTION__;
  const std::size_t from = all.find("T = ") + 4;
  return all.substr(from, all.find_first_of(";]", from) - from);
}

/// A value of an enum that means that memory ran out or that the context is lost.
struct Code {
  std::string_view type;
  long long value;
  Verdict verdict;
};

// Enums with CUDA's values (HIP has the same), the values that mean a lost context, and the codes
// of other enums. Sources: driver_types.h and cuda.h of CUDA 12.9, cublas_api.h, hip_runtime_api.h
// of ROCm 5.2, and ze_api.h.
inline constexpr std::array<const char*, 3> kLikeCuda{"cudaError", "cudaError_enum", "hipError_t"};
inline constexpr std::array<long long, 8> kCudaLost{214, 700, 709, 710, 714, 715, 716, 719};
inline constexpr std::array<Code, 4> kCodes{{
    {"cublasStatus_t", 3, Verdict::out_of_memory},
    {"_ze_result_t", 0x70000001, Verdict::context_lost},
    {"_ze_result_t", 0x70000002, Verdict::out_of_memory},
    {"_ze_result_t", 0x70000003, Verdict::out_of_memory},
}};

template <typename E>
constexpr bool is_like_cuda() {
  for (const std::string_view one : kLikeCuda)
    if (name_of_type<E>() == one) return true;
  return false;
}

template <typename E>
constexpr bool is_known_enum() {
  for (const Code& one : kCodes)
    if (name_of_type<E>() == one.type) return true;
  return is_like_cuda<E>();
}

template <typename E>
constexpr Verdict verdict_of_enum(E code) {
  const auto value = static_cast<long long>(code);
  if (is_like_cuda<E>()) {
    if (value == 2) return Verdict::out_of_memory;
    for (const long long one : kCudaLost)
      if (value == one) return Verdict::context_lost;
    return Verdict::other;
  }
  for (const Code& one : kCodes)
    if (name_of_type<E>() == one.type && value == one.value) return one.verdict;
  return Verdict::other;
}

/// What an OpenCL code means. -4 to -6 are CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES
/// and CL_OUT_OF_HOST_MEMORY (cl.h).
constexpr Verdict verdict_of_opencl(int code) {
  return code >= -6 && code <= -4 ? Verdict::out_of_memory : Verdict::other;
}

// Texts that mean that memory ran out. They count only as a statement of their own, not inside a
// sentence about such errors.
inline constexpr std::string_view kBareWords = "CUDA out of memory";
inline constexpr std::string_view kOutOfMemoryWords[] = {
    "CUDA out of memory. Tried to allocate",
    "CUDA out of memory",
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
    "Memory Object Allocation Failure",
};

// These texts count only at the end of a sentence. With more words after them, the sentence only
// mentions the error.
inline constexpr std::string_view kWordsAtEnd[] = {
    "CUDA out of memory. Tried to allocate",
    "Memory Object Allocation Failure",
    "Out of Host Memory",
    "cudaErrorMemoryAllocation",
    "hipErrorMemoryAllocation",
    "hipErrorOutOfMemory",
    "std::bad_alloc",
};

// Texts in lower case that mean that the device's context is lost.
inline constexpr std::string_view kContextLostWords[] = {
    "an illegal memory access was encountered",
    "device-side assert triggered",
    "unspecified launch failure",
    "misaligned address",
    "an illegal instruction was encountered",
    "hardware stack error",
    "cuda_error_illegal_address",
    "cuda_error_assert",
    "cuda_error_launch_failed",
    "cuda_error_illegal_instruction",
    "cuda_error_misaligned_address",
    "cuda_error_hardware_stack_error",
    "cuda_error_context_is_destroyed",
    "cuda_error_ecc_uncorrectable",
    "uncorrectable ecc error encountered",
    "gpu is lost",
    "cudaerrorillegaladdress",
    "cudaerrorassert",
    "cudaerrorlaunchfailure",
    "_result_error_device_lost",
};

inline bool is_word(char one) {
  return std::isalnum(static_cast<unsigned char>(one)) != 0 || one == '_' ||
         static_cast<unsigned char>(one) >= 0x80;
}

/// The text in lower case. Each punctuation character of three bytes (U+2000 to U+206F, U+3000 to
/// U+303F, U+FF01 to U+FF20) becomes ";;;".
inline std::string lower(std::string_view from) {
  std::string to(from);
  for (std::size_t at = 0; at < to.size(); ++at) {
    const std::string_view two = std::string_view(to).substr(at, 2);
    const bool mark =
        two == "\xE2\x80" || two == "\xE2\x81" || two == "\xE3\x80" ||
        (two == "\xEF\xBC" && at + 2 < to.size() && static_cast<unsigned char>(to[at + 2]) <= 0xA0);
    if (mark && at + 2 < to.size()) to.replace(at, 3, ";;;");
    to[at] = static_cast<char>(std::tolower(static_cast<unsigned char>(to[at])));
  }
  return to;
}

template <typename List>
bool has(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

/// Whether a statement may begin after the text `before`. It may if `before` is empty, or ends in
/// punctuation or in a word such as "error" or "returned".
inline bool leads(std::string_view before) {
  constexpr std::string_view kWords[] = {"error",   "code", "status", "with",  "returned",
                                         "returns", "got",  "in",     "due to"};
  constexpr std::size_t kLongest = 12;
  if (before.size() > kLongest) before.remove_prefix(before.size() - kLongest);
  while (!before.empty() && (before.back() == ' ' || before.back() == '\t'))
    before.remove_suffix(1);
  if (before.empty()) return true;
  const std::string said = lower(before);
  const char last = said.back();
  if (last == '\n' || (!is_word(last) && std::isspace(static_cast<unsigned char>(last)) == 0))
    return true;
  const std::size_t digits = before.find_last_not_of("0123456789");
  if (digits != before.size() - 1 && digits != std::string_view::npos && before[digits] == ':')
    return true;
  return std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view word) {
    const std::size_t at = said.size() - std::min(said.size(), word.size());
    return said.size() >= word.size() && said.compare(at, word.size(), word) == 0 &&
           (at == 0 || !is_word(said[at - 1]));
  });
}

/// Whether the text before a statement on the same line shows that the statement was quoted from a
/// log or a file.
inline bool is_quoted(std::string_view before) {
  constexpr std::string_view kWords[] = {
      "parse",      "parsed",      "parsing", "log",      "logs",      "regex",      "pattern",
      "patterns",   "expect",      "expects", "expected", "expecting", "unexpect",   "unexpects",
      "unexpected", "unexpecting", "match",   "matches",  "matched",   "say",        "says",
      "said",       "grep",        "contain", "contains", "previous",  "previously", "earlier"};
  constexpr std::string_view kFiles[] = {"log", "txt", "json", "jsonl", "csv", "out", "err"};
  const std::string all = lower(before);
  std::string previous, one_before;
  for (std::size_t at = 0; at < all.size();) {
    if (!is_word(all[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < all.size() && is_word(all[end])) ++end;
    const std::string word = all.substr(at, end - at);
    if (has(kWords, word)) return true;
    if (at >= 2 && all[at - 1] == '.' && is_word(all[at - 2]) && has(kFiles, word)) return true;
    const bool number = previous.find_first_not_of("0123456789") == std::string::npos;
    if (word == "of" && !previous.empty() && number && one_before == "line") return true;
    if (previous == "last" && (word == "run" || word == "job" || word == "time")) return true;
    one_before = std::move(previous);
    previous = word;
    at = end;
  }
  return false;
}

/// Whether the text states `word` as a fact, and does not only mention it.
inline bool states(std::string_view text, std::string_view word) {
  constexpr std::size_t kLine = 200;
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const std::string_view after = text.substr(at + word.size());
    bool goes_on = false;
    if (has(kWordsAtEnd, word))
      goes_on = after.size() > 1 && after[0] == ' ' && after[1] >= 'a' && after[1] <= 'z';
    else if (word == kBareWords)
      if (const std::size_t next = after.find_first_not_of(" .!"); next < 3)
        goes_on = after[next] != '\n';
    if (goes_on) continue;
    std::string_view line = text.substr(0, at);
    if (const std::size_t begin = line.rfind('\n'); begin != std::string_view::npos)
      line.remove_prefix(begin + 1);
    if (line.size() > kLine) line.remove_prefix(line.size() - kLine);
    if (is_quoted(line)) continue;
    if (at == 0 || word[0] == ' ' || word[0] == '_' || leads(text.substr(0, at))) return true;
  }
  return false;
}

/// What a text means for a retry. Only the beginning and the end of a long text are read.
inline Verdict verdict_of_text(std::string_view whole) {
  constexpr std::size_t kEdge = 8192;
  std::string cut;
  if (whole.size() > 2 * kEdge) {
    cut.append(whole.substr(0, kEdge)).append("\n").append(whole.substr(whole.size() - kEdge));
    whole = cut;
  }
  const std::string small = lower(whole);
  for (const std::string_view word : kContextLostWords)
    if (small.find(word) != std::string::npos) return Verdict::context_lost;
  for (const std::string_view word : kOutOfMemoryWords)
    if (states(whole, word)) return Verdict::out_of_memory;
  return Verdict::other;
}

/// What an exception means for a retry, without the exceptions that are nested in it.
inline Verdict verdict_of_one(const std::exception& problem) {
#if defined(__cpp_rtti)
  if (dynamic_cast<const std::bad_array_new_length*>(&problem) != nullptr) return Verdict::other;
  if (dynamic_cast<const std::bad_alloc*>(&problem) != nullptr) return Verdict::out_of_memory;
  // std::invalid_argument and other logic errors may quote such a text, but they report a wrong
  // use.
  if (dynamic_cast<const std::logic_error*>(&problem) != nullptr) return Verdict::other;
  if (const auto* const coded = dynamic_cast<const std::system_error*>(&problem))
    if (coded->code() == std::errc::not_enough_memory) return Verdict::out_of_memory;
#endif
  const char* const said = problem.what();
  return said == nullptr ? Verdict::other : verdict_of_text(said);
}

/// What an exception, or one that is nested in it (std::throw_with_nested), means for a retry.
inline Verdict verdict_of(const std::exception& problem) {
  Verdict verdict = verdict_of_one(problem);
#if defined(__cpp_exceptions) && defined(__cpp_rtti)
  if (verdict == Verdict::context_lost) return verdict;
  try {
    std::rethrow_if_nested(problem);
  } catch (const std::exception& inner) {
    if (const Verdict within = verdict_of(inner); within != Verdict::other) verdict = within;
  } catch (...) {  // it is not a std::exception, so nothing is known about it
  }
#endif
  return verdict;
}

#if !defined(__cpp_rtti)
// Without RTTI, verdict_of_one() cannot find out the real type. So overloads decide by the static
// type.
inline Verdict verdict_of(const std::bad_alloc&) {
  return Verdict::out_of_memory;
}
inline Verdict verdict_of(const std::bad_array_new_length&) {
  return Verdict::other;
}
inline Verdict verdict_of(const std::logic_error&) {
  return Verdict::other;
}
inline Verdict verdict_of(const std::system_error& problem) {
  return problem.code() == std::errc::not_enough_memory ? Verdict::out_of_memory
                                                        : verdict_of_one(problem);
}
#endif

inline Verdict verdict_of(const std::error_code& code) {
  return code == std::errc::not_enough_memory ? Verdict::out_of_memory : Verdict::other;
}

inline Verdict verdict_of(std::errc code) {
  return verdict_of(std::make_error_code(code));
}

constexpr Verdict verdict_of(int code) {
  return verdict_of_opencl(code);
}

template <typename E, std::enable_if_t<std::is_enum_v<E> && !std::is_same_v<E, std::errc>, int> = 0>
constexpr Verdict verdict_of(E code) {
  static_assert(is_known_enum<E>(),
                "berth: not an error code of CUDA, HIP, Level Zero or cuBLAS; "
                "convert yours to std::errc::not_enough_memory");
  return verdict_of_enum(code);
}

/// cl::Error has a code. Its text is only the name of the function that failed.
template <typename E>
using OpenclCode = decltype(static_cast<int>(std::declval<const E&>().err()));
template <typename E, typename = void>
struct HasOpenclCode : std::false_type {};
template <typename E>
struct HasOpenclCode<E, std::void_t<OpenclCode<E>>> : std::is_base_of<std::exception, E> {};
template <typename E, std::enable_if_t<HasOpenclCode<E>::value, int> = 0>
Verdict verdict_of(const E& problem) {
  return verdict_of_opencl(problem.err());
}

/// Deleted for integers other than int: they are neither OpenCL codes nor enums.
template <typename T, std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, int>, int> = 0>
Verdict verdict_of(T) = delete;

}  // namespace detail

/// Whether an error says that memory ran out. It takes:
/// - exceptions: std::bad_alloc, those of frameworks by their text, cl::Error, and nested ones;
/// - cudaError_t, CUresult, hipError_t, ze_result_t, cublasStatus_t, std::error_code, std::errc;
/// - int: a cl_int of OpenCL.
template <typename E>
[[nodiscard]] bool is_out_of_memory(const E& error) {
  return detail::verdict_of(error) == detail::Verdict::out_of_memory;
}

/// Whether the device's context is lost, for example after an illegal address. This process can no
/// longer use the device, so continue in a new process.
template <typename E>
[[nodiscard]] bool is_context_lost(const E& error) {
  return detail::verdict_of(error) == detail::Verdict::context_lost;
}

}  // namespace berth
