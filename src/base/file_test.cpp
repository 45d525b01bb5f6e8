#include "base/file.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/text.hpp"

using namespace berth;

TEST_CASE("a missing file and a folder are errors with a code, not exceptions") {
  const auto missing = read_file("/nonexistent/file");
  REQUIRE(!missing);
  CHECK(missing.error().code == ErrorCode::kNotFound);
  const auto folder = read_file("/tmp");
  REQUIRE(!folder);
  CHECK(folder.error().code == ErrorCode::kUnavailable);
  CHECK(!read_number("/proc/version"));
}

TEST_CASE("the language follows the locale's first two letters") {
  CHECK(language_from("zh_CN.UTF-8") == Language::kChinese);
  CHECK(language_from("zh_CN.utf8") == Language::kChinese);
  CHECK(language_from("zh") == Language::kChinese);
  CHECK(language_from("C") == Language::kEnglish);
  // Berth prints UTF-8, so with a locale of another encoding it uses English.
  CHECK(language_from("zh_CN.GB18030") == Language::kEnglish);
  CHECK(language_from("zh_TW.Big5") == Language::kEnglish);
  set_language(Language::kChinese);
  CHECK(text("error: {}", 1) == "错误：1");
  CHECK(tr("a sentence nobody translated") == "a sentence nobody translated");
  set_language(Language::kEnglish);
}

TEST_CASE("a file that somebody else put there is read only if it is a regular file") {
  namespace fs = std::filesystem;
  char name[] = "/tmp/berth-regular-XXXXXX";
  const fs::path folder = ::mkdtemp(name);
  std::ofstream(folder / "file") << "0123456789";
  fs::create_symlink(folder / "file", folder / "link");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(slurp_regular((folder / "file").string(), 100) == "0123456789");
  CHECK(slurp_regular((folder / "file").string(), 3, 5) == "567");
  CHECK(slurp_regular((folder / "file").string(), 3, 50) == "");
  for (const char* other : {"link", "pipe", "missing", ""})
    CHECK_FALSE(slurp_regular((folder / other).string(), 100));
  fs::remove_all(folder);
}
