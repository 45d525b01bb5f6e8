#include "base/file.hpp"

#include <doctest/doctest.h>

#include "base/text.hpp"

using namespace berth;

TEST_CASE("bytes of others become text that a terminal and JSON can take") {
  CHECK(printable("train.py 训练") == "train.py 训练");
  CHECK(printable("a\xffz") == "a\xEF\xBF\xBDz");
  CHECK(printable("\x1b[31mred") == "\xEF\xBF\xBD[31mred");
  CHECK(printable("\xed\xa0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(printable("cut \xe8\xae") == "cut \xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("a missing file and a folder are errors with a code, not exceptions") {
  const auto missing = read_file("/nonexistent/file");
  REQUIRE(!missing);
  CHECK(missing.error().code == ErrorCode::kNotFound);
  const auto folder = read_file("/tmp");
  REQUIRE(!folder);
  CHECK(folder.error().code == ErrorCode::kUnavailable);
  CHECK(!read_number("/proc/version"));
}

TEST_CASE("numbers are whole lines or nothing") {
  CHECK(to_number("42") == 42);
  CHECK(to_number("0x10de") == 0x10de);
  CHECK(to_number("-1") == -1);
  CHECK(!to_number(""));
  CHECK(!to_number("12 MHz"));
  CHECK(!to_number("99999999999999999999"));
}

TEST_CASE("the language follows the locale's first two letters") {
  CHECK(language_from("zh_CN.UTF-8") == Language::kChinese);
  CHECK(language_from("zh_CN.utf8") == Language::kChinese);
  CHECK(language_from("zh") == Language::kChinese);
  CHECK(language_from("C") == Language::kEnglish);
  // Berth prints UTF-8, which a terminal with another encoding would garble.
  CHECK(language_from("zh_CN.GB18030") == Language::kEnglish);
  CHECK(language_from("zh_TW.Big5") == Language::kEnglish);
  set_language(Language::kChinese);
  CHECK(text("error: {}", 1) == "错误：1");
  CHECK(tr("a sentence nobody translated") == "a sentence nobody translated");
  set_language(Language::kEnglish);
}
