// The only file that knows toml++. Tables are read by lists of typed fields: what is not on the
// list is an unknown key.
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
// toml++ 3.3 asserts of a text what it checks on the next line and refuses ("[?"). Without NDEBUG
// that would end us; with it, some compilers are told to take it for granted.
#define TOML_ASSERT(condition) static_assert(true)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <algorithm>
#include <functional>

#include "base/file.hpp"
#include "base/spelling.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "sim/machine_check.hpp"

namespace berth::sim {
namespace {

constexpr std::size_t kMostText = 95;  // what a name may have: NVML's buffers hold 96

/// Reads one table; remembers the first thing that is wrong, with its line.
class Reader {
 public:
  Reader(const toml::table& table, std::string origin)
      : table_(table), origin_(std::move(origin)) {}

  void string(const char* key, std::string& into, bool required = false,
              std::size_t most = kMostText) {
    const toml::node* node = find(key, required);
    if (node == nullptr) return;
    if (const auto* value = node->as_string())
      checked_text(key, *node, value->get(), into, most);
    else
      wrong_type(key, *node, tr("text"));
  }
  void number(const char* key, std::int64_t& into, std::int64_t least, std::int64_t most,
              bool required = false) {
    const toml::node* node = find(key, required);
    if (node == nullptr) return;
    if (const auto* value = node->as_integer())
      in_range(key, *node, value->get(), least, most, into);
    else
      wrong_type(key, *node, tr("a whole number"));
  }
  void flag(const char* key, bool& into) {
    const toml::node* node = find(key, false);
    if (node == nullptr) return;
    if (const auto* value = node->as_boolean())
      into = value->get();
    else
      wrong_type(key, *node, tr("true or false"));
  }
  void size(const char* key, std::uint64_t& into, bool required = false) {
    const toml::node* node = find(key, required);
    if (node == nullptr) return;
    const auto* value = node->as_string();
    if (value == nullptr) return wrong_type(key, *node, tr("a size such as \"24GiB\""));
    const auto bytes = parse_size(value->get());
    if (!bytes) return fail("E0605", *node, text("{}: {}", key, bytes.error().message));
    if (*bytes > (std::uint64_t{1} << 50U))
      return fail("E0605", *node, text("{}: more than 1 PiB", key));
    into = *bytes;
  }
  void milliseconds(const char* key, std::uint64_t& into) {
    const toml::node* node = find(key, false);
    if (node == nullptr) return;
    const auto* value = node->as_string();
    if (value == nullptr) return wrong_type(key, *node, tr("a duration such as \"20ms\""));
    const auto time = parse_duration(value->get());
    if (!time) return fail("E0605", *node, text("{}: {}", key, time.error().message));
    if (time->count() > 3'600'000) return fail("E0605", *node, text("{}: more than an hour", key));
    into = static_cast<std::uint64_t>(time->count());
  }
  void strings(const char* key, std::vector<std::string>& into, bool required = false) {
    const toml::array* list = array(key, required, tr("a list of texts"));
    if (list == nullptr) return;
    into.clear();
    for (const toml::node& item : *list) {
      const auto* value = item.as_string();
      if (value == nullptr) return wrong_type(key, item, tr("a list of texts"));
      checked_text(key, item, value->get(), into.emplace_back());
    }
  }
  void numbers(const char* key, std::vector<std::int64_t>& into, std::int64_t least,
               std::int64_t most) {
    const toml::array* list = array(key, false, tr("a list of whole numbers"));
    if (list == nullptr) return;
    into.clear();
    for (const toml::node& item : *list) {
      const auto* value = item.as_integer();
      if (value == nullptr) return wrong_type(key, item, tr("a list of whole numbers"));
      in_range(key, item, value->get(), least, most, into.emplace_back());
    }
  }
  /// Calls read(reader) for the table, or for each table of a list of tables.
  void tables(const char* key, const std::function<void(Reader&)>& read) {
    const toml::array* list = array(key, false, tr("a list of tables"));
    if (list == nullptr) return;
    for (const toml::node& item : *list) {
      if (item.as_table() == nullptr) return wrong_type(key, item, tr("a list of tables"));
      nested(*item.as_table(), read);
    }
  }
  void table(const char* key, const std::function<void(Reader&)>& read) {
    const toml::node* node = find(key, false);
    if (node == nullptr) return;
    if (node->as_table() == nullptr) return wrong_type(key, *node, tr("a table"));
    nested(*node->as_table(), read);
  }
  [[nodiscard]] bool has(const char* key) const { return table_.contains(key); }

  /// What only a look at several keys shows; the line is that of the table.
  void check(const std::optional<std::string>& problem) {
    if (problem) fail("E0605", table_, *problem);
  }
  /// Call it last: a key that nobody asked for is unknown.
  void finish() {
    for (const auto& [key, node] : table_) {
      const std::string word(key.str());
      if (std::find(known_.begin(), known_.end(), word) != known_.end()) continue;
      const std::string near = nearest(word, known_);
      fail("E0603", node, text("unknown key '{}'", printable(word)),
           near.empty() ? "" : text("did you mean {}?", near));
    }
  }
  [[nodiscard]] std::optional<Error>& error() { return error_; }

 private:
  const toml::node* find(const char* key, bool required) {
    known_.emplace_back(key);
    const toml::node* node = table_.get(key);
    if (node == nullptr && required) fail("E0606", table_, text("'{}' is missing", key));
    return node;
  }
  const toml::array* array(const char* key, bool required, std::string_view wanted) {
    const toml::node* node = find(key, required);
    if (node == nullptr) return nullptr;
    if (node->as_array() == nullptr) wrong_type(key, *node, wanted);
    return node->as_array();
  }
  void nested(const toml::table& table, const std::function<void(Reader&)>& read) {
    Reader inner(table, origin_);
    read(inner);
    inner.finish();
    if (inner.error_ && !error_) error_ = std::move(inner.error_);
  }
  void checked_text(const char* key, const toml::node& node, const std::string& value,
                    std::string& into, std::size_t most = kMostText) {
    if (value.size() > most)
      return fail("E0605", node, text("{}: longer than {} bytes", key, most));
    if (printable(value) != value)
      return fail("E0605", node, text("{}: has characters that cannot be shown", key));
    into = value;
  }
  void in_range(const char* key, const toml::node& node, std::int64_t value, std::int64_t least,
                std::int64_t most, std::int64_t& into) {
    if (value < least || value > most)
      return fail("E0605", node, text("{} = {}: must be {} to {}", key, value, least, most));
    into = value;
  }
  void wrong_type(const char* key, const toml::node& node, std::string_view wanted) {
    fail("E0604", node, text("{}: must be {}", key, wanted));
  }
  void fail(const char* id, const toml::node& node, const std::string& message,
            const std::string& more = "") {
    if (error_) return;
    const std::string where = origin_ + ":" + std::to_string(node.source().begin.line);
    error_ = Error{ErrorCode::kInvalidArgument, id, where + ": " + message,
                   more.empty() ? "docs/simulator.md" : more};
  }

  const toml::table& table_;
  std::string origin_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

void read_driver(Reader& reader, Machine& machine) {
  MachineDriver driver;
  reader.string("version", driver.version, true);
  reader.string("cuda", driver.cuda, true);
  reader.milliseconds("init", driver.init_ms);
  reader.milliseconds("pcie_window", driver.pcie_window_ms);
  reader.string("confidential", driver.confidential);
  reader.check(problem_of(driver));
  machine.driver = std::move(driver);
}

void read_power_and_clocks(Reader& reader, MachineDevices& d) {
  reader.number("power_limit_watts", d.power_limit_watts, 1, 5000, true);
  reader.number("power_min_watts", d.power_min_watts, 1, 5000);
  reader.number("power_max_watts", d.power_max_watts, 1, 5000);
  reader.number("power_idle_watts", d.power_idle_watts, 0, 5000);
  reader.number("power_default_watts", d.power_default_watts, 1, 5000);
  reader.number("clock_application_mhz", d.clock_application_mhz, 1, 10'000);
  reader.number("clock_graphics_mhz", d.clock_graphics_mhz, 1, 10'000, true);
  reader.number("clock_graphics_idle_mhz", d.clock_graphics_idle_mhz, 0, 10'000);
  reader.number("clock_memory_mhz", d.clock_memory_mhz, 1, 50'000, true);
  reader.number("clock_memory_idle_mhz", d.clock_memory_idle_mhz, 0, 50'000);
  reader.number("clock_video_mhz", d.clock_video_mhz, 0, 10'000);
  reader.number("temperature_idle_celsius", d.temperature_idle, 0, 150);
  reader.number("temperature_busy_celsius", d.temperature_busy, 0, 150);
  reader.number("temperature_slowdown_celsius", d.temperature_slowdown, 1, 150);
  reader.number("temperature_shutdown_celsius", d.temperature_shutdown, 1, 150);
}

void read_bus(Reader& reader, MachineDevices& d) {
  reader.strings("pci", d.pci, true);
  reader.string("pci_id", d.pci_id, true);
  reader.string("pci_subsystem", d.pci_subsystem);
  reader.string("pci_class", d.pci_class);
  reader.numbers("numa", d.numa, -1, 1023);
  reader.strings("local_cpus", d.local_cpus);
  reader.number("pcie_generation", d.pcie_generation, 1, 7);
  reader.number("pcie_generation_idle", d.pcie_generation_idle, 1, 7);
  reader.number("pcie_width", d.pcie_width, 1, 32);
  reader.number("pcie_width_now", d.pcie_width_now, 1, 32);
  reader.flag("on_bus", d.on_bus);
}

void read_devices(Reader& reader, Machine& machine) {
  MachineDevices d;
  reader.string("vendor", d.vendor);
  reader.string("name", d.name, true);
  reader.string("architecture", d.architecture);
  reader.string("compute_capability", d.compute_capability);
  reader.string("brand", d.brand);
  reader.string("kernel_driver", d.kernel_driver);
  reader.string("compute_mode", d.compute_mode);
  reader.size("memory", d.memory_bytes, true);
  reader.size("memory_reserved", d.memory_reserved_bytes);
  reader.size("bar1", d.bar1_bytes);
  read_bus(reader, d);
  read_power_and_clocks(reader, d);
  reader.number("fans", d.fans, 0, 16);
  reader.number("nvlinks", d.nvlinks, 0, 36);
  reader.number("cores", d.cores, 0, 1'000'000);
  reader.number("multiprocessors", d.multiprocessors, 0, 10'000);
  reader.number("memory_bus_width", d.memory_bus_width, 0, 65'536);
  reader.number("load_percent", d.load_percent, 0, 100);
  reader.flag("ecc", d.ecc);
  reader.flag("persistence", d.persistence);
  reader.flag("mig_capable", d.mig_capable);
  reader.flag("display", d.display);
  reader.flag("asleep", d.asleep);
  reader.flag("unified", d.unified);
  reader.flag("retired_pages_pending", d.retired_pages_pending);
  reader.flag("peer_access", d.peer_access);
  reader.string("fabric", d.fabric);
  reader.string("vgpu_licence", d.vgpu_licence);
  reader.tables("mig", [&d](Reader& inner) {
    MachinePartition& partition = d.mig.emplace_back();
    inner.string("profile", partition.profile, true);
    inner.size("memory", partition.memory_bytes, true);
  });
  reader.strings("unsupported", d.unsupported);
  fill_defaults(d);
  if (!reader.error()) reader.check(problem_of(d));
  machine.groups.push_back(std::move(d));
}

void read_process(Reader& reader, Machine& machine) {
  MachineProcess process;
  reader.number("device", process.device, 0, 1023, true);
  std::int64_t partition = -1;
  reader.number("partition", partition, 0, 1023);
  if (partition >= 0) process.partition = partition;
  reader.size("memory", process.memory_bytes, true);
  reader.strings("use", process.use);
  reader.number("activity_percent", process.activity_percent, 0, 100);
  reader.flag("foreign", process.foreign);
  reader.string("command", process.command, false, 120);
  reader.check(problem_of(process));
  machine.processes.push_back(std::move(process));
}

Error not_toml(const std::string& origin, std::size_t line, std::string_view why) {
  return {ErrorCode::kInvalidArgument, "E0602", text("{}:{}: not TOML: {}", origin, line, why),
          "https://toml.io"};
}

/// It also takes some characters beyond ASCII for impossible where a value or a key is expected,
/// and does anything then. Where TOML allows them, in strings and comments, one is as good as
/// another; so a copy with a question mark for each, which is an error everywhere else, is read
/// first.
toml::parse_result parse_toml(std::string_view document) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (document.substr(0, kByteOrderMark.size()) == kByteOrderMark)
    document.remove_prefix(kByteOrderMark.size());
  std::string ascii(document);
  std::replace_if(
      ascii.begin(), ascii.end(), [](char c) { return static_cast<signed char>(c) < 0; }, '?');
  toml::parse_result parsed = toml::parse(ascii, std::string_view{});
  return parsed ? toml::parse(document, std::string_view{}) : std::move(parsed);
}

}  // namespace

Result<Machine> parse_machine(std::string_view document, const std::string& origin) {
  const toml::parse_result parsed = parse_toml(document);
  if (!parsed)
    return not_toml(origin, parsed.error().source().begin.line,
                    printable(parsed.error().description()));
  Machine machine;
  Reader reader(parsed.table(), origin);
  std::int64_t schema = 1;
  reader.number("schema", schema, 1, 1, true);
  reader.string("name", machine.name, true);
  reader.string("summary", machine.summary, false, 200);
  reader.string("note", machine.note, false, 400);
  reader.table("driver", [&machine](Reader& inner) { read_driver(inner, machine); });
  reader.tables("device", [&machine](Reader& inner) { read_devices(inner, machine); });
  reader.tables("process", [&machine](Reader& inner) { read_process(inner, machine); });
  reader.finish();
  if (!reader.error()) reader.check(problem_of(machine));
  if (reader.error()) return std::move(*reader.error());
  return machine;
}

}  // namespace berth::sim
