// The options of `berth run` for jobs with several processes, and for retried jobs.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/verb.hpp"
#include "job/ranks.hpp"
#include "model/run.hpp"

namespace berth::cli {

inline constexpr std::array<Option, 14> kRankOptions{{
    {"--ranks", "N|MIN:MAX|gpu|auto",
     "start N ranks with torchrun's variables; MIN:MAX: one per free GPU; gpu: one per GPU; auto: "
     "one per GPU, or per core without GPUs"},
    {"--gpus-per-rank", "K",
     "with --ranks: K GPUs for each rank; with K above 1, a rank sees only its own GPUs"},
    {"--oversubscribe", nullptr,
     "with --ranks: if there are fewer GPUs than ranks, several ranks share one"},
    {"--nodes", "N",
     "with --ranks: number of nodes, all with the same number of ranks (default: from Slurm or "
     "PET_NNODES, else 1)"},
    {"--tee", "LIST", "with --ranks: show the output of these ranks only (0,2); default: of all"},
    {"--stdin-rank", "N", "with --ranks: the rank that gets standard input (default: 0)"},
    {"--preflight", nullptr,
     "with --ranks: before the program starts, test a connection and an all-reduce of the ranks "
     "with its PyTorch"},
    {"--nccl-debug", nullptr,
     "with --ranks: the report says how NCCL connects the ranks; --log-dir also keeps NCCL's log"},
    {"--retries", "N",
     "start a failed command again, up to N times, unless the program itself has an error"},
    {"--backoff", "TIME..MOST",
     "with --retries: wait before a retry, doubled each time (default: 1s..60s)"},
    {"--hang-action", "report|retry|kill",
     "with --ranks: only report a hang, start all ranks again, or end them (default: report)"},
    {"--hang-timeout", "DURATION",
     "with --hang-action retry or kill: act after this long without progress (default: 10m)"},
    {"--log-dir", "DIR", "with --ranks: write the output of each rank to a file in DIR"},
    {"--log-limit", "SIZE",
     "with --log-dir: if a rank writes more, keep only the beginning and the end (default: 1GiB)"},
}};

/// Reads the options. Fails with kInvalidArgument (E0104, E0013, E0010, E0950; E0537: the command
/// is another launcher), and with the errors of run::node_place().
[[nodiscard]] Result<job::SupervisionWish> parse_supervision(const Arguments& arguments);
/// The command of a queued job: `berth run` with these options. Inside the job, it uses the job's
/// devices and requests no second lease.
[[nodiscard]] std::vector<std::string> command_in_queue(const Arguments& arguments,
                                                        const model::Request& request);

}  // namespace berth::cli
