// `berth exporter`: metrics of the devices for Prometheus, without a broker.
#include <algorithm>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/verbs.hpp"
#include "cli/version.hpp"
#include "inventory/observe.hpp"
#include "output/json.hpp"
#include "output/json_writer.hpp"
#include "serve/exporter.hpp"
#include "serve/watch_feed.hpp"
#include "watch/sampler.hpp"

namespace berth::cli {
namespace {

constexpr std::int64_t kMostProcesses = 1000;

/// Reads the token from a file, which must contain a single, long word.
Result<std::string> token_of(const std::string& path) {
  auto bytes = read_file(path, 4096);
  if (!bytes) return std::move(bytes).error();
  std::string token(trim(*bytes));
  const bool is_word = token.size() >= 16 && std::all_of(token.begin(), token.end(),
                                                         [](char c) { return c > ' ' && c < 127; });
  if (!is_word)
    return Error{
        ErrorCode::kInvalidArgument, "E0981",
        text("{} has no token; a token is one line of at least 16 characters", printable(path)),
        "head -c 24 /dev/urandom | base64 > " + printable(path)};
  return token;
}

Result<serve::ExporterOptions> options_of(const Arguments& arguments) {
  serve::ExporterOptions options;
  options.address = arguments.value("--listen").value_or(options.address);
  options.metrics.dialect = *watch::dialect_named(arguments.value("--dialect").value_or("berth"));
  options.metrics.version = version_number();
  options.metrics.severity_of_xid = [](int code) { return serve::words_of_xid(code).severity; };
  if (const auto processes = arguments.value("--processes")) {
    const auto number = parse_integer(*processes, 0, kMostProcesses);
    if (!number) return Error(number.error()).during("--processes");
    options.metrics.processes = static_cast<std::size_t>(*number);
  }
  if (const auto interval = arguments.value("--interval")) {
    const auto duration = parse_duration(*interval);
    if (!duration) return Error(duration.error()).during("--interval");
    options.interval =
        std::clamp(*duration, std::chrono::milliseconds(100), std::chrono::milliseconds(60'000));
  }
  if (const auto file = arguments.value("--token-file")) {
    auto token = token_of(*file);
    if (!token) return std::move(token).error();
    options.token = *std::move(token);
  }
  options.kubelet = arguments.value("--kubelet").value_or(options.kubelet);
  options.sources = inventory::Sources::from_environment();
  return options;
}

}  // namespace

Result<int> run_exporter(const Context& context) {
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  auto options = options_of(context.arguments);
  if (!options) return std::move(options).error();
  if (context.arguments.has("--once")) {
    watch::SamplerOptions sampling;
    sampling.pcie_throughput = options->metrics.dialect == watch::Dialect::kNvidiaSmi;
    const watch::Sampler sampler(options->sources, sampling);
    const watch::FramePtr frame = sampler.wait(0, std::chrono::minutes(1));
    if (!frame)
      return Error{ErrorCode::kUnavailable, "E0982", text("no driver answered within a minute"),
                   "berth doctor"};
    // Prometheus reads only text. --json is for other programs: the same readings in the format of
    // `berth top --json`.
    context.out(context.json
                    ? output::frame_json(frame->snapshot, {frame->number, frame->cost.cpu_seconds,
                                                           frame->cost.driver_seconds})
                    : watch::render_metrics(*frame, options->metrics));
    return 0;
  }
  const auto ended = serve::run_exporter(*options, [&] {
    const std::string url = fmt::format("http://{}/metrics", options->address);
    if (!context.json) return context.out(text("metrics at {}", url) + "\n");
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    json.field("metrics", url);
    json.close('}');
    context.out(json.finish());
  });
  if (!ended) return ended.error();
  return 0;
}

}  // namespace berth::cli
