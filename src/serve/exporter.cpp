// One object per connection, as in server.cpp. Headers are limited, bodies are refused, and each
// connection has its own deadline. All connections send the text of the newest frame (the newest
// sample of all devices).
#include "serve/exporter.hpp"

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <csignal>
#include <optional>

#include "base/file.hpp"
#include "base/text.hpp"
#include "serve/pod_list.hpp"
#include "serve/tcp_address.hpp"
#include "serve/tcp_door.hpp"
#include "serve/token.hpp"
#include "system/own_memory.hpp"
#include "watch/rendered.hpp"
#include "watch/sampler.hpp"

namespace berth::serve {

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kMostConnections = 64;
constexpr std::chrono::seconds kIdle(120);  // Prometheus keeps its connection between scrapes
constexpr std::chrono::seconds kSlow(10);

class Exporter {
 public:
  explicit Exporter(const ExporterOptions& options)
      : options_(options), rendered_(options.metrics) {}

  Status run(const std::function<void()>& ready) {
    if (auto listens = listen(); !listens) return listens;
    signals_.async_wait([this](error_code problem, int) {
      if (!problem) loop_.stop();
    });
    system::use_one_heap();
    watch::SamplerOptions sampling;
    sampling.interval = options_.interval;
    sampling.xids = true;
    sampling.pcie_throughput = options_.metrics.dialect == watch::Dialect::kNvidiaSmi;
    sampling.on_frame = [this](const watch::FramePtr& frame) {
      // After this many frames (samples of all devices), all code for a frame has run once. Then
      // memory that only the start needed is released.
      constexpr std::uint64_t kStarted = 4;
      if (frame->number == kStarted) system::release_startup_memory();
      asio::post(loop_, [this, frame] { frame_ = frame; });
    };
    watch::Sampler sampler(options_.sources, std::move(sampling));
    const PodList pods(options_.kubelet, [this](std::vector<watch::DevicePod> list) {
      asio::post(loop_,
                 [this, list = std::move(list)]() mutable { rendered_.set_pods(std::move(list)); });
    });
    if (ready) ready();
    accept();
    loop_.run();
    return Done{};
  }

 private:
  class Connection;
  friend class Connection;

  Status listen() {
    const auto endpoint = endpoint_of(options_.address);
    if (!endpoint)
      return Error{ErrorCode::kInvalidArgument, "E0980",
                   text("{} is not of the form IP-ADDRESS:PORT", printable(options_.address)),
                   "berth exporter --listen 127.0.0.1:9837"};
    if (!endpoint->address().is_loopback() && options_.token.empty())
      return Error{ErrorCode::kInvalidArgument, "E0980",
                   text("{} can be reached from other machines, so a token is needed",
                        printable(options_.address)),
                   fmt::format("berth exporter --listen {} --token-file FILE", options_.address)};
    port_ = endpoint->port();
    error_code problem;
    acceptor_.open(endpoint->protocol(), problem);
    if (!problem) acceptor_.set_option(tcp::acceptor::reuse_address(true), problem);
    if (!problem) acceptor_.bind(*endpoint, problem);
    if (!problem) acceptor_.listen(asio::socket_base::max_listen_connections, problem);
    if (!problem) return Done{};
    return Error{
        ErrorCode::kUnavailable, "E0916",
        text("cannot listen at {}: {}", printable(options_.address), printable(problem.message())),
        "ss -ltnp"};
  }

  void accept();

  const ExporterOptions& options_;
  watch::RenderedMetrics rendered_;
  watch::FramePtr frame_;
  std::size_t connections_ = 0;
  unsigned port_ = 0;
  // Declared after these members, because the connections that it owns use them.
  asio::io_context loop_{1};
  tcp::acceptor acceptor_{loop_};
  asio::steady_timer again_{loop_};
  asio::signal_set signals_{loop_, SIGTERM, SIGINT};
};

class Exporter::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Exporter& exporter, tcp::socket socket)
      : exporter_(exporter), socket_(std::move(socket)), deadline_(exporter.loop_) {
    ++exporter_.connections_;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { --exporter_.connections_; }

  void read() {
    parser_.emplace();
    parser_->header_limit(8 << 10);
    parser_->body_limit(0);
    expire_after(kIdle);
    http::async_read(socket_, buffer_, *parser_,
                     [self = shared_from_this()](error_code problem, std::size_t) {
                       if (!problem) self->answer();
                     });
  }

 private:
  void expire_after(std::chrono::seconds time) {
    deadline_.expires_after(time);
    deadline_.async_wait([weak = weak_from_this()](error_code problem) {
      error_code ignored;
      if (const auto self = weak.lock(); self && !problem) self->socket_.close(ignored);
    });
  }

  [[nodiscard]] std::string_view field(http::field name) const {
    const auto value = parser_->get()[name];
    return {value.data(), value.size()};
  }

  [[nodiscard]] http::status judge() const {
    const auto& request = parser_->get();
    constexpr std::string_view kBearer = "Bearer ";
    const std::string_view said = field(http::field::authorization);
    const std::string& token = exporter_.options_.token;
    if (!token.empty() &&
        !(said.starts_with(kBearer) && is_same_token(said.substr(kBearer.size()), token)))
      return http::status::unauthorized;
    // A web page can make its own host name resolve to this machine (DNS rebinding), so check the
    // Host header.
    if (token.empty() && !is_own_host(field(http::field::host), exporter_.port_))
      return http::status::forbidden;
    const auto target = request.target();
    const std::string_view path(target.data(), target.size());
    if (path.substr(0, path.find('?')) != "/metrics") return http::status::not_found;
    if (request.method() != http::verb::get && request.method() != http::verb::head)
      return http::status::method_not_allowed;
    return exporter_.frame_ ? http::status::ok : http::status::service_unavailable;
  }

  void answer() {
    const http::status status = judge();
    response_ = {};
    response_.version(11);
    response_.result(status);
    response_.keep_alive(parser_->get().keep_alive());
    if (status == http::status::ok) {
      watch::RenderedMetrics& rendered = exporter_.rendered_;
      const auto exposition = rendered.exposition(field(http::field::accept));
      response_.set(http::field::content_type, watch::content_type(exposition));
      response_.body() = *rendered.text(*exporter_.frame_, exposition);
    } else {
      response_.set(http::field::content_type, "text/plain; charset=utf-8");
      response_.body() = status == http::status::not_found ? "see /metrics\n" : "";
      if (status == http::status::unauthorized)
        response_.set(http::field::www_authenticate, "Bearer");
    }
    response_.prepare_payload();
    if (parser_->get().method() == http::verb::head) response_.body().clear();
    expire_after(kSlow);
    http::async_write(socket_, response_,
                      [self = shared_from_this()](error_code problem, std::size_t) {
                        if (!problem && self->response_.keep_alive()) self->read();
                      });
  }

  Exporter& exporter_;
  tcp::socket socket_;
  asio::steady_timer deadline_;
  boost::beast::flat_buffer buffer_{16 << 10};
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
};

/// A caller above the limit is disconnected. New callers are accepted again when other callers have
/// disconnected.
void Exporter::accept() {
  acceptor_.async_accept([this](error_code problem, tcp::socket socket) {
    if (problem == asio::error::operation_aborted) return;
    if (!problem && connections_ < kMostConnections)
      std::make_shared<Connection>(*this, std::move(socket))->read();
    if (!problem) return accept();
    // No descriptor is free: retry after a pause.
    again_.expires_after(std::chrono::milliseconds(100));
    again_.async_wait([this](error_code stopped) {
      if (!stopped) accept();
    });
  });
}

}  // namespace

Status run_exporter(const ExporterOptions& options, const std::function<void()>& ready) {
  std::signal(SIGPIPE, SIG_IGN);
  return Exporter(options).run(ready);
}

}  // namespace berth::serve
