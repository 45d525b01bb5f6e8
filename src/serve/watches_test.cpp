#include "serve/watches.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio.hpp>
#include <csignal>
#include <optional>

using berth::serve::Watches;
namespace asio = boost::asio;
using Stream = asio::posix::stream_descriptor;

namespace {

/// The read end of a pipe that contains data.
Stream one_to_read(asio::io_context& loop) {
  std::array<int, 2> ends{-1, -1};
  REQUIRE(::pipe(ends.data()) == 0);
  REQUIRE(::write(ends[1], "x", 1) == 1);
  ::close(ends[1]);
  return Stream(loop, ends[0]);
}

}  // namespace

TEST_CASE("an event of a closed descriptor does not make another process look ended") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  REQUIRE(child > 0);
  int gone = 0;
  asio::io_context loop;
  Watches watches(loop, [&](berth::model::JobId) { ++gone; });
  // Both streams are readable. The first handler closes the other stream, whose event is already
  // pending in the loop. The child's pidfd then reuses the descriptor number of the closed stream.
  std::array<std::optional<Stream>, 2> two{one_to_read(loop), one_to_read(loop)};
  bool is_watched = false;
  for (std::size_t i = 0; i < 2; ++i)
    two.at(i)->async_wait(Stream::wait_read, [&, i](boost::system::error_code) {
      if (is_watched) return;
      is_watched = true;
      two.at(1 - i).reset();
      watches.watch(1, {{child, *berth::serve::start_ticks_of(child)}});
    });
  for (int i = 0; i < 10; ++i) loop.poll();
  CHECK(is_watched);
  CHECK(gone == 0);
  ::kill(child, SIGKILL);
  while (gone == 0 && loop.run_one() > 0) {
  }
  CHECK(gone == 1);
  ::waitpid(child, nullptr, 0);
}
