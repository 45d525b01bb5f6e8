#include "system/own_memory.hpp"

#include <doctest/doctest.h>

#include <string>

#include "base/file.hpp"
#include "base/text_parts.hpp"

using namespace berth;

namespace {

/// Resident pages that belong to files (shared pages in /proc/self/statm).
std::int64_t file_pages() {
  const std::string text = slurp("/proc/self/statm").value_or("");
  const auto words = split(text, ' ');
  return words.size() > 2 ? to_number(words[2]).value_or(0) : 0;
}

}  // namespace

TEST_CASE("pages of the program are given back, and it goes on") {
  const std::int64_t before = file_pages();
  system::release_startup_memory();
  const std::int64_t after = file_pages();
  CHECK(after > 0);
  CHECK(after < before);
  CHECK(std::to_string(6 * 7) == "42");
}
