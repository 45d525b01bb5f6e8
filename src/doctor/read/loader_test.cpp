// tests/doctor/loader_truth_test.py compares the simulation with glibc. The tests in this file
// cover cases that the comparison cannot produce.
#include "doctor/read/loader.hpp"
#include "doctor/tree/tree.hpp"

#include <doctest/doctest.h>
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using berth::system::TemporaryTree;

namespace {

ReadAt bytes(const std::string& file) {
  return [file](std::uint64_t offset, void* into, std::size_t size) {
    if (offset > file.size() || file.size() - offset < size) return false;
    std::memcpy(into, file.data() + offset, size);
    return true;
  };
}

/// The content of an ELF file. Uses /bin/sh, which is small; this test program may have hundreds of
/// megabytes.
std::string shell() {
  std::ifstream file("/bin/sh", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a program is parsed: interpreter, needed libraries, versions") {
  const auto elf = parse_elf(bytes(shell()));
  REQUIRE(elf);
  CHECK(elf->is_64);
  CHECK(elf->interpreter.find("ld-linux") != std::string::npos);
  bool libc = false;
  for (const std::string& name : elf->needed) libc = libc || name == "libc.so.6";
  CHECK(libc);
  bool version = false;
  for (const NeededVersions& one : elf->needed_versions)
    for (const std::string& name : one.versions) version = version || name.starts_with("GLIBC_2.");
  CHECK(version);
}

TEST_CASE("an executable-stack request is read from the program headers") {
  std::string program = shell();
  REQUIRE(parse_elf(bytes(program)));
  CHECK_FALSE(parse_elf(bytes(program))->executable_stack);
  Elf64_Ehdr header{};
  std::memcpy(&header, program.data(), sizeof header);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const std::size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr one{};
    std::memcpy(&one, program.data() + at, sizeof one);
    if (one.p_type != PT_GNU_STACK) continue;
    one.p_flags |= PF_X;
    std::memcpy(program.data() + at, &one, sizeof one);
  }
  CHECK(parse_elf(bytes(program))->executable_stack);
}

TEST_CASE("glibc's library defines the known versions, and no other") {
  const Tree tree("/");
  Loader loader(tree, {});
  loader.start("/proc/self/exe");
  for (const LoadedObject& one : loader.objects()) {
    if (one.elf.soname != "libc.so.6") continue;
    std::ifstream file(one.path, std::ios::binary);
    const ReadAt libc = bytes({std::istreambuf_iterator<char>(file), {}});
    CHECK(defines_symbol(libc, "getenv") == true);
    CHECK(defines_symbol(libc, "cuInit") == false);
    CHECK(one.elf.defined_versions.size() > 10);
    return;
  }
  FAIL("this program has no libc");
}

TEST_CASE("a truncated file is read as far as possible") {
  const std::string whole = shell();
  for (std::size_t size = 0; size < 4096; size += 61)
    static_cast<void>(parse_elf(bytes(whole.substr(0, size))));
  CHECK(parse_elf(bytes("")).is_absent());
  CHECK(parse_elf(bytes("#!/bin/sh\n")).is_absent());
}

TEST_CASE("this machine's cache names libc, and a truncated cache does no harm") {
  const Tree tree("/");
  const auto cache = tree.read("/etc/ld.so.cache", 64 << 20);
  if (!cache) return;
  CHECK(parse_loader_cache(*cache).contains("libc.so.6"));
  for (std::size_t size = 0; size < std::min<std::size_t>(cache->size(), 3000); size += 7)
    static_cast<void>(parse_loader_cache(std::string_view(*cache).substr(0, size)));
}

TEST_CASE("a program in a tree uses the tree's libraries, never this machine's") {
  const TemporaryTree folder;
  folder.put("app/program", shell());
  const Tree tree(folder.path);
  Loader loader(tree, {});
  loader.start("/app/program");
  REQUIRE(loader.objects().size() > 1);
  for (std::size_t i = 1; i < loader.objects().size(); ++i) CHECK(loader.objects()[i].path.empty());
}
