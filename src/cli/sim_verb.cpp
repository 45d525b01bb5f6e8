// `berth sim`: runs a command on a simulated machine; lists and describes machines.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/exit_code.hpp"
#include "cli/verbs.hpp"
#include "output/error.hpp"
#include "output/table.hpp"
#include "sim/machine.hpp"
#include "sim/machine_check.hpp"
#include "sim/options.hpp"
#include "sim/session.hpp"
#include "sim/state.hpp"

namespace berth::cli {
namespace {

namespace wire = berth::wire::sim;

constexpr int kUnlimited = 10'000;  // columns
using Json = nlohmann::ordered_json;
using output::Style;

Result<sim::Options> options_of(const Arguments& arguments, const sim::Machine& machine) {
  const std::size_t devices = sim::device_count(machine);
  sim::Options options;
  if (const auto given = arguments.value("--processes")) {
    const auto number = parse_integer(*given, 0, wire::kMaxProcesses);
    if (!number) return Error(number.error()).during("--processes");
    options.processes = static_cast<std::uint32_t>(*number);
  }
  if (const auto given = arguments.value("--seed")) {
    const auto number = parse_integer(*given, 0, INT64_MAX);
    if (!number) return Error(number.error()).during("--seed");
    options.seed = static_cast<std::uint64_t>(*number);
  }
  if (const auto given = arguments.value("--at")) {
    const auto time = sim::parse_seconds(*given);
    if (!time) return Error(time.error()).during("--at");
    options.at_ns = *time;
  }
  for (const std::string& given : arguments.values("--fault")) {
    const auto fault = sim::parse_fault(given, devices);
    if (!fault) return fault.error();
    if (auto shown = sim::check_effect(given, *fault, machine); !shown)
      return std::move(shown).error();
    options.faults.push_back(*fault);
  }
  if (options.faults.size() > wire::kMaxFaults)
    return Error{ErrorCode::kInvalidArgument, "E0607",
                 text("more than {} faults", std::uint32_t{wire::kMaxFaults}), ""};
  for (const std::string& given : arguments.values("--attach")) {
    const auto attached = sim::parse_attached(given, devices);
    if (!attached) return attached.error();
    options.attached.push_back(*attached);
  }
  return options;
}

/// The devices of a machine, in the form that the simulated driver reads.
struct Description {
  sim::Machine machine;
  std::string bytes;
  wire::View view;
};

Result<Description> describe(const std::string& name) {
  auto machine = sim::load_machine(name);
  if (!machine) return std::move(machine).error();
  Description out{std::move(*machine), {}, {}};
  auto processes = sim::plan_processes(out.machine, {});
  if (!processes) return std::move(processes).error();
  out.bytes = sim::build_state(out.machine, {}, *processes, {}, 0);
  out.view = wire::View(reinterpret_cast<const wire::State*>(out.bytes.data()), nullptr);
  return out;
}

std::string address_of(const wire::Device& d) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", d.pci_domain, d.pci_bus, d.pci_slot);
}

std::string_view vendor_of(const wire::Device& d) {
  return d.vendor == wire::kAmd ? "amd" : d.vendor == wire::kIntel ? "intel" : "nvidia";
}

Json partitions_json(const Description& machine, const wire::Device& d) {
  Json list = Json::array();
  for (std::uint32_t i = d.partition_first; i < d.partition_first + d.partition_count; ++i) {
    const wire::Partition& p = machine.view.partition(i);
    list.push_back({{"index", i - d.partition_first},
                    {"profile", p.profile},
                    {"uuid", p.uuid},
                    {"memory_total_bytes", p.memory_total},
                    {"gpu_instance", p.gpu_instance},
                    {"compute_instance", p.compute_instance}});
  }
  return list;
}

Json device_json(const Description& machine, std::uint32_t i) {
  const wire::Device& d = machine.view.device(i);
  const sim::MachineDevices& group = sim::group_of(machine.machine, i);
  Json json{{"index", i},
            {"vendor", vendor_of(d)},
            {"vendor_index", d.vendor_index},
            {"name", d.name},
            {"uuid", d.vendor == wire::kNvidia ? Json(d.uuid) : Json(nullptr)},
            {"pci_address", address_of(d)},
            {"pci_id", group.pci_id},
            {"on_bus", d.on_bus != 0},
            {"architecture", d.architecture_name},
            {"memory_total_bytes", d.memory_total},
            {"memory_reserved_bytes", d.memory_reserved},
            {"memory_unified", d.unified != 0},
            {"power_limit_milliwatts", d.power_limit},
            {"numa_node", d.numa_node < 0 ? Json(nullptr) : Json(d.numa_node)},
            {"asleep", d.asleep != 0},
            {"mig_enabled", d.mig_enabled != 0},
            {"unsupported", group.unsupported}};
  json["partitions"] = partitions_json(machine, d);
  return json;
}

Json processes_json(const sim::Machine& machine) {
  Json list = Json::array();
  for (const sim::MachineProcess& process : machine.processes)
    list.push_back({{"device", process.device},
                    {"partition", process.partition ? Json(*process.partition) : Json(nullptr)},
                    {"memory_bytes", process.memory_bytes},
                    {"use", process.use},
                    {"foreign", process.foreign},
                    {"command", process.command}});
  return list;
}

std::string describe_json(const Description& description) {
  const sim::Machine& machine = description.machine;
  Json json{
      {"schema", 1}, {"simulated", true}, {"name", machine.name}, {"summary", machine.summary}};
  json["note"] = machine.note.empty() ? Json(nullptr) : Json(machine.note);
  json["driver"] = nullptr;
  if (machine.driver)
    json["driver"] = {{"version", machine.driver->version}, {"cuda_version", machine.driver->cuda}};
  json["devices"] = Json::array();
  for (std::uint32_t i = 0; i < description.view.state().devices; ++i)
    json["devices"].push_back(device_json(description, i));
  json["processes"] = processes_json(machine);
  return json.dump() + "\n";
}

std::string describe_text(const Description& description, const output::Terminal& terminal) {
  const sim::Machine& machine = description.machine;
  std::string out =
      terminal.paint(Style::kBold, machine.name) + "    " + std::string(tr(machine.summary)) + "\n";
  if (machine.driver)
    out += text("driver {} (CUDA ≤ {})", machine.driver->version, machine.driver->cuda) + "\n";
  output::Table table({{"#", true},
                       {std::string(tr("name")), false, output::kLeastText},
                       {std::string(tr("memory")), true},
                       {std::string(tr("power limit")), true},
                       {"PCI"},
                       {"NUMA", true},
                       {"MIG"},
                       {std::string(tr("state"))}});
  for (std::uint32_t i = 0; i < description.view.state().devices; ++i) {
    const wire::Device& d = description.view.device(i);
    table.add({std::to_string(i), std::string(d.name), show_bytes(d.memory_total),
               show_power(d.power_limit), address_of(d),
               d.numa_node < 0 ? "-" : std::to_string(d.numa_node),
               d.partition_count == 0
                   ? ""
                   : text_n("{} partition", "{} partitions", d.partition_count, d.partition_count),
               d.asleep != 0 ? std::string(tr("asleep")) : ""});
  }
  if (!table.empty()) out += "\n" + table.render(terminal);
  if (!machine.processes.empty())
    out += text_n("{} simulated process", "{} simulated processes",
                  static_cast<long long>(machine.processes.size()), machine.processes.size()) +
           "\n";
  if (!machine.note.empty()) out += "\n" + std::string(tr(machine.note)) + "\n";
  return out;
}

Result<int> list_machines(const Context& context) {
  Json json{{"schema", 1}, {"machines", Json::array()}};
  output::Table table({{std::string(tr("machine"))}, {std::string(tr("description"))}});
  std::size_t longest = 0;
  for (const sim::BuiltIn& built_in : sim::built_in_machines())
    longest = std::max(longest, built_in.name.size());
  // Do not wrap the output for a program: each machine is on one line.
  const int width = context.out_terminal.tty ? context.out_terminal.width : kUnlimited;
  const int room = std::max(30, width - static_cast<int>(longest) - 2);
  for (const sim::BuiltIn& built_in : sim::built_in_machines()) {
    const auto machine = sim::parse_machine(built_in.text, std::string(built_in.name));
    if (!machine) return machine.error();
    std::string name = machine->name;
    for (const std::string& line : output::wrap(tr(machine->summary), room))
      table.add({std::exchange(name, ""), line});
    json["machines"].push_back({{"name", machine->name},
                                {"summary", machine->summary},
                                {"devices", sim::device_count(*machine)}});
  }
  context.out(context.json ? json.dump() + "\n" : table.render(context.out_terminal));
  return static_cast<int>(kDone);
}

/// Writes how often each driver function was called, to a file or to stderr (name "-"). This lets
/// developers of tools check their calls.
Status write_report(const Context& context, const std::string& file, const sim::Machine& machine,
                    const sim::Ended& ended) {
  Json json{{"schema", 1},
            {"simulated", true},
            {"machine", machine.name},
            {"exit_code", ended.exit_code}};
  json["calls"] = Json::object();
  for (const auto& [name, count] : ended.calls) json["calls"][name] = count;
  json["wakes"] = ended.wakes;
  const std::string document = json.dump() + "\n";
  if (file == "-") {
    context.err(document);
    return Done{};
  }
  const Descriptor out(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (out &&
      ::write(out.get(), document.data(), document.size()) == static_cast<ssize_t>(document.size()))
    return Done{};
  return Error{ErrorCode::kUnavailable, "E0611",
               text("cannot write {}: {}", printable(file), error_words(errno)), ""};
}

/// The exit codes 127 (not found) and 126 (cannot be executed), as in shells.
int code_of(const Error& error) {
  if (error.code == ErrorCode::kNotFound) return kNotFound;
  return error.code == ErrorCode::kPermissionDenied ? kNotExecutable : kOurFailure;
}

}  // namespace

Result<int> run_sim(const Context& context) {
  const Arguments& arguments = context.arguments;
  if (arguments.has("--list")) return list_machines(context);
  if (const auto name = arguments.value("--describe")) {
    const auto description = describe(*name);
    if (!description) return description.error();
    context.out(context.json ? describe_json(*description)
                             : describe_text(*description, context.out_terminal));
    return static_cast<int>(kDone);
  }
  const auto name = arguments.value("--machine");
  if (!name)
    return Error{ErrorCode::kInvalidArgument, "E0617", text("which machine? --machine is missing"),
                 "berth sim --list"};
  if (arguments.command.empty())
    return Error{ErrorCode::kInvalidArgument, "E0618", text("the command to run is missing"),
                 "berth sim --machine " + printable(*name) + " -- berth"};
  const auto machine = sim::load_machine(*name);
  if (!machine) return machine.error();
  const auto options = options_of(arguments, *machine);
  if (!options) return options.error();
  const auto ended = sim::run(*machine, *options, arguments.command);
  if (!ended) {
    if (ended.error().code == ErrorCode::kInvalidArgument) return ended.error();
    const int code = code_of(ended.error());
    context.err(context.json ? output::error_json(ended.error(), code)
                             : output::show_error(ended.error(), context.err_terminal));
    return code;
  }
  if (const auto file = arguments.value("--report"))
    if (const auto written = write_report(context, *file, *machine, *ended); !written)
      return written.error();
  return ended->exit_code;
}

}  // namespace berth::cli
