// Whether a line of a program's output is the error of a framework whose memory ran out. The
// texts, and the rules that distinguish an error from a mention of it, are in the header for C++
// programs. This file adds which exceptions print such a line.
#include <algorithm>
#include <berth/out_of_memory.hpp>
#include <regex>
#include <string>

#include "run/failure.hpp"

namespace berth::run {
namespace {

bool found(std::string_view text, const std::regex& pattern) {
  return std::regex_search(text.begin(), text.end(), pattern);
}

}  // namespace

bool is_out_of_memory_line(std::string_view line) {
  static const std::regex types(
      R"(^(torch(\.cuda|\._C)?\.OutOfMemoryError|torch\.AcceleratorOutOfMemoryError|cupy(_backends)?\..*\bOutOfMemoryError|cuda\.core\..*\bCUDAOutOfMemoryError|rmm\..*\bout_of_memory|ray\.exceptions\.OutOfMemoryError|([a-z_.]*\.)?_?(Array)?MemoryError)([:\n]|$))");
  static const std::regex tensorflow(R"(^tensorflow\..*\bResourceExhaustedError:)");
  static const std::regex of_memory(
      R"(\bOOM\b|[Oo]ut of memory|[Ff]ailed to allocate (memory|scratch buffer)|[Uu]nable to allocate|[Cc]an ?not allocate memory|Attempting to (allocate|reserve) |memory space hbm)");
  static const std::regex of_files(
      R"([Nn]o space left on device|[Qq]uota exceeded|[Tt]oo many open files|larger than max|\.tempstate\d|memory space [sv]mem)");
  // Generic exception types, which frameworks raise for all errors.
  static const std::regex anything(
      R"(^(([\w.]*\.)?(RuntimeError|JaxRuntimeError|XlaRuntimeError|InternalError|CUDARuntimeError|CUDADriverError|LogicError|AcceleratorError|CudaAPIError|CudaSupportError)|(torch|jax|jaxlib|tensorflow|cupy|cupy_backends|numba|numba_cuda|pycuda|pyopencl|cuda|rmm|triton|onnxruntime|xgboost|lightgbm|catboost|_catboost|paddle|ray|mlx|warp)\.[\w.]+): ?)");
  // examine only the beginning, because the text may be arbitrarily long
  constexpr std::size_t kMost = 4096;
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
  return std::any_of(std::begin(detail::kOutOfMemoryWords), std::end(detail::kOutOfMemoryWords),
                     [&](std::string_view word) { return detail::states(line, word); });
}

}  // namespace berth::run
