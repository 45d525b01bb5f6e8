#include "system/device_locks.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include "system/temporary_tree.hpp"

using berth::system::DeviceLocks;
using Units = std::vector<std::string>;

TEST_CASE("only one of two brokers gets a device, until it is returned") {
  const berth::system::TemporaryTree folder;
  DeviceLocks one(folder.path + "/locks"), two(folder.path + "/locks");
  CHECK(one.take({"GPU-0", "GPU-1"}).empty());
  one.keep({"GPU-0"});
  CHECK(two.take({"GPU-0", "GPU-1"}) == Units{"GPU-0"});
  two.keep({"GPU-1"});
  one.keep({});
  CHECK(two.take({"GPU-0"}).empty());
  CHECK(one.take({"GPU-0", "GPU-1"}) == Units{"GPU-0", "GPU-1"});
  CHECK(DeviceLocks("").take({"GPU-0"}).empty());
}

TEST_CASE("no lock is created through a link, and a file that cannot be locked blocks nobody") {
  const berth::system::TemporaryTree folder;
  folder.folder("precious");
  folder.link("locks", folder.path + "/precious");
  CHECK(DeviceLocks(folder.path + "/locks").take({"GPU-0"}).empty());
  CHECK(std::filesystem::is_empty(folder.path + "/precious"));
}

TEST_CASE("a keeper holds its devices after its broker died, and the next broker shares them") {
  const berth::system::TemporaryTree folder;
  const std::string file = berth::system::lock_file(folder.path, "GPU-0");
  DeviceLocks other(folder.path);
  std::vector<berth::Descriptor> keeper;
  {
    DeviceLocks broker(folder.path);
    REQUIRE(broker.take({"GPU-0"}).empty());
    broker.keep({"GPU-0"});
    keeper = berth::system::share_locks({file});
  }
  CHECK(other.take({"GPU-0"}) == Units{"GPU-0"});
  CHECK(berth::system::holder_of(file) == ::getpid());
  DeviceLocks next(folder.path);
  next.keep({"GPU-0"});
  CHECK(next.take({"GPU-0"}).empty());
  keeper.clear();
  CHECK(other.take({"GPU-0"}) == Units{"GPU-0"});
  next.keep({});
  CHECK(other.take({"GPU-0"}).empty());
  other.keep({});
  CHECK_FALSE(berth::system::holder_of(file));
}
