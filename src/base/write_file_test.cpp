#include "base/write_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/fnv1a.hpp"

namespace fs = std::filesystem;

TEST_CASE("a replaced file has the new content and permissions, and no draft stays") {
  char name[] = "/tmp/berth-write-XXXXXX";
  const fs::path folder = ::mkdtemp(name);
  const std::string path = (folder / "file").string();
  REQUIRE(berth::replace_file(path, "one", 0600));
  REQUIRE(berth::replace_file(path, "two", 0644));
  CHECK(berth::slurp(path) == "two");
  struct stat about = {};
  REQUIRE(::stat(path.c_str(), &about) == 0);
  CHECK((about.st_mode & 07777) == 0644);
  fs::create_symlink("elsewhere", folder / "link");
  REQUIRE(berth::replace_file((folder / "link").string(), "three", 0600));
  CHECK_FALSE(fs::exists(folder / "elsewhere"));
  CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 2);
  fs::remove_all(folder);
}

TEST_CASE("a file that cannot be replaced stays, and errno says why") {
  CHECK_FALSE(berth::replace_file("/no/such/folder/file", "x", 0600));
  CHECK(errno == ENOENT);
  const berth::Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full);
  CHECK_FALSE(berth::write_all(full.get(), "x"));
  CHECK(errno == ENOSPC);
  CHECK(berth::write_all(full.get(), ""));
}

TEST_CASE("checksums are those of FNV-1a") {
  CHECK(berth::fnv1a("") == 0xcbf29ce484222325ULL);
  CHECK(berth::fnv1a("a") == 0xaf63dc4c8601ec8cULL);
  CHECK(berth::fnv1a("foobar") == 0x85944171f73967e8ULL);
}
