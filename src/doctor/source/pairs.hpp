// For tests of source rules: a file with a misleading line, and the correct version of that file.
#pragma once

#include <doctest/doctest.h>

#include <span>
#include <string>

#include "doctor/source/source.hpp"

namespace berth::doctor::source {

struct Pair {
  const char* what;
  int line;  // number of the line in which the mark is expected
  const char* wrong;
  const char* right;
};

inline std::string marks_of(Kind kind, std::string_view bytes) {
  std::string all;
  for (const Mark& mark : read_bytes("train.py", kind, bytes).marks)
    all += mark.what + ":" + std::to_string(mark.line) + " ";
  return all;
}

inline void check(Kind kind, std::span<const Pair> pairs) {
  for (const Pair& pair : pairs) {
    CAPTURE(pair.what);
    CHECK(marks_of(kind, pair.wrong) ==
          std::string(pair.what) + ":" + std::to_string(pair.line) + " ");
    CHECK(marks_of(kind, pair.right) == "");
  }
}

}  // namespace berth::doctor::source
