// retry() calls a function again if memory ran out in it. Before that it pauses, so that other
// processes can free memory. It needs no libberth. The defaults are those of the Python package.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "error.hpp"
#include "out_of_memory.hpp"

namespace berth {

/// How often to call the function, and how long to pause between two calls.
struct RetryPolicy {
  /// Number of calls in all; at least 1.
  int tries = 4;
  /// The first pause. Each later pause is `factor` times as long as the one before it, but at most
  /// `most`.
  std::chrono::duration<double> first{0.5};
  double factor = 2.0;
  std::chrono::duration<double> most{30.0};
  /// Changes each pause at random by up to this fraction, so that two processes do not collide
  /// again.
  double jitter = 0.2;
  /// Called before each pause. It may free caches, or reset the error of the CUDA runtime.
  std::function<void()> release;
  /// Whether to report each retry on stderr. The report calls the function `name`.
  bool report = true;
  std::string name;
};

namespace detail {

/// The counts of all retries in this process. report() returns them.
struct RetryCounts {
  std::atomic<long> out_of_memory{0}, retries{0};
  std::atomic<std::int64_t> waited_microseconds{0};
};
__attribute__((visibility("default"))) inline RetryCounts& retry_counts() {
  static RetryCounts counts;
  return counts;
}

/// A random number from 0 to 1. It differs between threads, and between a process and its forked
/// child.
inline double random_part() {
  static std::atomic<std::uint64_t> calls{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::uint64_t mixed = static_cast<std::uint64_t>(now) ^ (++calls << 48U) ^
                        (static_cast<std::uint64_t>(::getpid()) << 32U);
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;  // the finalizer of SplitMix64
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  mixed ^= mixed >> 31U;
  return static_cast<double>(mixed >> 11U) * 0x1p-53;
}

/// The pause after the call with index `at`, counted from 0. `random` is from 0 to 1.
inline std::chrono::duration<double> pause_after(const RetryPolicy& policy, int at, double random) {
  const double grown = policy.first.count() * std::pow(policy.factor, at);
  return std::chrono::duration<double>(std::min(policy.most.count(), grown) *
                                       (1 + policy.jitter * (2 * random - 1)));
}

/// The error for a policy that is not valid. All comparisons with NaN are false, so the conditions
/// are written so that NaN is an error.
inline std::optional<Error> problem_of(const RetryPolicy& policy) {
  const char* wrong = nullptr;
  if (policy.tries < 1) wrong = "tries";
  if (!(policy.first.count() >= 0)) wrong = "first";
  if (!(policy.factor >= 0)) wrong = "factor";
  if (!(policy.most.count() >= 0)) wrong = "most";
  if (!(policy.jitter >= 0 && policy.jitter <= 1)) wrong = "jitter";
  if (wrong == nullptr) return std::nullopt;
  return Error(Kind::invalid_request, "E0104",
               std::string("RetryPolicy::") + wrong + text(": out of range", "：超出范围"),
               text("tries at least 1; first, factor, most at least 0; jitter from 0 to 1",
                    "tries 至少为 1；first、factor、most 不小于 0；jitter 在 0 到 1 之间"));
}

/// Calls `release`, reports the retry, and sleeps. `at` is the index of the failed call, counted
/// from 0.
inline void before_next_try(const RetryPolicy& policy, int at, std::string what) {
  if (policy.release) policy.release();
  const auto pause = pause_after(policy, at, random_part());
  if (policy.report) {
    constexpr std::size_t kMost = 200;
    what = what.substr(0, std::min(what.find('\n'), kMost));
    const std::string where = policy.name.empty() ? "" : text(" in ", "") + policy.name;
    if (in_chinese())
      std::fprintf(stderr, "berth：%s%s内存耗尽（%s）；第 %d 次尝试（共 %d 次）在 %.1f 秒后\n",
                   policy.name.c_str(), policy.name.empty() ? "" : " 中", what.c_str(), at + 2,
                   policy.tries, pause.count());
    else
      std::fprintf(stderr, "berth: memory ran out%s (%s); try %d of %d in %.1f s\n", where.c_str(),
                   what.c_str(), at + 2, policy.tries, pause.count());
  }
  retry_counts().retries += 1;
  retry_counts().waited_microseconds += static_cast<std::int64_t>(pause.count() * 1e6);
  std::this_thread::sleep_for(pause);
}

template <typename T>
inline constexpr bool is_code_v =
    std::is_enum_v<T> || std::is_same_v<T, std::error_code> || std::is_same_v<T, int>;

/// What a returned value means for a retry. Only error codes count; an int and values of other
/// types are results.
template <typename T>
Verdict verdict_of_result(const T& result) {
  if constexpr (std::is_same_v<T, std::errc> || std::is_same_v<T, std::error_code>)
    return verdict_of(result);
  else if constexpr (std::is_enum_v<T>)
    return is_known_enum<T>() ? verdict_of_enum(result) : Verdict::other;
  else
    return Verdict::other;
}

template <typename T>
std::string words_of_code(const T& code) {
  if constexpr (std::is_same_v<T, std::error_code>)
    return code.message();
  else
    return (std::is_enum_v<T> ? std::string(name_of_type<T>()) : text("error", "错误")) + " " +
           std::to_string(static_cast<long long>(code));
}

template <typename T>
std::string words_of_result(const T& result) {
  if constexpr (is_code_v<T>)
    return words_of_code(result);
  else
    return {};
}

#if defined(__cpp_exceptions)
/// A failed call: the text of its error, and whether another call may succeed.
struct Failed {
  bool may_retry = false;
  std::string what;
};

/// Judges the current exception; call it only in a catch block. Throws E0566 if the device's
/// context is lost. If the exception does not mean that memory ran out, throws it again.
template <typename E>
Failed judge_caught(const E& problem, bool last) {
  std::string what;
  if constexpr (std::is_base_of_v<std::exception, E>)
    what = problem.what();
  else
    what = words_of_code(problem);
  const Verdict verdict = verdict_of(problem);
  if (verdict == Verdict::context_lost)
    std::throw_with_nested(
        Error(Kind::context_lost, "E0566",
              text("the device's context is lost: ", "设备的上下文已丢失：") + what,
              text("start a new process; CUDA_LAUNCH_BLOCKING=1 names the call",
                   "启动新进程；CUDA_LAUNCH_BLOCKING=1 会指出是哪个调用")));
  if (verdict != Verdict::out_of_memory) throw;
  retry_counts().out_of_memory += 1;
  if (last) throw;
  return {true, std::move(what)};
}

/// Calls the function once. `Also` are more types of exceptions to catch.
template <typename... Also>
struct Attempt {
  template <typename F>
  static Failed call(F& function, bool last) {
    try {
      function();
      return {};
    } catch (const std::exception& problem) {
      return judge_caught(problem, last);
    }
  }
};
template <typename First, typename... More>
struct Attempt<First, More...> {
  template <typename F>
  static Failed call(F& function, bool last) {
    try {
      return Attempt<More...>::call(function, last);
    } catch (const First& problem) {
      return judge_caught(problem, last);
    }
  }
};
#endif

}  // namespace detail

/// Calls a function that returns an error code: an enum or cl_int as in is_out_of_memory(). Calls
/// it again while the code means that memory ran out, at most `policy.tries` times in all. Returns
/// the last code. Fails with E0104 if the policy is not valid.
template <typename F>
Result<std::decay_t<std::invoke_result_t<F&>>> try_retry(const RetryPolicy& policy, F&& function) {
  using Code = std::decay_t<std::invoke_result_t<F&>>;
  static_assert(detail::is_code_v<Code>,
                "berth::try_retry: the function must return an error code");
  if (auto problem = detail::problem_of(policy)) return *std::move(problem);
  for (int at = 0;; ++at) {
    Code code = function();
    if (detail::verdict_of(code) != detail::Verdict::out_of_memory) return code;
    detail::retry_counts().out_of_memory += 1;
    if (at + 1 >= policy.tries) return code;
    detail::before_next_try(policy, at, detail::words_of_code(code));
  }
}

#if defined(__cpp_exceptions)
/// Calls a function again if memory ran out in it, at most `policy.tries` times in all. Memory ran
/// out if the function throws an exception or returns an error code (not an int) that says so.
///
/// Other exceptions pass through. The exception of the last try passes through, too. Destructors of
/// a failed try have run before the next one. The function must be safe to repeat. Throws Error
/// E0566 if the device's context is lost; the exception of the device is nested in it.
///
/// `Also`: further types to catch, such as retry<cl::Error>(…) or retry<cudaError_t>(…).
template <typename... Also, typename F>
std::invoke_result_t<F&> retry(const RetryPolicy& policy, F&& function) {
  using Returned = std::invoke_result_t<F&>;
  if (const auto problem = detail::problem_of(policy)) throw *problem;
  for (int at = 0;; ++at) {
    const bool last = at + 1 >= policy.tries;
    detail::Failed failed;
    if constexpr (std::is_void_v<Returned>) {
      failed = detail::Attempt<Also...>::call(function, last);
      if (!failed.may_retry) return;
    } else {
      using Kept = std::conditional_t<std::is_reference_v<Returned>,
                                      std::remove_reference_t<Returned>*, Returned>;
      std::optional<Kept> kept;
      const auto call = [&] {
        if constexpr (std::is_reference_v<Returned>) {
          auto&& result = function();
          kept = std::addressof(result);
        } else {
          kept.emplace(function());
        }
      };
      failed = detail::Attempt<Also...>::call(call, last);
      if constexpr (std::is_reference_v<Returned>) {
        if (!failed.may_retry) return static_cast<Returned>(**kept);
      } else if (!failed.may_retry) {
        if (detail::verdict_of_result(*kept) != detail::Verdict::out_of_memory)
          return *std::move(kept);
        detail::retry_counts().out_of_memory += 1;
        if (last) return *std::move(kept);
        failed.what = detail::words_of_result(*kept);
      }
    }
    detail::before_next_try(policy, at, std::move(failed.what));
  }
}

template <typename... Also, typename F>
std::invoke_result_t<F&> retry(F&& function) {
  return retry<Also...>(RetryPolicy(), std::forward<F>(function));
}
#endif

}  // namespace berth
