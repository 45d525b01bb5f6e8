// Options and examples of the verbs that observe devices: top, health, alerts, history, usage,
// exporter.
#pragma once

#include <array>

#include "cli/device_options.hpp"
#include "top/keys.hpp"
#include "watch/metrics.hpp"

namespace berth::cli {

inline constexpr Option kHost = {
    "--host", "LIST", "ask these machines instead, comma separated, through your ssh", true};

inline constexpr auto kTopOptions = std::to_array<Option>({
    kDevice,
    kUser,
    {"-s,--sort", top::kSortKeys,
     "the column by which processes are sorted; largest numbers first"},
    {"--reverse", nullptr, "in reverse order"},
    {"--tree", nullptr, "child processes below their parents"},
    {"--by-user", nullptr, "show one row per user instead of processes"},
    {"--filter", "TEXT", "only processes with this text in their command, user, container or job"},
    {"--interval", "DURATION", "time between two samples (default: 1s)"},
    {"--no-graphs", nullptr, "no graphs over time"},
    {"--graph", top::kGraphs, "what the graphs show (default: \"use\")"},
    {"--theme", top::kThemes, "colours for a dark or light background, or none"},
    {"--no-mouse", nullptr, "leave the mouse to the terminal, which can then select text"},
    {"--queue", nullptr, "begin with the queue instead of the processes"},
    {"--ascii", nullptr, "only ASCII characters in bars and graphs"},
    {"--once", nullptr, "print one screen and exit; with --json one document"},
    {"--record", "FILE", "also append the shown data to this file"},
    {"--replay", "FILE", "show a recording instead of this machine"},
    {"--defaults", nullptr, "ignore the settings that keys changed in earlier runs"},
    kHost,
});
inline constexpr auto kTopExamples = std::to_array<Example>({
    {"berth top", "devices and processes, live; ? shows the keys"},
    {"berth top --record night.jsonl --json > /dev/null", "record without a terminal"},
    {"berth top --replay night.jsonl", "replay the recording; space pauses, left and right step"},
    {"berth top --once", "print the view once, for a script or a log"},
    {"berth top --host lab1,lab2",
     "several machines, live; a machine that does not answer takes one row"},
    {"berth top --json | jq -c '.devices[0].utilization_percent'", "one document a second"},
});

inline constexpr auto kHealthOptions = std::to_array<Option>({
    {"-d,--device", "LIST", "only these devices: index, uuid or PCI address, comma separated",
     true},
    {"--against", "FILE",
     "compare the kept results of `berth bench` with this file (default: with "
     "the first kept results)"},
});
inline constexpr auto kHealthExamples = std::to_array<Example>({
    {"berth health", "check every GPU; the exit code is 1 if one failed"},
    {"berth health --device 0 || exit 1", "check the job's GPU in the prolog of a scheduler"},
});
inline constexpr auto kAlertsOptions = std::to_array<Option>({
    {"--test", nullptr,
     "send a test message to each [[alerts]] of the settings, and show which of them accepted it"},
    {"--rules", nullptr,
     "show the broker's alert rules: condition, how long it must hold, severity"},
    {"--config", "FILE", "with --test or --rules: use these settings, without asking the broker"},
});
inline constexpr auto kAlertsExamples = std::to_array<Example>({
    {"berth alerts", "show current problems, and since when they exist"},
    {"berth alerts --rules", "show the rules and their limits"},
    {"berth alerts --rules --config berth.toml", "check new settings before a restart"},
    {"sudo berth alerts --test",
     "try the commands, webhooks and terminals of /etc/berth/berth.toml"},
});
inline constexpr auto kHistoryOptions = std::to_array<Option>({
    {"-d,--device", "LIST", "only these devices: index, or the beginning of a uuid", true},
    {"-u,--user", "NAME", "show what the jobs of this user used, instead of readings"},
    {"--job", "N", "show what the commands of this job used, instead of readings"},
    {"--since", "DURATION", "begin this long before now (2h, 7d; default: 1h)"},
    {"--step", "DURATION", "averaging interval (default: chosen to fit the output)"},
    {"--format", "table|csv|json|plot", "form of the output (default: table)"},
});
inline constexpr auto kHistoryExamples = std::to_array<Example>({
    {"berth history --device 0 --since 2h", "show the readings of one device"},
    {"berth history --since 24h --format plot", "show a day as graphs"},
    {"berth history --format csv > day.csv", "write a file for a spreadsheet"},
});
inline constexpr auto kDiffOptions = std::to_array<Option>({
    {"--at", "TIME", "time of the change, in local time: 14:02 or 2026-11-23T14:02; add Z for UTC"},
    {"--since", "DURATION", "instead of --at: compare now with this long ago (default: 10m)"},
    {"--window", "DURATION", "length of each of the two compared periods (default: 5m)"},
    {"-d,--device", "LIST", "only these devices: index, or the beginning of a uuid", true},
});
inline constexpr auto kDiffExamples = std::to_array<Example>({
    {"berth diff --at 14:02", "find out why the training is slower since two o'clock"},
    {"berth diff --since 2h", "compare now with two hours ago"},
});
inline constexpr auto kUsageOptions = std::to_array<Option>({
    {"--by", "user|job|command", "group the usage by user, job or command (default: user)"},
    {"-u,--user", "NAME", "only the usage of this user"},
    {"--job", "N", "only the usage of this job"},
    {"--since", "DURATION", "how far back (default: 30d)"},
    {"--gpu-hour-price", "PRICE",
     "also show the cost, with this price for an hour of holding a GPU"},
    {"--power-price", "PRICE", "also show the cost, with this price for a kWh of energy"},
});
inline constexpr auto kUsageExamples = std::to_array<Example>({
    {"berth usage --since 7d", "show the GPU-hours of each user, and how much of them was idle"},
    {"berth usage --by command --user lin", "show how one user spent the GPU-hours"},
    {"berth usage --by job", "show what jobs asked for and used, and what to ask for next time"},
});

inline constexpr auto kExporterOptions = std::to_array<Option>({
    {"--listen", "ADDRESS:PORT", "the address to listen on (default: 127.0.0.1:9837)"},
    {"--dialect", watch::kDialects, "use the names and labels of this exporter (default: berth)"},
    {"--processes", "N",
     "also export the N largest groups of processes on each device, by user, job and program"},
    {"--interval", "DURATION", "time between two samples (default: 1s)"},
    {"--token-file", "FILE",
     "answer only requests with the bearer token in FILE; required unless on loopback"},
    {"--kubelet", "DIR",
     "the kubelet's folder, to find out which pods have devices (default: /var/lib/kubelet)"},
    {"--once", nullptr, "print the metrics once instead of serving them"},
});
inline constexpr auto kExporterExamples = std::to_array<Example>({
    {"berth exporter", "serve metrics for Prometheus at http://127.0.0.1:9837/metrics"},
    {"berth exporter --dialect dcgm", "use the names of dcgm-exporter, for dashboards made for it"},
    {"berth exporter --once", "see what it exports"},
});

}  // namespace berth::cli
