// Compares declarations for the calling convention: the same number of parameters, each of the same
// size and class. Two pointers match if what they point to matches; void* and types without a
// definition match every pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace abi {

template <class T>
concept Complete = requires {
  sizeof(T);
};

template <class A, class B>
constexpr bool matches() {
  using Ours = std::remove_cv_t<A>;
  using Theirs = std::remove_cv_t<B>;
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using To = std::remove_pointer_t<Ours>;
    using TheirTo = std::remove_pointer_t<Theirs>;
    if constexpr (Complete<To> && Complete<TheirTo>)
      return matches<To, TheirTo>();
    else
      return true;
  } else if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return false;
  } else {
    return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs) &&
           std::is_class_v<Ours> == std::is_class_v<Theirs> &&
           std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
  }
}

template <class Ours, class Theirs>
struct Call : std::false_type {};
template <class R, class... P, class S, class... Q>
requires(sizeof...(P) == sizeof...(Q)) struct Call<R(P...), S(Q...)>
    : std::bool_constant<matches<R, S>() && (matches<P, Q>() && ...)> {
};

}  // namespace abi
