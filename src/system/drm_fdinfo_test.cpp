#include "system/drm_fdinfo.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace berth;
using namespace berth::system;
using namespace std::chrono_literals;

namespace {
constexpr const char* kAmdgpu =
    "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t524\n"
    "drm-driver:\tamdgpu\ndrm-client-id:\t41\ndrm-pdev:\t0000:03:00.0\npasid:\t32771\n"
    "drm-total-vram:\t2048 KiB\ndrm-resident-vram:\t1024 KiB\ndrm-memory-vram:\t512 KiB\n"
    "drm-memory-gtt: \t64 KiB\ndrm-total-cpu:\t3 MiB\namd-requested-vram:\t9 KiB\n"
    "drm-engine-gfx:\t5000000 ns\ndrm-engine-compute:\t7000000 ns\n";
constexpr const char* kXe =
    "drm-driver:\txe\ndrm-client-id:\t7\ndrm-pdev:\t0000:07:00.0\n"
    "drm-resident-vram0:\t4 MiB\ndrm-resident-system:\t1 MiB\n"
    "drm-cycles-rcs:\t28257900\ndrm-total-cycles-rcs:\t7655183225\ndrm-engine-capacity-rcs:\t1\n"
    "drm-cycles-ccs:\t0\n";

struct Tree {
  Roots roots;
  Tree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "berth-drm-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    roots.drm_proc = pattern;
  }
  ~Tree() { std::filesystem::remove_all(roots.drm_proc); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = roots.drm_proc + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void link(const std::string& name, const std::string& target) const {
    const std::filesystem::path file = roots.drm_proc + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::create_symlink(target, file);
  }
};
}  // namespace

TEST_CASE("fdinfo of amdgpu, resident memory before its older names") {
  const auto info = parse_drm_fdinfo(kAmdgpu);
  REQUIRE(info);
  CHECK(info->driver == "amdgpu");
  CHECK(info->pci_address == "0000:03:00.0");
  CHECK(info->client_id == 41U);
  REQUIRE(info->memory.size() == 3);
  CHECK(info->memory[0].name == "vram");
  CHECK(info->memory[0].amount == 1024U * 1024);
  CHECK(info->memory[1].amount == 64U * 1024);
  CHECK(info->memory[2].amount == 3U << 20);
  DrmClient client;
  add_fdinfo(client, *info);
  CHECK(client.device_bytes == 1024U * 1024);
  CHECK(client.host_bytes == (64U * 1024) + (3U << 20));
  CHECK(client.busy_ns() == 12000000U);
  CHECK(client.compute);
  CHECK(client.graphics);
}

TEST_CASE("fdinfo of xe counts cycles") {
  const auto info = parse_drm_fdinfo(kXe);
  REQUIRE(info);
  CHECK(info->engine_ns.empty());
  REQUIRE(info->cycles.size() == 2);
  CHECK(info->total_cycles[0].amount == 7655183225U);
  DrmClient client;
  add_fdinfo(client, *info);
  CHECK(client.device_bytes == 4U << 20);
  CHECK(client.graphics);
  CHECK(!client.compute);
}

TEST_CASE("fdinfo that is wrong or missing") {
  CHECK(!parse_drm_fdinfo(""));
  CHECK(!parse_drm_fdinfo("pos:\t0\nflags:\t0\n"));
  CHECK(!parse_drm_fdinfo("drm-driver:\t\n"));
  const auto info = parse_drm_fdinfo(
      "drm-driver: i915\ndrm-pdev: ../../etc\ndrm-client-id: -1\ndrm-memory-local0: "
      "18446744073709551615 KiB\ndrm-resident-local0: 5 furlongs\ndrm-engine-: 5 ns\n");
  REQUIRE(info);
  CHECK(info->pci_address.empty());
  CHECK(!info->client_id);
  CHECK(info->memory.empty());
  CHECK(info->engine_ns.empty());
  std::string many = "drm-driver: x\n";
  for (int i = 0; i < 1000; ++i) many += "drm-engine-e" + std::to_string(i) + ": 1 ns\n";
  CHECK(parse_drm_fdinfo(many)->engine_ns.size() == 64);
}

TEST_CASE("clients are found by their links, shared ones count once, for the lowest pid") {
  const Tree tree;
  tree.link("100/fd/0", "/dev/null");
  tree.link("100/fd/5", "/dev/dri/renderD128");
  tree.link("100/fd/6", "/dev/dri/renderD128");
  // descriptor 0 is a link to another kind of file, so its fdinfo is not read
  tree.write("100/fdinfo/0", kAmdgpu);
  tree.write("100/fdinfo/5", kAmdgpu);
  tree.write("100/fdinfo/6", kAmdgpu);
  tree.link("200/fd/5", "/dev/dri/renderD128");
  tree.write("200/fdinfo/5", kAmdgpu);
  tree.link("200/fd/7", "/dev/dri/renderD129");
  tree.write("200/fdinfo/7", kXe);
  tree.write("notapid/fdinfo/5", kXe);
  const auto clients = read_drm_clients(tree.roots, 60s).clients;
  REQUIRE(clients.size() == 2);
  CHECK(clients[0].pid == 100);
  CHECK(clients[0].device_bytes == 1024U * 1024);
  CHECK(clients[1].pid == 200);
  CHECK(clients[1].pci_address == "0000:07:00.0");
}

TEST_CASE("a recorded machine without links is read by its texts") {
  const Tree tree;
  tree.write("300/fdinfo/3", "pos:\t0\n");
  tree.write("300/fdinfo/4", kXe);
  const auto clients = read_drm_clients(tree.roots, 60s).clients;
  REQUIRE(clients.size() == 1);
  CHECK(clients[0].pid == 300);
}

TEST_CASE("without processes there are no clients") {
  Roots roots;
  roots.drm_proc = "/nonexistent";
  CHECK(read_drm_clients(roots, 1s).clients.empty());
  CHECK(read_drm_clients(roots, 1s).finished);
}

TEST_CASE("a search for clients that takes too long is stopped and reported") {
  const Tree tree;
  for (int pid = 1; pid <= 50; ++pid)
    tree.write(std::to_string(pid) + "/fdinfo/3",
               std::string(kXe) + "drm-client-id:\t" + std::to_string(pid) + "\n");
  const DrmSearch cut = read_drm_clients(tree.roots, 0ms);
  CHECK_FALSE(cut.finished);
  CHECK(cut.clients.size() < 50);
  CHECK(read_drm_clients(tree.roots, 60s).finished);
}
