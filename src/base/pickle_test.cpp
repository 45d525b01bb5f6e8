#include "base/pickle.hpp"

#include <doctest/doctest.h>

using berth::Cursor;
using berth::FileBytes;
using berth::Pickle;
using namespace std::string_view_literals;

namespace {

using Kind = Pickle::Kind;

/// Reads a pickle that may contain values of any kind.
std::optional<Pickle> read(std::string_view bytes) {
  const FileBytes file = berth::file_of(bytes);
  Cursor cursor(file, 0, file.size);
  return Pickle::read(cursor, Pickle::Contents::kAny);
}

// pickle.dumps({"a": [1, -2, 300, 70000, 1 << 40, None, True, 1.5], "b": (b"x", {})}, protocol)
constexpr std::string_view kProtocol2 =
    "\x80\x02}q\0(X\x01\0\0\0aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM,"
    "\x01Jp\x11\x01\0\x8a\x06\0\0\0\0\0"
    "\x01N\x88G?\xf8\0\0\0\0\0\0eX\x01\0\0\0bq\x03K\x07}q\x04\x86q\x05u."sv;

}  // namespace

TEST_CASE("plain values are read") {
  const auto pickle = Pickle::read_plain(kProtocol2);
  REQUIRE(pickle);
  const Pickle::Value* const list = pickle->find(pickle->root(), "a");
  REQUIRE(list);
  REQUIRE(list->items.size() == 8);
  const std::int64_t numbers[] = {1, -2, 300, 70000, 1LL << 40};
  for (std::size_t i = 0; i < std::size(numbers); ++i)
    CHECK(pickle->at(list->items[i]).number == numbers[i]);
  CHECK(pickle->at(list->items[5]).kind == Kind::kNone);
  CHECK(pickle->at(list->items[6]).kind == Kind::kBool);
  CHECK(pickle->at(list->items[7]).kind == Kind::kReal);
  CHECK(pickle->find(pickle->root(), "b")->kind == Kind::kList);
  CHECK_FALSE(pickle->find(pickle->root(), "c"));
  CHECK_FALSE(pickle->find(*list, "a"));
}

TEST_CASE("plain data has nothing that would import or call something") {
  const std::string_view evil =
      "\x80\x02"
      "cos\nsystem\nX\x04\0\0\0true\x85R."sv;
  CHECK_FALSE(Pickle::read_plain(evil));
  const auto pickle = read(evil);
  REQUIRE(pickle);
  CHECK(pickle->root().kind == Kind::kObject);
  CHECK(pickle->at(pickle->root().items[0]).text == "os system");
  for (const char opcode : {'c', 'R', 'b', 'i', 'o', 'P', 'Q', '\x81', '\x82', '\x92', '\x93'})
    CHECK_FALSE(Pickle::read_plain(std::string("\x80\x02NNN") + opcode + "000N."));
}

TEST_CASE("damaged pickles are refused, whatever is cut off") {
  for (std::size_t size = 0; size < kProtocol2.size(); ++size) {
    CHECK_FALSE(Pickle::read_plain(kProtocol2.substr(0, size)));
    CHECK_FALSE(read(kProtocol2.substr(0, size)));
  }
  for (const std::string_view bytes :
       {"."sv, "(."sv, "}e."sv, "]s."sv, "h\x05."sv, "K"sv, "]q"sv, "(Ku."sv, "\x85."sv, "(}u."sv,
        "]]](a."sv, "NN."sv, "]N(b."sv, "}(NNNu."sv, "}Na."sv, "]NNs."sv, "(q\0N0."sv,
        "X\xff\xff\xff\xff\x61."sv, "\x8d\xff\xff\xff\xff\xff\xff\xff\xff\x61."sv}) {
    CHECK_FALSE(Pickle::read_plain(bytes));
    CHECK_FALSE(read(bytes));
  }
}

TEST_CASE("values that contain each other many times cost bounded memory") {
  std::string bytes = "]q";
  bytes += '\0';
  // Each list contains the previous list twice. Copying them would make 2^64 lists.
  for (int i = 0; i < 64; ++i) {
    bytes += "](h";
    bytes += static_cast<char>(i);
    bytes += 'h';
    bytes += static_cast<char>(i);
    bytes += "eq";
    bytes += static_cast<char>(i + 1);
  }
  // The pickle is invalid, because more than one value is on the stack when it ends.
  CHECK_FALSE(Pickle::read_plain(bytes + "."));
  // A list that contains itself is valid. The reader does not follow it.
  CHECK(Pickle::read_plain("]q\0h\0a."sv));
  // The memo holds a text of 1 MB. 100 globals use this text as module and as name.
  const std::string text = std::string("X\0\0\x10\0"sv) + std::string(1 << 20, 'a') + "q" + '\0';
  std::string globals = text;
  for (int i = 0; i < 100; ++i)
    globals +=
        "h\0h\0\x93"
        "0"sv;
  CHECK_FALSE(read(globals + "."));
  CHECK(read(text + std::string("h\0h\0\x93"
                                "00N."sv)));
}
