#include "serve/server.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "system/temporary_tree.hpp"

using berth::Descriptor;
using berth::serve::Answer;
using berth::serve::Call;
using berth::serve::Limits;
using berth::serve::Server;

namespace {

/// An echo server in its own thread. "/later" is answered when "/now" is called. "/rest" is
/// answered after all calls that arrived together with it.
class Running {
 public:
  explicit Running(Limits limits = {}) {
    auto made = Server::listen(
        loop, path(), false,
        [this](const Call& call, const Answer& answer) {
          if (call.path == "/later") {
            waiting.push_back(answer);
            return;
          }
          if (call.path == "/rest") {
            resting.push_back(answer);
            return;
          }
          if (call.path == "/now")
            for (const Answer& one : waiting) one.send({200, one.is_wanted() ? "now" : "?"});
          std::string said = call.method + " " + call.path + " " + call.body;
          for (const auto& [key, value] : call.query) said += " " + key + "=" + value;
          if (call.path == "/who")
            said = std::to_string(call.peer.uid) + " " + std::to_string(call.peer.pid);
          answer.send({call.path == "/missing" ? 404 : 200, said});
        },
        [this] {
          for (const Answer& one : std::exchange(resting, {})) one.send({200, "rested"});
        },
        limits);
    REQUIRE(made);
    server = *std::move(made);
    thread = std::thread([this] { loop.run(); });
  }
  ~Running() {
    loop.stop();
    thread.join();
    server.reset();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  [[nodiscard]] std::string path() const { return folder.path + "/s"; }
  [[nodiscard]] Descriptor connect() const {
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path().c_str());
    REQUIRE(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const timeval patience{20, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return socket;
  }

  berth::system::TemporaryTree folder;
  boost::asio::io_context loop;
  std::unique_ptr<Server> server;
  std::vector<Answer> waiting, resting;
  std::thread thread;
};

void say(const Descriptor& to, const std::string& words) {
  static_cast<void>(::send(to.get(), words.data(), words.size(), MSG_NOSIGNAL));
}

/// Reads until `end` arrives or the other side closes.
std::string hear(const Descriptor& from, const std::string& end = "\r\n\r\n") {
  std::string all;
  char bytes[4096];
  while (end.empty() || all.find(end) == std::string::npos) {
    const ssize_t n = ::recv(from.get(), bytes, sizeof bytes, 0);
    if (n <= 0) return all + (n == 0 ? "<closed>" : "<error>");
    all.append(bytes, static_cast<std::size_t>(n));
  }
  return all;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: berth\r\n\r\n";
}

}  // namespace

TEST_CASE("a call is answered, and the connection serves the next one") {
  const Running server;
  const Descriptor client = server.connect();
  say(client, get("/a%20b?x=1&y=%2F&z"));
  const std::string first = hear(client, "z=");
  CHECK(has(first, "HTTP/1.1 200 OK"));
  CHECK(has(first, "GET /a b  x=1 y=/ z="));
  say(client, "POST /missing HTTP/1.1\r\nHost: berth\r\nContent-Length: 5\r\n\r\nhello");
  const std::string second = hear(client, "hello");
  CHECK(has(second, "404"));
  say(client, get("/one") + get("/two"));
  CHECK(has(hear(client, "/two"), "/one"));
  struct stat status = {};
  REQUIRE(::stat(server.path().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("work shared by several calls is done after all received calls were handled") {
  const Running server;
  const Descriptor one = server.connect();
  const Descriptor other = server.connect();
  say(one, get("/rest"));
  say(other, get("/rest"));
  CHECK(has(hear(one, "rested"), "200 OK"));
  CHECK(has(hear(other, "rested"), "200 OK"));
}

TEST_CASE("the kernel identifies the caller") {
  const Running server;
  const Descriptor client = server.connect();
  say(client, "GET /who HTTP/1.1\r\nHost: berth\r\nX-User: root\r\n\r\n");
  const std::string whole = std::to_string(::getuid()) + " " + std::to_string(::getpid());
  CHECK(has(hear(client, whole), whole));
}

TEST_CASE("an answer may come later, and is dropped if the client has disconnected") {
  const Running server;
  const Descriptor patient = server.connect();
  say(patient, get("/later"));
  {
    const Descriptor gone = server.connect();
    say(gone, get("/later"));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const Descriptor other = server.connect();
  say(other, get("/now"));
  CHECK(has(hear(patient, "now"), "now"));
  CHECK(has(hear(other, "/now"), "/now"));
}

TEST_CASE("invalid, too long or endless calls are refused, and others are served") {
  Limits limits;
  limits.slow_seconds = 1;
  limits.body_bytes = 1000;
  const Running server(limits);
  const auto answer_to = [&](const std::string& words) {
    const Descriptor client = server.connect();
    say(client, words);
    return hear(client, "");
  };
  CHECK(has(answer_to("nonsense\r\n\r\n"), "400"));
  CHECK(has(answer_to(std::string(20'000, 'a')), "4"));
  CHECK(has(answer_to("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'a') + "\r\n\r\n"), "431"));
  CHECK(has(answer_to("POST / HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n"), "413"));
  CHECK(has(answer_to("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
                      std::string(2000, 'a') + "\r\n0\r\n\r\n"),
            "413"));
  // A client that is still sending its call gets the answer, too.
  const std::string long_call =
      "POST / HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n" + std::string(4'000'000, 'a');
  for (int i = 0; i < 20; ++i) CHECK(has(answer_to(long_call), "E0919"));
  CHECK(has(answer_to("GET /%zz HTTP/1.1\r\nHost: b\r\n\r\n"), "400"));
  // A client that stops in the middle of its call is disconnected.
  CHECK(answer_to("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf") == "<closed>");
  const Descriptor good = server.connect();
  say(good, get("/fine"));
  CHECK(has(hear(good, "/fine"), "200"));
}

TEST_CASE("a user with too many connections loses the oldest idle one") {
  Limits limits;
  limits.connections_a_user = 10;
  const Running server(limits);
  std::vector<Descriptor> clients;
  for (int i = 0; i < 30; ++i) clients.push_back(server.connect());
  say(clients.back(), get("/last"));
  CHECK(has(hear(clients.back(), "/last"), "200"));
  CHECK(has(hear(clients.front(), ""), "<closed>"));
}

TEST_CASE("a server waits for the lock that a killed server's child still holds") {
  const Running server;  // only its folder is used
  const std::string path = server.folder.path + "/killed";
  std::array<int, 2> ready{};
  REQUIRE(::pipe(ready.data()) == 0);
  const pid_t killed = ::fork();
  if (killed == 0) {
    boost::asio::io_context loop;
    const auto mine = Server::listen(
        loop, path, false, [](const Call&, const Answer&) {}, [] {});
    if (::fork() == 0) {  // this child has inherited the lock and the socket
      ::poll(nullptr, 0, 300);
      ::_exit(0);
    }
    [[maybe_unused]] const auto told = ::write(ready[1], "", mine ? 1 : 0);
    ::pause();
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::kill(killed, SIGKILL);
  siginfo_t how;
  REQUIRE(::waitid(P_PID, static_cast<id_t>(killed), &how, WEXITED | WNOWAIT) == 0);
  boost::asio::io_context loop;
  CHECK(Server::listen(
      loop, path, false, [](const Call&, const Answer&) {}, [] {}));
  ::waitpid(killed, nullptr, 0);
  for (const int end : ready) ::close(end);
}

TEST_CASE("one path has one server, and the socket of a dead server is replaced") {
  Running server;
  boost::asio::io_context other;
  const auto second = Server::listen(
      other, server.path(), false, [](const Call&, const Answer&) {}, [] {});
  REQUIRE_FALSE(second);
  CHECK(second.error().id == "E0909");
  const std::string stale = server.folder.path + "/stale";
  {
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, stale.c_str());
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  CHECK(Server::listen(
      other, stale, false, [](const Call&, const Answer&) {}, [] {}));
  CHECK(Server::listen(
            other, "/proc/none/s", false, [](const Call&, const Answer&) {}, [] {})
            .error()
            .id == "E0910");
  CHECK(Server::listen(
            other, "/tmp/" + std::string(200, 'x'), false, [](const Call&, const Answer&) {}, [] {})
            .error()
            .id == "E0910");
}
