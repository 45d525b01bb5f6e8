#include "run/output_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/descriptor.hpp"

using namespace berth;
using run::limit_output;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

struct Log {
  Log() { file.reset(::mkostemp(path.data(), O_APPEND | O_CLOEXEC)); }
  ~Log() { ::unlink(path.c_str()); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void write_lines(std::size_t bytes) {
    std::string all;
    while (all.size() < bytes) all += "line " + std::to_string(lines++) + "\n";
    REQUIRE(::write(file.get(), all.data(), all.size()) == static_cast<ssize_t>(all.size()));
  }
  [[nodiscard]] std::uint64_t on_disk() const {
    struct stat status = {};
    REQUIRE(::fstat(file.get(), &status) == 0);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  [[nodiscard]] std::string read_all(std::size_t step) const {
    std::string all;
    std::int64_t at = 0;
    for (;;) {
      const auto part = run::read_output(file.get(), at, step);
      if (part.bytes.empty() && part.next == at) return all;
      all += part.bytes;
      at = part.next;
    }
  }
  std::string path = "/tmp/berth-output-XXXXXX";
  Descriptor file;
  int lines = 0;
};

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("the middle of a long output is removed, and reading skips it") {
  Log log;
  log.write_lines(3 * kMiB);
  CHECK(*limit_output(log.path, 4 * kMiB) == 0);
  CHECK(count(log.read_all(1000), "berth") == 0);
  for (int round = 0; round < 3; ++round) {
    log.write_lines(4 * kMiB);
    CHECK(*limit_output(log.path, 4 * kMiB) > kMiB);
    CHECK(log.on_disk() <= 3 * kMiB);
    for (const std::size_t step : {std::size_t{777}, std::size_t{1} << 16}) {
      const std::string all = log.read_all(step);
      CHECK(all.starts_with("line 0\nline 1\n"));
      CHECK(all.ends_with("line " + std::to_string(log.lines - 1) + "\n"));
      CHECK(count(all, "[berth: the output is larger than 4.00 MiB") == 1);
      CHECK(all.find('\0') == std::string::npos);
    }
  }
}

TEST_CASE("a limit that changes, as with the free disk space, leaves one gap") {
  for (const auto& [first, second] : {std::pair{4 * kMiB, 8 * kMiB}, {8 * kMiB, 4 * kMiB}}) {
    Log log;
    log.write_lines(12 * kMiB);
    CHECK(*limit_output(log.path, first) > 0);
    log.write_lines(9 * kMiB);
    CHECK(*limit_output(log.path, second) > 0);
    const std::string all = log.read_all(1 << 16);
    CHECK(all.find('\0') == std::string::npos);
    CHECK(count(all, "[berth: the output") == 1);
    CHECK(all.ends_with("line " + std::to_string(log.lines - 1) + "\n"));
  }
}

TEST_CASE("a reader inside of a part that is removed later continues after it") {
  Log log;
  log.write_lines(8 * kMiB);
  const std::int64_t reader = 3 * kMiB;
  REQUIRE(run::skip_removed(log.file.get(), reader) == reader);
  CHECK(*limit_output(log.path, 4 * kMiB) > 4 * kMiB);
  CHECK(run::skip_removed(log.file.get(), reader) > 5 * static_cast<std::int64_t>(kMiB));
  CHECK(run::read_output(log.file.get(), reader, 1000).bytes.find('\0') == std::string::npos);
}

TEST_CASE("zeros that a job wrote stay, also where the file system stores none") {
  Log log;
  REQUIRE(::ftruncate(log.file.get(), 2 * kMiB) == 0);
  log.write_lines(10);
  const std::string all = log.read_all(1 << 16);
  CHECK(all.size() > 2 * kMiB);
  CHECK(all.starts_with(std::string(2 * kMiB, '\0') + "line 0"));
}

TEST_CASE("no file, a link and a folder have no output to limit") {
  CHECK(*limit_output("/tmp/berth-no-such-file", 1) == 0);
  CHECK(*limit_output("/tmp", 1) == 0);
}
