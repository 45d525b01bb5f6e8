#include "base/shell_word.hpp"

#include <doctest/doctest.h>

using berth::shell_word;

TEST_CASE("plain values need no quotes, all others get them") {
  CHECK(shell_word("0,1") == "0,1");
  CHECK(shell_word("GPU-1a2b") == "GPU-1a2b");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("*:cpu") == "'*:cpu'");
  CHECK(shell_word("~") == "'~'");
  CHECK(shell_word("a'b") == "'a'\\''b'");
}
