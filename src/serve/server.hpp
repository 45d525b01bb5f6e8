// Server: HTTP/1.1 over a Unix socket, on the caller's event loop. It knows nothing of jobs.
// Whoever connects is hostile until shown otherwise: headers and bodies are bounded, who is slow is
// dropped, who has too many connections loses their oldest idle one, who keeps too much in memory
// is told to come again, and nobody waits for anybody else.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/result.hpp"
#include "serve/socket_file.hpp"

namespace boost::asio {
class io_context;
}

namespace berth::serve {

/// From the kernel (SO_PEERCRED), of the moment of connect().
struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // SO_PEERGROUPS
  /// Of the process with that number when we let the caller in, which may not be the one that
  /// connected any more: whose it is must be asked as well. nullopt: there was none.
  std::optional<std::uint64_t> start_ticks = {};
};

struct Call {
  std::string method;                        // "GET"
  std::string path;                          // "/v1/jobs/7", decoded, without the query
  std::map<std::string, std::string> query;  // decoded
  std::string body;
  Peer peer;
};

inline constexpr const char* kAnyBytes = "application/octet-stream";

struct Reply {
  int status = 200;
  std::string body;  // "": none
  const char* type = "application/json";
};

/// One answer to one call, now or later. Copies are the same answer; only the first is sent.
class Answer {
 public:
  class Connection;
  explicit Answer(std::weak_ptr<Connection> connection) : connection_(std::move(connection)) {}
  void send(Reply reply) const;
  /// An answer without an end instead (text/event-stream), which goes on at each call, as it is
  /// given. Whoever takes it too slowly is dropped.
  void stream(std::string_view bytes) const;
  /// False when the client has gone: nobody waits for it.
  [[nodiscard]] bool is_wanted() const;

 private:
  std::weak_ptr<Connection> connection_;
};

struct Limits {
  std::size_t header_bytes = 8 << 10;
  std::size_t body_bytes = 4 << 20;  // an environment may have 2 MiB, and is longer as JSON
  std::size_t connections = 2000;    // of all
  std::size_t connections_a_user = 500;
  std::size_t bytes_a_user = 64 << 20;   // of calls and answers at once; one of them may be larger
  std::size_t stream_bytes = 256 << 10;  // that wait for a client of a stream
  int idle_seconds = 60;                 // between two calls
  int slow_seconds = 10;                 // for a call to come in, or an answer to go out
};

class Server {
 public:
  using Handle = std::function<void(Call, const Answer&)>;
  /// Called when the calls that are there were handled: what many of them need can be done once.
  using Rest = std::function<void()>;
  /// For all users of the machine: identity comes from the kernel. Fails as SocketFile::make.
  [[nodiscard]] static Result<std::unique_ptr<Server>> listen(boost::asio::io_context& loop,
                                                              const std::string& path, bool for_all,
                                                              Handle handle, Rest rest,
                                                              Limits limits = {});
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();
  [[nodiscard]] std::size_t connections() const;
  /// Goes with the server, unless it is left.
  [[nodiscard]] SocketFile& file() { return file_; }

  struct Parts;

 private:
  Server(std::shared_ptr<Parts> parts, SocketFile file);
  std::shared_ptr<Parts> parts_;
  SocketFile file_;
};

}  // namespace berth::serve
