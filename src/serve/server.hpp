// Server: HTTP/1.1 over a Unix socket, on the caller's event loop. It knows nothing about jobs.
// Clients are untrusted: headers and bodies have size limits, and slow clients are dropped. A user
// with too many connections loses the oldest idle connection. A user with too much data in memory
// must retry later. No client delays another.
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

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "serve/socket_file.hpp"

namespace boost::asio {
class io_context;
}

namespace berth::serve {

/// The client of a connection, as the kernel reported it (SO_PEERCRED) at the time of connect().
struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // SO_PEERGROUPS
  /// Start time of the process with that pid when the connection was accepted. The pid may have
  /// been reused since connect(), so check its user as well. nullopt: no such process.
  std::optional<std::uint64_t> start_ticks = {};
};

struct Call {
  std::string method;
  std::string path;                          // "/v1/jobs/7", decoded, without the query
  std::map<std::string, std::string> query;  // decoded
  std::string body;
  Peer peer;
  std::string accept = {};  // the Accept header
};

inline constexpr const char* kAnyBytes = "application/octet-stream";

struct Reply {
  int status = 200;
  std::string body;  // "": none
  const char* type = "application/json";
  const char* policy = "";  // Content-Security-Policy of a page
  /// If the body is a part of a file, the offset of the next part.
  std::optional<std::int64_t> next = {};
};

/// The answer to one call, sent now or later. Copies refer to the same answer; only the first send
/// counts.
class Answer {
 public:
  class Connection;
  explicit Answer(std::weak_ptr<Connection> connection) : connection_(std::move(connection)) {}
  void send(Reply reply) const;
  /// Instead of send(), sends one part of an endless answer (text/event-stream). A client that
  /// reads too slowly is dropped.
  void stream(std::string_view bytes) const;
  /// False if the client has disconnected.
  [[nodiscard]] bool is_wanted() const;

 private:
  std::weak_ptr<Connection> connection_;
};

struct Limits {
  std::size_t header_bytes = 8 << 10;
  std::size_t body_bytes = 4 << 20;  // enough for an environment of 2 MiB, which is longer as JSON
  std::size_t connections = 2000;    // in total
  std::size_t connections_a_user = 1200;
  /// Limit of the memory for the calls and answers of one user. A single call or answer above it is
  /// accepted while the user has no other.
  std::size_t bytes_a_user = 64 << 20;
  std::size_t stream_bytes = 256 << 10;  // maximum number of unsent bytes of a stream
  int idle_seconds = 60;                 // maximum time between two calls
  int slow_seconds = 10;                 // maximum time for receiving a call or sending an answer
};

class Server {
 public:
  using Handle = std::function<void(Call, const Answer&)>;
  /// Called after all received calls were handled, for work that can be done once for many calls.
  using Rest = std::function<void()>;
  /// `for_all`: all users of the machine may connect; the kernel identifies each of them. Returns
  /// the errors of SocketFile::make.
  [[nodiscard]] static Result<std::unique_ptr<Server>> listen(boost::asio::io_context& loop,
                                                              const std::string& path, bool for_all,
                                                              Handle handle, Rest rest,
                                                              Limits limits = {});
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();
  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] const Limits& limits() const;
  /// Whether the user of this process may have one more connection. If needed, closes an idle
  /// connection of this user.
  [[nodiscard]] bool make_room();
  /// Serves one call for the user of this process, at a connection that was accepted elsewhere.
  /// `received`: the part of the call that was already read. Call make_room() first.
  void adopt(Descriptor socket, std::string_view received);
  /// The socket's file. The server removes it at the end, unless SocketFile::leave() was called.
  [[nodiscard]] SocketFile& file() { return file_; }

  struct Parts;

 private:
  Server(std::shared_ptr<Parts> parts, SocketFile file);
  std::shared_ptr<Parts> parts_;
  SocketFile file_;
};

}  // namespace berth::serve
