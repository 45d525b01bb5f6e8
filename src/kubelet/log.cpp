#include "kubelet/log.hpp"

#include <unistd.h>

#include <atomic>

#include "base/text_parts.hpp"
#include "output/json_writer.hpp"

namespace berth::kubelet {
namespace {

std::atomic<bool> g_json = false;

}  // namespace

void log_as_json(bool yes) {
  g_json = yes;
}

void log(const std::string& event, const std::map<std::string, std::string>& facts) {
  std::string line;
  if (g_json) {
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    json.field("event", event);
    for (const auto& [key, value] : facts) json.field(key, value);
    json.close('}');
    line = json.finish();
  } else {
    line = "berth-k8s: " + event;
    for (const auto& [key, value] : facts) line += " " + key + "=" + printable(value);
    line += "\n";
  }
  // One write() per line keeps lines of several threads apart. If stderr cannot be written, the
  // failure cannot be reported either.
  [[maybe_unused]] const auto n = ::write(2, line.data(), line.size());
}

}  // namespace berth::kubelet
