#include "client/client.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "system/runtime_folder.hpp"

namespace berth::client {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

/// The largest answer that is accepted. Without this limit, a faulty server could make this process
/// use all memory.
constexpr std::uint64_t kMostBody = 1ULL << 30;

Error unreachable(const std::string& socket, const std::string& why) {
  return {ErrorCode::kUnavailable, "E0920",
          text("no broker answers at {}: {}", printable(socket), why),
          socket == system::kSystemSocket ? "systemctl status berth" : "berth run -- true"};
}

Error gone(const std::string& socket, const error_code& why) {
  return {ErrorCode::kUnavailable, "E0943",
          text("the broker at {} disconnected: {}", printable(socket), why.message()), ""};
}

/// Whether the process is stopped (SIGSTOP, Ctrl-Z, a debugger).
bool is_stopped(pid_t pid) {
  const auto stat = slurp(fmt::format("/proc/{}/stat", pid), 4096);
  const auto end = stat ? stat->rfind(')') : std::string::npos;
  if (!stat || end == std::string::npos || end + 2 >= stat->size()) return false;
  return (*stat)[end + 2] == 'T' || (*stat)[end + 2] == 't';
}

Error stuck(const std::string& socket, pid_t pid) {
  const std::string shown = printable(socket);
  if (pid <= 0)
    return {ErrorCode::kUnavailable, "E0922", text("the broker at {} does not answer", shown),
            "fuser -v " + shown};
  if (is_stopped(pid))
    return {ErrorCode::kUnavailable, "E0922",
            text("the broker at {} does not answer: process {} is stopped", shown, pid),
            fmt::format("kill -CONT {}", pid)};
  const bool is_of_all = socket == system::kSystemSocket;
  return {ErrorCode::kUnavailable, "E0922",
          text("the broker at {} does not answer: process {}", shown, pid),
          is_of_all
              ? "sudo systemctl restart berth"
              : text("kill -KILL {}    the next command starts a new broker; jobs continue", pid)};
}

std::function<void(const std::string&)>& teller() {
  static std::function<void(const std::string&)> tell;
  return tell;
}

/// The id of the broker process for which "has not answered yet" was already printed; 0 if there is
/// none. A command makes several calls, but one notice is enough.
std::atomic<pid_t>& slow_broker() {
  static std::atomic<pid_t> broker{0};
  return broker;
}

/// Connects a socket and returns it. On failure, returns -1 and sets errno; EAGAIN means that no
/// connection was accepted within `at_most`.
int connected(const asio::local::stream_protocol::endpoint& to, std::chrono::milliseconds at_most) {
  Descriptor made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made) return -1;
  const timeval limit{at_most.count() / 1000, (at_most.count() % 1000) * 1000};
  ::setsockopt(made.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  int done = -1;
  do {
    done = ::connect(made.get(), to.data(), static_cast<socklen_t>(to.size()));
  } while (done != 0 && errno == EINTR);
  if (done != 0) {
    const int why = errno;
    made.reset();
    errno = why;
    return -1;
  }
  const timeval none{};
  ::setsockopt(made.get(), SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
  return made.release();
}

}  // namespace

struct Client::Parts {
  Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  /// A forked child shares the epoll instance of its parent. If the child closed the socket
  /// normally, asio would remove it from the parent's epoll too, and the parent would never get an
  /// answer again.
  ~Parts() {
    if (::getpid() != owner) loop.notify_fork(asio::execution_context::fork_child);
  }

  pid_t owner = ::getpid();
  asio::io_context loop{1};
  asio::local::stream_protocol::socket socket{loop};
  boost::beast::flat_buffer buffer;
  std::string path;
  http::request<http::string_body> request;
  std::optional<http::response_parser<http::string_body>> response;
  error_code problem;
  pid_t broker = 0;
};

Error unreadable_answer(const Response& response) {
  return {ErrorCode::kUnavailable, "E1140",
          text("the broker sent an answer that Berth cannot read (status {})", response.status),
          text("sudo systemctl restart berth    if the broker for all users has another version; "
               "your own broker exits when it is idle")};
}

bool went_away(const Error& error) {
  return error.id == "E0943";
}

void tell_of_waits(std::function<void(const std::string&)> tell) {
  teller() = std::move(tell);
}

void say_wait(const std::string& sentence) {
  if (teller()) teller()(sentence);
}

Client::Client(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::connect(const std::string& socket, std::chrono::milliseconds at_most) {
  const system::SocketName name(socket);
  constexpr std::size_t kLongest = 107;  // the size of sun_path without the final NUL
  if (name.text().size() > kLongest) return unreachable(socket, text("the path is too long"));
  const asio::local::stream_protocol::endpoint to(name.text());
  constexpr std::chrono::milliseconds kUnsaid(1000);
  int made = connected(to, std::min(at_most, kUnsaid));
  if (made < 0 && errno == EAGAIN && at_most > kUnsaid) {
    say_wait(text("the broker at {} does not answer; waiting for it", printable(socket)));
    made = connected(to, at_most - kUnsaid);
  }
  if (made < 0 && errno == EAGAIN) return stuck(socket, 0);
  if (made < 0)
    return unreachable(socket, error_code(errno, asio::error::get_system_category()).message());
  // Creating Parts takes ten system calls, so do it only if there is a broker.
  auto parts = std::make_unique<Parts>();
  parts->path = socket;
  parts->socket.assign(asio::local::stream_protocol(), made);
  ucred other = {};
  socklen_t size = sizeof other;
  const bool known =
      ::getsockopt(parts->socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &other, &size) == 0;
  if (!known || (other.uid != 0 && other.uid != ::geteuid()))
    return Error{ErrorCode::kPermissionDenied, "E0921",
                 text("the broker at {} is another user's (uid {})", printable(socket), other.uid),
                 "ls -l " + printable(socket)};
  parts->broker = other.pid;
  return Client(std::move(parts));
}

const std::string& Client::socket() const {
  return parts_->path;
}

void Client::ask(std::string_view method, std::string_view path, std::string body) {
  Parts& parts = *parts_;
  parts.request = {};
  parts.request.version(11);
  parts.request.method_string({method.data(), method.size()});
  parts.request.target({path.data(), path.size()});
  parts.request.set(http::field::host, "berth");
  parts.request.body() = std::move(body);
  parts.request.prepare_payload();
  parts.response.emplace();
  parts.response->body_limit(kMostBody);
  parts.loop.restart();
  // A server may send a refusal before it has received the whole call.
  http::async_write(parts.socket, parts.request, [&parts](error_code wrote, std::size_t) {
    http::async_read(parts.socket, parts.buffer, *parts.response,
                     [&parts, wrote](error_code read, std::size_t) {
                       parts.problem = read && wrote ? wrote : read;
                     });
  });
}

Result<std::optional<Response>> Client::answer(std::chrono::milliseconds within) {
  if (within.count() == 0)
    parts_->loop.run();
  else
    parts_->loop.run_for(within);
  if (!parts_->loop.stopped()) return std::optional<Response>();
  if (parts_->problem) return gone(parts_->path, parts_->problem);
  auto message = parts_->response->release();
  const auto field = message["Berth-Next"];
  const auto next = to_number(std::string_view(field.data(), field.size()));
  return std::optional(
      Response{static_cast<int>(message.result_int()), std::move(message.body()), next});
}

Error Client::does_not_answer() const {
  return stuck(parts_->path, parts_->broker);
}

/// Whether the broker answers a ping on a new connection. A broker that is busy with our request
/// still answers pings immediately; one that hangs does not.
bool Client::answers_others() const {
  constexpr std::chrono::milliseconds kSoon(1000);
  auto other = connect(parts_->path, kSoon);
  if (!other) return false;
  other->ask("GET", "/v1/ping");
  const auto answered = other->answer(kSoon);
  if (answered && *answered) return true;
  error_code ignored;
  other->parts_->socket.close(ignored);
  other->parts_->loop.run();
  return false;
}

Result<Response> Client::await() {
  constexpr std::chrono::seconds kOften(10);
  bool is_said = false;
  for (;;) {
    auto response = answer(kOften);
    if (!response) return std::move(response).error();
    if (*response) return **std::move(response);
    const bool is_well = answers_others();
    if (!is_well && !is_said) {
      const Error says = does_not_answer();
      say_wait(text("{}; waiting for an answer ({})", says.message, says.hint));
    }
    is_said = !is_well;
  }
}

Result<Response> Client::call(std::string_view method, std::string_view path, std::string body,
                              std::chrono::milliseconds at_most) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kUnsaid(1000);
  // A driver may take half a minute to start, and each snapshot after that takes some time.
  constexpr std::chrono::seconds kMost(60);
  const auto begun = Clock::now();
  ask(method, path, std::move(body));
  if (at_most.count() == 0) return await();
  auto response = answer(std::min(at_most, kUnsaid));
  if (response && !*response && at_most > kUnsaid) {
    if (slow_broker().exchange(parts_->broker) != parts_->broker)
      say_wait(
          text("the broker has not answered yet (process {}); waiting for it", parts_->broker));
    do response = answer(at_most - kUnsaid);
    while (response && !*response && Clock::now() - begun < kMost && answers_others());
  }
  if (!response) return std::move(response).error();
  if (*response) {
    slow_broker() = 0;
    return **std::move(response);
  }
  // Close the connection, so that a late answer is not mistaken for the answer to the next call.
  error_code ignored;
  parts_->socket.close(ignored);
  parts_->loop.run();
  return does_not_answer();
}

}  // namespace berth::client
