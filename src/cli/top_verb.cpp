// `berth top`: the live view, a single picture of it, or a stream of JSON.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>

#include "base/descriptor.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "inventory/observe.hpp"
#include "model/device_selector.hpp"
#include "output/json.hpp"
#include "top/draw.hpp"
#include "top/screen.hpp"
#include "watch/sampler.hpp"

namespace berth::cli {
namespace {

constexpr std::chrono::minutes kFirstFrame(1);

Error no_frame() {
  return {ErrorCode::kUnavailable, "E0982", text("no driver answered within a minute"),
          "berth doctor"};
}

Result<watch::SamplerOptions> sampling_of(const Arguments& arguments) {
  watch::SamplerOptions sampling;
  if (const auto interval = arguments.value("--interval")) {
    const auto duration = parse_duration(*interval);
    if (!duration) return Error(duration.error()).during("--interval");
    sampling.interval =
        std::clamp(*duration, std::chrono::milliseconds(100), std::chrono::milliseconds(60'000));
  }
  sampling.decorate = [](model::Snapshot& snapshot) { add_leases(snapshot); };
  return sampling;
}

top::Settings settings_of(const Context& context) {
  const Arguments& arguments = context.arguments;
  top::Settings settings;
  settings.sort = arguments.value("--sort").value_or(settings.sort);
  settings.filter = arguments.value("--filter").value_or("");
  settings.user = arguments.value("--user").value_or("");
  settings.has_graphs = !arguments.has("--no-graphs");
  settings.utf8 = context.out_terminal.utf8 && !arguments.has("--ascii");
  return settings;
}

/// Resolves --device with the first frame.
Status choose_devices(const Arguments& arguments, const watch::Frame& frame,
                      top::Settings& settings) {
  const auto named = arguments.values("--device");
  if (named.empty()) return Done{};
  const auto selected = model::select_devices(frame.snapshot.devices, named);
  if (!selected) return selected.error();
  for (const model::Selected& one : *selected) settings.devices.insert(one.device);
  return Done{};
}

std::string painted(const std::vector<top::Line>& lines, const output::Terminal& terminal) {
  std::string all;
  for (const top::Line& line : lines) {
    std::string text;
    for (const top::Span& span : line) text += terminal.paint(span.style, span.text);
    all += text + "\n";
  }
  return terminal.spell(std::move(all));
}

std::string json_of(const watch::Frame& frame) {
  return output::frame_json(frame.snapshot,
                            {frame.number, frame.cost.cpu_seconds, frame.cost.driver_seconds});
}

Result<int> stream_json(const Context& context, watch::Sampler& sampler, bool once) {
  for (watch::FramePtr frame = sampler.wait(0, kFirstFrame);;
       frame = sampler.wait(frame->number, kFirstFrame)) {
    if (!frame) return no_frame();
    context.out(json_of(*frame));
    if (once || context.write_error != 0) return 0;
  }
}

/// Wakes the loop that waits for keys when a frame arrives.
class Bell {
 public:
  Bell() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void ring() const {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(event_.get(), &one, sizeof one));
  }
  void hush() const {
    std::uint64_t count = 0;
    static_cast<void>(!::read(event_.get(), &count, sizeof count));
  }
  [[nodiscard]] int descriptor() const { return event_.get(); }

 private:
  Descriptor event_;
};

Result<int> show_live(const Context& context, watch::SamplerOptions sampling,
                      top::Settings settings) {
  const Bell bell;
  sampling.on_frame = [&bell](const watch::FramePtr&) { bell.ring(); };
  watch::Sampler sampler(inventory::Sources::from_environment(), std::move(sampling));
  watch::FramePtr frame = sampler.wait(0, kFirstFrame);
  if (!frame) return no_frame();
  if (auto chosen = choose_devices(context.arguments, *frame, settings); !chosen)
    return chosen.error();
  auto screen = top::Screen::open(context.out_terminal.color);
  if (!screen) return std::move(screen).error();
  top::Series series;
  std::uint64_t seen = 0;
  for (;;) {
    bell.hush();
    frame = sampler.newest();
    if (frame->number != seen) series.add(*frame);
    seen = frame->number;
    const auto size = (*screen)->size();
    (*screen)->show(top::draw(*frame, series, settings, size.width, size.height));
    const auto pressed = (*screen)->wait(bell.descriptor());
    if ((*screen)->is_over()) return 0;
    for (const top::Pressed& one : pressed)
      if (!top::press(settings, one.key, one.character)) return 0;
  }
}

}  // namespace

Result<int> run_top(const Context& context) {
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  auto sampling = sampling_of(context.arguments);
  if (!sampling) return std::move(sampling).error();
  top::Settings settings = settings_of(context);
  const bool once = context.arguments.has("--once");
  if (!context.json && !once) return show_live(context, *std::move(sampling), std::move(settings));
  watch::Sampler sampler(inventory::Sources::from_environment(), *std::move(sampling));
  if (context.json) return stream_json(context, sampler, once);
  const watch::FramePtr frame = sampler.wait(0, kFirstFrame);
  if (!frame) return no_frame();
  if (auto chosen = choose_devices(context.arguments, *frame, settings); !chosen)
    return chosen.error();
  context.out(painted(top::draw(*frame, {}, settings, context.out_terminal.width, 0),
                      context.out_terminal));
  return 0;
}

}  // namespace berth::cli
