#include "run/channel.hpp"

#include <doctest/doctest.h>

using namespace berth::run;

TEST_CASE("records sent before closing are received, even if one of ours was not read") {
  auto channel = make_channel();
  REQUIRE(channel);
  CHECK(send(channel->keeper.get(), Event{Event::Kind::kFinished, 7, 0}));
  CHECK(send(channel->front.get(), Order{}));
  channel->keeper.reset();
  Event event;
  CHECK(receive(channel->front.get(), event) == 1);
  CHECK(event.pid == 7);
  CHECK(receive(channel->front.get(), event) == -1);
}

TEST_CASE("a record of another size is an error") {
  auto channel = make_channel();
  REQUIRE(channel);
  CHECK(send(channel->keeper.get(), Greeting{}));
  Event event;
  CHECK(receive(channel->front.get(), event) == -1);
}
