#include "run/nccl_log.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace berth::run;

namespace {

/// As NCCL 2.27 writes it, for rank 0 of four on one machine; the host and numbers are made up.
constexpr const char* kRank0 =
    "node1:4015:4015 [0] NCCL INFO cudaDriverVersion 12090\n"
    "node1:4015:4015 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n"
    "node1:4015:4101 [0] NCCL INFO Using network Socket\n"
    "node1:4015:4101 [0] NCCL INFO ncclCommInitRankConfig comm 0x55d0 rank 0 nranks 4 cudaDev 0 "
    "nvmlDev 0 busId 1b000 commId 0x9a - Init START\n"
    "node1:4015:4101 [0] NCCL INFO Channel 00/02 : 0 1 2 3\n"
    "node1:4015:4101 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1\n"
    "node1:4015:4101 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    "node1:4015:4101 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    "node1:4015:4101 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    "node1:4015:4101 [0] NCCL INFO Channel 00/0 : 3[3] -> 0[0] [receive] via NET/Socket/0\n"
    "node1:4015:4101 [0] NCCL INFO ncclCommInitRankConfig comm 0x55d0 rank 0 nranks 4 cudaDev 0 "
    "nvmlDev 0 busId 1b000 commId 0x9a - Init COMPLETE\n";
constexpr const char* kRank3 =
    "[2026-11-02 10:11:12] node1:4018:4104 [3] NCCL INFO Channel 00/0 : 3[3] -> 0[0] [send] via "
    "NET/Socket/0\r\n"
    "[2026-11-02 10:11:12] node1:4018:4104 [3] misc/socket.cc:58 NCCL WARN socketProgress: "
    "Connection closed by remote peer node1<40112>\n"
    "[2026-11-02 10:11:13] node1:4018:4104 [3] misc/socket.cc:58 NCCL WARN socketProgress: "
    "Connection closed by remote peer node1<40112>\n";

}  // namespace

TEST_CASE("the transport of a channel is read from the lines of many versions of NCCL") {
  struct Case {
    const char* words;
    int from, to;
    const char* transport;
  };
  for (const Case& one : {
           Case{"Channel 07/0 : 2[2] -> 3[3] via P2P/CUMEM", 2, 3, "P2P/CUMEM"},
           Case{"Channel 00/0 : 10[2] -> 8[0] via P2P/MNNVL/read", 10, 8, "P2P/MNNVL"},
           Case{"Channel 00/1 : 0[0] -> 1[1] via P2P/direct pointer", 0, 1, "P2P/direct pointer"},
           Case{"Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/2[2]", 0, 1, "P2P/indirect"},
           Case{"Channel 03 : 0[1000] -> 1[2000] via SHM/direct/CE", 0, 1, "SHM/direct/CE"},
           Case{"Channel 01/0 : 3[1] -> 1[1] [send] via NET/IB/2/GDRDMA(PCI)/Shared", 3, 1,
                "NET/IB/GDRDMA"},
           Case{"Channel 03/0 : 47[7] -> 39[7] [receive] via NET/IBext_v8/2", 47, 39,
                "NET/IBext_v8"},
           Case{"Ring 00 : 0[0] -> 1[1] via P2P/IPC", 0, 1, "P2P/IPC"},
           Case{"Channel 00/0 : 0[c1000] -> 1[c6000] via P2P/IPC comm 0x7f31 nRanks 08", 0, 1,
                "P2P/IPC"},
       }) {
    CAPTURE(one.words);
    const auto found = parse_nccl_channel(std::string("h:1:2 [0] NCCL INFO ") + one.words);
    REQUIRE(found);
    CHECK(found->from == one.from);
    CHECK(found->to == one.to);
    CHECK(found->transport == one.transport);
  }
}

TEST_CASE("other lines have no transport") {
  for (const char* words : {"Channel 00/08 : 0 1 2 3", "Channel 00/0 : 0[0] -> 1[1]", "Channel x",
                            "Channel 00/0 : ", "Channel 00/0 : 0[0] -> 1[1] via ",
                            "Channel 00/0 : -1[0] -> 1[1] via P2P/IPC",
                            "Channel 00/0 : 99999999999[0] -> 1[1] via P2P/IPC",
                            "Channel 00/0 : 0[0 -> 1 via P2P", "Connected all rings", ""}) {
    CAPTURE(words);
    CHECK_FALSE(parse_nccl_channel(std::string("h:1:2 [0] NCCL INFO ") + words));
  }
  CHECK_FALSE(parse_nccl_channel("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC"));
}

TEST_CASE("the logs of the ranks are summed up, and a channel that both ends log counts once") {
  NcclLogs logs;
  CHECK_FALSE(logs.result());
  logs.add(0, kRank0);
  logs.add(3, kRank3);
  const auto seen = logs.result();
  REQUIRE(seen);
  CHECK(seen->version == "2.27.5+cuda12.9");
  CHECK(seen->network == "Socket");
  CHECK(seen->communicators == 1);
  REQUIRE(seen->links.size() == 2);
  CHECK(seen->links[0].from == 0);
  CHECK(seen->links[0].to == 1);
  CHECK(seen->links[0].transport == "P2P/CUMEM");
  CHECK(seen->links[0].channels == 2);
  CHECK(seen->links[1].from == 3);
  CHECK(seen->links[1].transport == "NET/Socket");
  CHECK(seen->links[1].channels == 1);
  REQUIRE(seen->warnings.size() == 1);
  CHECK(seen->warnings[0] ==
        "rank 3: socketProgress: Connection closed by remote peer node1<40112>");
  CHECK(seen->more_warnings == 0);
}

TEST_CASE("a hostile log costs bounded memory, and its bytes become text") {
  NcclLogs logs;
  std::ostringstream log;
  for (int i = 0; i < 20'000; ++i) {
    log << "NCCL INFO Channel 00 : " << i << "[0] -> 1[1] via P2P/IPC\n";
    log << "NCCL INFO Channel " << i << " : 0[0] -> 1[1] via SHM\x1b[2J/\xff"
        << "\n";
    log << "NCCL WARN " << i << "\n";
  }
  log << std::string(100'000, 'x') << "NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC";
  logs.add(0, log.str());
  logs.add(1, std::string(1 << 20, '\n'));
  const auto seen = logs.result();
  REQUIRE(seen);
  CHECK(seen->links.size() <= 4096);
  CHECK(seen->warnings.size() == 3);
  CHECK(seen->more_warnings == 20'000 - 3);
  for (const auto& link : seen->links) {
    CHECK(link.channels <= 256);
    CHECK(link.transport.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("each process of a rank has a file, and nothing else in the folder is read") {
  namespace fs = std::filesystem;
  char name[] = "/tmp/berth-nccl-XXXXXX";
  const fs::path folder = ::mkdtemp(name);
  const std::string stem = (folder / "rank-1.nccl").string();
  CHECK(nccl_debug_file("/a%b/rank-1.nccl") == "/a%%b/rank-1.nccl.%p.log");
  const std::string line = "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n";
  const std::string other = "h:1:2 [0] NCCL INFO Channel 00/0 : 5[0] -> 6[1] via P2P/IPC\n";
  std::ofstream(stem + ".17.log") << line;
  std::ofstream(stem + ".x.log") << other;
  std::ofstream((folder / "rank-11.nccl.17.log").string()) << other;
  fs::create_symlink(folder / "rank-11.nccl.17.log", stem + ".18.log");
  NcclLogs logs;
  read_nccl_files(stem, 1, true, logs);
  const auto seen = logs.result();
  REQUIRE(seen);
  CHECK(seen->links.size() == 1);
  CHECK_FALSE(fs::exists(stem + ".17.log"));
  CHECK(fs::exists(folder / "rank-11.nccl.17.log"));
  fs::remove_all(folder);
}
