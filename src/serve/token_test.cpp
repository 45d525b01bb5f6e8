#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/file.hpp"
#include "serve/tcp_door.hpp"
#include "serve/token.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::serve;

TEST_CASE("tokens are equal only if all bytes are equal") {
  const std::string token(64, 'a');
  CHECK(is_same_token(token, token));
  CHECK_FALSE(is_same_token("", token));
  CHECK_FALSE(is_same_token(token.substr(1), token));
  CHECK_FALSE(is_same_token(token + "a", token));
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string other = token;
    other[i] = 'b';
    CHECK_FALSE(is_same_token(other, token));
  }
}

TEST_CASE("only host names that no foreign domain can have are accepted") {
  for (const char* ours :
       {"127.0.0.1:80", "127.0.0.1", "127.9.0.1:80", "localhost:80", "LocalHost", "[::1]:80"})
    CHECK_MESSAGE(is_own_host(ours, 80), ours);
  for (const char* other :
       {"", ":80", "127.0.0.1:81", "evil.example", "evil.example:80", "127.0.0.1.evil.example",
        "localhost.evil.example:80", "10.0.0.1:80", "[::1", "127.0.0.1:80:80", "127.0.0.1 "})
    CHECK_MESSAGE(!is_own_host(other, 80), other);
}

TEST_CASE("a token is created once, and used only while only its user can read it") {
  const berth::system::TemporaryTree folder;
  const std::string file = token_file(folder.path);
  const auto token = token_in(file);
  REQUIRE(token);
  CHECK(token->size() == 64);
  CHECK(token_in(file).value() == *token);
  struct stat status = {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0700U}) {
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    CHECK(token_in(file).error().id == "E0914");
  }
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  CHECK(token_in(file));
  REQUIRE(::truncate(file.c_str(), 20) == 0);
  CHECK(token_in(file).error().id == "E0914");
  REQUIRE(::rename(file.c_str(), (file + ".away").c_str()) == 0);
  REQUIRE(::symlink((file + ".away").c_str(), file.c_str()) == 0);
  CHECK(token_in(file).error().id == "E0914");
  ::unlink(file.c_str());
  CHECK(token_in(folder.path + "/none/tcp-token").error().id == "E0914");
  CHECK(token_in(file).value() != *token);
}
