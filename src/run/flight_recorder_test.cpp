#include "run/flight_recorder.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

using namespace berth;
using namespace berth::run;

namespace {

/// Writes data in the form of PyTorch's pickler: protocol 2, memoised texts, lists and dictionaries
/// after a mark.
class Writer {
 public:
  Writer() : out_("\x80\x02", 2) {}
  Writer& raw(std::string_view bytes) {
    out_ += bytes;
    return *this;
  }
  Writer& text(std::string_view words) {
    out_ += 'X';
    for (int i = 0; i < 4; ++i) out_ += static_cast<char>(words.size() >> (8 * i) & 0xff);
    out_ += words;
    return raw("q").raw(std::string(1, static_cast<char>(memo_++)));
  }
  Writer& number(int value) {
    out_ += 'J';
    for (int i = 0; i < 4; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  Writer& entry(int id, const char* state, bool is_p2p = false) {
    raw("}(").text("profiling_name").text(is_p2p ? "nccl:send 0->1" : "nccl:all_reduce");
    text("collective_seq_id").number(id).text("p2p_seq_id").raw("K\x07");
    text("process_group").text("0").text("default_pg").raw("\x86");
    text("time_created_ns").raw(std::string("\x8a\x08\x01\x02\x03\x04\x05\x06\x07\x08", 10));
    text("duration_ms").raw(std::string("G\x3f\xf0\0\0\0\0\0\0", 9));
    text("is_p2p").raw(is_p2p ? "\x88" : "\x89").text("time_discovered_completed_ns").raw("N");
    return text("input_sizes")
        .raw(
            "](](K\x03K\x04"
            "ee")
        .text("state")
        .text(state)
        .raw("u");
  }
  [[nodiscard]] std::string done() const { return out_ + "."; }

 private:
  std::string out_;
  int memo_ = 0;
};

std::string dump_of(const std::vector<std::pair<int, const char*>>& entries, bool is_p2p = false) {
  Writer writer;
  writer.raw("}(").text("version").text("2.10").text("entries").raw("](");
  for (const auto& [id, state] : entries) writer.entry(id, state, is_p2p);
  return writer.raw("eu").done();
}

}  // namespace

TEST_CASE("the first collective that is not complete is the one in which a rank is") {
  auto found = last_collective(dump_of({{40, "completed"}, {41, "started"}, {42, "scheduled"}}));
  REQUIRE(found);
  CHECK(found->name == "all_reduce");
  CHECK(found->group == "default_pg");
  CHECK(found->number == 41);
  CHECK(found->state == "started");
  found = last_collective(dump_of({{40, "completed"}, {41, "completed"}}));
  REQUIRE(found);
  CHECK(found->number == 41);
  CHECK(found->state == "completed");
  found = last_collective(dump_of({{40, "started"}}, true));
  REQUIRE(found);
  CHECK(found->name == "send 0->1");
  CHECK(found->number == 7);
  CHECK_FALSE(last_collective(dump_of({})));
}

TEST_CASE("a damaged dump, or one that would call something, has no collective") {
  const std::string whole = dump_of({{40, "completed"}, {41, "started"}});
  REQUIRE(last_collective(whole));
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_FALSE(last_collective(whole.substr(0, size)));
  CHECK_FALSE(last_collective(std::string(whole).insert(2, "cos\nsystem\n)R0")));
  using namespace std::string_view_literals;
  CHECK_FALSE(last_collective("]q\0h\0a."sv));  // a list that contains itself
}

TEST_CASE("a rank is asked through its pipe, and one without a pipe is left out") {
  namespace fs = std::filesystem;
  char name[] = "/tmp/berth-flight-XXXXXX";
  const fs::path folder = ::mkdtemp(name);
  const std::string stem = (folder / "fr-").string();
  REQUIRE(::mkfifo((stem + "0.pipe").c_str(), 0600) == 0);
  std::ofstream(stem + "1.pipe") << "not a pipe";
  const int pipe = ::open((stem + "0.pipe").c_str(), O_RDONLY | O_NONBLOCK);
  std::thread rank([&] {
    char one = 0;
    while (::read(pipe, &one, 1) != 1) ::usleep(1000);
    const std::string dump = dump_of({{12, "started"}});
    std::ofstream file(stem + "0");
    file << dump.substr(0, 40) << std::flush;
    ::usleep(120'000);
    file << dump.substr(40);
  });
  const auto found = ask_for_collectives(stem, {0, 1, 2}, std::chrono::seconds(60));
  rank.join();
  ::close(pipe);
  REQUIRE(found.size() == 1);
  CHECK(found.at(0).number == 12);
  remove_flight_files(stem, {0, 1, 2}, true);
  CHECK(fs::exists(stem + "0"));
  CHECK_FALSE(fs::exists(stem + "0.pipe"));
  fs::remove_all(folder);
}
