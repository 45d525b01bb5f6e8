#include "run/own_interface.hpp"

#include <doctest/doctest.h>

using berth::run::interface_for_gloo;
using berth::run::InterfaceAddress;

namespace {
const std::vector<InterfaceAddress> kInterfaces{
    {"127.0.0.1", "lo"}, {"172.17.0.1", "docker0"}, {"10.0.0.5", "eth0"}, {"fd00::5", "eth0"}};
}

TEST_CASE("Gloo needs an interface if the machine's own name is a loopback address") {
  CHECK(interface_for_gloo({"127.0.1.1"}, "10.0.0.5", kInterfaces) == "eth0");
  CHECK(interface_for_gloo({"127.0.1.1", "::1"}, "fd00::5", kInterfaces) == "eth0");
}

TEST_CASE("Gloo needs no interface if other nodes reach the address of the own name") {
  CHECK_FALSE(interface_for_gloo({"10.0.0.5"}, "10.0.0.5", kInterfaces));
  CHECK_FALSE(interface_for_gloo({"127.0.1.1", "10.0.0.5"}, "10.0.0.5", kInterfaces));
  CHECK_FALSE(interface_for_gloo({}, "10.0.0.5", kInterfaces));
}

TEST_CASE("no interface is named if node 0 is this machine's loopback address, or not reached") {
  CHECK_FALSE(interface_for_gloo({"127.0.1.1"}, "127.0.0.1", kInterfaces));
  CHECK_FALSE(interface_for_gloo({"127.0.1.1"}, "", kInterfaces));
  CHECK_FALSE(interface_for_gloo({"127.0.1.1"}, "10.0.0.6", kInterfaces));
  CHECK_FALSE(interface_for_gloo("127.0.0.1"));
}
