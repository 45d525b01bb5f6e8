#include "kubelet/api_client.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <thread>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::kubelet {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using std::chrono::milliseconds;

constexpr std::size_t kMostBody = 16U << 20U;
constexpr milliseconds kTick{50};

constexpr const char* kReadyz = "kubectl get --raw /readyz";

Error unreachable(std::string message, std::string hint = kReadyz) {
  return {ErrorCode::kUnavailable, "E0969", std::move(message), std::move(hint)};
}

/// Whether a call that ended with this HTTP status should be retried. Status 0 means that no answer
/// came.
bool is_worth_a_retry(int status) {
  return status == 0 || status == 429 || status >= 500;
}

/// Returns the pause before a retry; the first retry is number 0. If the server said how long to
/// wait, waits so long, but at most 5 s. If not, the pause doubles from 200 ms to 3 s.
milliseconds wait_before(int retry, std::optional<std::chrono::seconds> said) {
  if (said) return std::clamp<milliseconds>(*said, milliseconds(100), milliseconds(5'000));
  return std::min(milliseconds(200) * (1 << std::min(retry, 8)), milliseconds(3'000));
}

struct Exchange {
  ApiSettings settings;
  http::request<http::string_body> request;
  ApiAnswer answer;
  std::string problem;  // why the call failed; "" if it succeeded
};

asio::awaitable<void> perform(asio::ssl::context& tls, Exchange& exchange) {
  boost::system::error_code failed;
  const auto on = [&] { return asio::redirect_error(asio::use_awaitable, failed); };
  const auto failed_at = [&](const char* step) {
    if (failed) exchange.problem = std::string(step) + ": " + failed.message();
    return static_cast<bool>(failed);
  };
  auto executor = co_await asio::this_coro::executor;
  asio::ip::tcp::resolver resolver(executor);
  const auto found =
      co_await resolver.async_resolve(exchange.settings.host, exchange.settings.port, on());
  if (failed_at("resolve")) co_return;
  beast::ssl_stream<beast::tcp_stream> stream(executor, tls);
  beast::get_lowest_layer(stream).expires_after(exchange.settings.call);
  co_await beast::get_lowest_layer(stream).async_connect(found, on());
  if (failed_at("connect")) co_return;
  stream.set_verify_callback(asio::ssl::host_name_verification(exchange.settings.host));
  co_await stream.async_handshake(asio::ssl::stream_base::client, on());
  if (failed_at("TLS")) co_return;
  co_await http::async_write(stream, exchange.request, on());
  if (failed_at("send")) co_return;
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMostBody);
  co_await http::async_read(stream, buffer, parser, on());
  if (failed_at("read")) co_return;
  const auto& response = parser.get();
  exchange.answer.status = static_cast<int>(response.result_int());
  exchange.answer.body = response.body();
  if (const auto after = response.find(http::field::retry_after); after != response.end())
    if (const auto seconds = to_number(std::string(after->value().data(), after->value().size()));
        seconds && *seconds >= 0)
      exchange.answer.retry_after = std::chrono::seconds(std::min<std::int64_t>(*seconds, 3600));
}

}  // namespace

std::string words_of(const ApiAnswer& answer) {
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
  const std::string message = json_text(json, "message");
  return printable(message.empty() ? answer.body.substr(0, 200) : message.substr(0, 400));
}

Error refused(const std::string& what, const ApiAnswer& answer, std::string hint) {
  return unreachable(
      text("the API server refuses {}: {} {}", what, answer.status, words_of(answer)),
      std::move(hint));
}

ApiClient::ApiClient(ApiSettings settings, std::function<bool()> is_ending)
    : settings_(std::move(settings)), is_ending_(std::move(is_ending)) {}

Result<ApiAnswer> ApiClient::try_once(const std::string& method, const std::string& path,
                                      const std::string& body) const {
  // Read the token for every call, because Kubernetes replaces it before it expires.
  const auto token = read_line(settings_.account + "/token");
  if (!token || token->empty())
    return unreachable(text("{} cannot be read", settings_.account + "/token"),
                       "kubectl -n berth get pod -o yaml | grep automount");
  asio::ssl::context tls(asio::ssl::context::tls_client);
  boost::system::error_code failed;
  tls.load_verify_file(settings_.account + "/ca.crt", failed);
  if (failed) return unreachable(text("{} cannot be read", settings_.account + "/ca.crt"), "");
  tls.set_verify_mode(asio::ssl::verify_peer);
  Exchange exchange{settings_, {}, {}, {}};
  exchange.request.method_string(method);
  exchange.request.target(path);
  exchange.request.version(11);
  const bool is_v6 = settings_.host.find(':') != std::string::npos;
  exchange.request.set(http::field::host, is_v6 ? "[" + settings_.host + "]" : settings_.host);
  exchange.request.set(http::field::authorization, "Bearer " + *token);
  exchange.request.set(http::field::accept, "application/json");
  exchange.request.set(http::field::user_agent, "berth-k8s");
  exchange.request.set(http::field::connection, "close");
  if (!body.empty()) exchange.request.set(http::field::content_type, "application/json");
  exchange.request.body() = body;
  exchange.request.prepare_payload();
  asio::io_context io(1);
  asio::co_spawn(io, perform(tls, exchange), asio::detached);
  // Limits the time of the whole call, except for resolving a host name. The resolver has its own
  // limit (resolv.conf), and the destructor of `io` waits for it.
  io.run_for(settings_.call + milliseconds(500));
  if (!exchange.problem.empty() || exchange.answer.status == 0)
    return unreachable(
        text("the API server {}:{} does not answer: {}", settings_.host, settings_.port,
             exchange.problem.empty() ? text("no answer within {} ms", settings_.call.count())
                                      : exchange.problem));
  return exchange.answer;
}

/// Waits for this time. Returns false early if the process is about to end.
bool ApiClient::rest(milliseconds pause) const {
  const auto end = std::chrono::steady_clock::now() + pause;
  while (!is_ending_()) {
    if (std::chrono::steady_clock::now() >= end) return true;
    std::this_thread::sleep_for(std::min(pause, kTick));
  }
  return false;
}

Result<ApiAnswer> ApiClient::call(const std::string& method, const std::string& path,
                                  const std::string& body) const {
  const auto end = std::chrono::steady_clock::now() + settings_.patience;
  for (int retry = 0;; ++retry) {
    auto answer = try_once(method, path, body);
    const int status = answer ? answer->status : 0;
    if (!is_worth_a_retry(status) && status != 401 && status != 403) return answer;
    const auto pause = wait_before(retry, answer ? answer->retry_after : std::nullopt);
    const bool is_last =
        status == 401 || status == 403 || std::chrono::steady_clock::now() + pause > end;
    if (is_last || !rest(pause)) {
      if (!answer) return answer;
      return refused(method + " " + path, *answer,
                     status == 401 || status == 403 ? "kubectl auth can-i --list "
                                                      "--as=system:serviceaccount:berth:berth-dra"
                                                    : kReadyz);
    }
  }
}

}  // namespace berth::kubelet
