// The verb table. To add a verb: a row here, a function in its own file, texts in po/, a page in
// the guide (CONTRIBUTING.md).
#include "cli/verbs.hpp"

#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/request_options.hpp"
#include "output/view.hpp"

namespace berth::cli {
namespace {

constexpr auto kCommon = std::to_array<Option>({
    {"--json", nullptr, "print one JSON document instead of text"},
    {"--lang", "en|zh", "language of the text (default: from LC_ALL, LC_MESSAGES or LANG)"},
    {"--color", "auto|always|never", "colour (default: auto; NO_COLOR is honoured)"},
    {"-h,--help", nullptr, "show this page"},
});

constexpr Option kDevice{
    "-d,--device", "LIST",
    "only these devices: index (0, MIG 0:1), uuid or PCI address, comma separated", true};
constexpr Option kUser{"-u,--user", "NAME", "only what this user (name or uid) uses"};
constexpr Option kMine{"-m,--mine", nullptr, "only what you use"};
constexpr Option kWide{"-w,--wide", nullptr, "all columns, however wide the terminal is"};
constexpr Option kOpenCl{"--opencl", nullptr,
                         "ask OpenCL, too (default: only where no GPU is found)"};
constexpr Option kNoOpenCl{"--no-opencl", nullptr, "do not ask OpenCL"};

constexpr auto kOverviewOptions = std::to_array<Option>({
    kOpenCl,
    kNoOpenCl,
    {"-V,--version", nullptr, "print version, revision and compiler"},
});
constexpr auto kOverviewExamples = std::to_array<Example>({
    {"berth", "devices, who uses them, what is wrong, and what to do next"},
    {"berth --json", "the same for a program"},
    {"berth run -- python train.py", "on a free device, else on the CPU"},
    {"berth doctor -- python train.py", "why it does not find the GPU"},
    {"berth sim --machine dgx-h100-8 -- berth", "a machine that is not there"},
});

constexpr auto kLsOptions = std::to_array<Option>({
    kDevice,
    kUser,
    kMine,
    {"-s,--sort", output::kDeviceSortKeys, "order of the rows; numbers largest first"},
    kWide,
    {"-l,--details", nullptr, "every field of every device, and why a reading is absent"},
    {"--pcie-throughput", nullptr, "measure PCIe traffic, which takes the driver 40 ms a GPU"},
    kOpenCl,
    kNoOpenCl,
});
constexpr auto kLsExamples = std::to_array<Example>({
    {"berth ls", "every device in one table"},
    {"berth ls --details --device 0", "all that is known about one device"},
    {"berth ls --json | jq '.devices[].uuid'", "for a program"},
});

constexpr auto kPsOptions = std::to_array<Option>({
    kDevice,
    kUser,
    kMine,
    {"-s,--sort", output::kProcessSortKeys, "order of the rows; numbers largest first"},
    kWide,
    kOpenCl,
    kNoOpenCl,
});
constexpr auto kPsExamples = std::to_array<Example>({
    {"berth ps", "every process on a device, and whose it is"},
    {"berth ps --mine --sort memory", "your own, the largest first"},
});

constexpr auto kHelpOptions = std::to_array<Option>({
    {"--man", nullptr, "print the man page"},
    {"--markdown", nullptr, "print the page for docs/cli.md"},
    {"--completion", "bash|zsh|fish", "print a completion script for a shell"},
});
constexpr auto kHelpExamples = std::to_array<Example>({
    {"berth help run", "all about one verb"},
    {"berth help --man | man -l -", "the man page of all verbs"},
    {"source <(berth help --completion bash)", "complete words in this shell"},
});

constexpr auto kRunOnlyOptions = std::to_array<Option>({
    {"--name", "NAME", "a name for the job, for its report"},
    {"--dry-run", nullptr, "only print what would be set and done"},
    {"--report", "FILE|-|none", "JSON to FILE; - : text on stderr, also where it is no terminal"},
    {"--no-wait", nullptr, "fail (6) instead of waiting while no device is free enough"},
    {"--time-limit", "DURATION", "ended after so long (2h); others may start beside it by that"},
    {"--priority", "N", "among your own waiting jobs, larger first (default: 0)"},
    {"--or-cpu-after", "DURATION", "having waited so long for a GPU (10m), the CPU will do"},
});
constexpr auto kQueueOptions = std::to_array<Option>({
    {"--queue", nullptr, "leave it to the broker: print the job's number, and do not wait"},
    {"--after", "JOB,…", "with --queue: when these jobs are done", true},
    {"--array", "RANGE",
     "with --queue: one job for each BERTH_ARRAY_INDEX of 1-100; 1-100%4: four at a time"},
    {"--requeue", nullptr,
     "with --queue: start it anew where the machine was restarted while it ran"},
    {"--hold", nullptr, "with --queue: it starts once `berth release` lets it"},
});
constexpr auto kLeaseOptions = join(kRequestOptions, kRunOnlyOptions);
constexpr auto kRunOptions = join(kLeaseOptions, kQueueOptions);
constexpr auto kRunExamples = std::to_array<Example>({
    {"berth run -- python train.py", "on a free GPU where there is one, else on the CPU"},
    {"berth run --gpus 2 -- python train.py", "on two"},
    {"berth run --memory 8GiB -- python infer.py", "beside others, where that much is free"},
    {"berth run --cpu -- python train.py", "on the CPU, with the GPUs hidden"},
    {"berth run --dry-run --gpus 1 -- python train.py", "what would be set, and why"},
    {"berth run --queue --gpus 1 -- python train.py",
     "later, when a GPU is free; log out meanwhile"},
    {"berth run --queue --array 0-9%2 -- python train.py", "ten like it, two at a time"},
});
constexpr auto kLeaseExamples = std::to_array<Example>({
    {"berth lease --gpus 1", "a shell that has a GPU until you leave it"},
    {"berth lease --memory 8GiB -- jupyter lab", "a part of one, for as long as a program runs"},
    {"berth lease --gpus 2 --no-wait -- bash", "at once, or not at all"},
});
constexpr auto kEnvOptions =
    join(kRequestOptions,
         std::to_array<Option>({
             {"--format", "shell|json|dotenv|docker|cdi|pip|conda|dockerfile",
              "for eval, a program, --env-file, docker run, podman run; or what to install "
              "(default: shell)"},
             {"--framework", "torch|tensorflow|jax|cupy",
              "with pip, conda, dockerfile: what to install, as proven for this driver, GPU and "
              "Python"},
             {"--driver", "VERSION", "a recipe for another machine: its NVIDIA driver (550.54)"},
             {"--gpu", "NAME", "the same: its GPU (H100)", true},
             {"--compute-capability", "X.Y", "the same, for a GPU that Berth does not know"},
             {"--python-version", "X.Y", "a recipe for another Python (3.11)"},
             {"--torch-index", "URL", "where your mirror of PyTorch's own index is"},
         }));
constexpr auto kEnvExamples = std::to_array<Example>({
    {"eval \"$(berth env --gpus 1)\"", "make this shell's programs use one free GPU"},
    {"berth env --gpus 2 --format docker", "the same for a container"},
    {"berth env --cpu", "hide every GPU, threads from the cores"},
    {"berth env --format pip --framework torch", "the PyTorch that runs here, as a command"},
    {"berth env --format dockerfile --framework jax --driver 550.54 --gpu H100",
     "an image for another machine"},
});

constexpr auto kJobsOptions = std::to_array<Option>({
    {"-a,--all", nullptr, "also what ended more than a day ago"},
    {"-m,--mine", nullptr, "only your own"},
    {"-u,--user", "NAME", "only those of this user (name or uid)"},
});
constexpr auto kJobsExamples = std::to_array<Example>({
    {"berth jobs", "what runs, what waits, and what ended in the last day"},
    {"berth jobs --mine --all", "all of your own that is still known"},
    {"berth jobs --json | jq '.jobs[] | select(.state == \"waiting\").id'", "for a program"},
});
constexpr auto kWhyExamples = std::to_array<Example>({
    {"berth why 7", "why job 7 has not started, and what would start at once"},
    {"berth why training", "the same by the name that you gave it"},
});
constexpr auto kLogsOptions = std::to_array<Option>({
    {"-f,--follow", nullptr, "go on until the job has ended"},
});
constexpr auto kLogsExamples = std::to_array<Example>({
    {"berth logs 7", "what job 7 has written so far"},
    {"berth logs -f 7", "the same, and what it writes until its end"},
});
constexpr auto kWaitExamples = std::to_array<Example>({
    {"berth wait 7", "until job 7 has ended; its exit code is that of this command"},
    {"berth wait 7 8 training", "until all have ended; the first exit code that is not 0"},
});
constexpr auto kCancelExamples = std::to_array<Example>({
    {"berth cancel 7", "end job 7, or take it out of the line"},
    {"berth cancel 8 9 training", "several at once"},
});
constexpr auto kHoldExamples = std::to_array<Example>({
    {"berth hold 8", "let others go before it until it is released"},
});
constexpr auto kReleaseExamples = std::to_array<Example>({
    {"berth release 8", "it stands in line again"},
});

constexpr auto kServeOptions = std::to_array<Option>({
    {"--system", nullptr, "for all users of the machine, as root (default: for you alone)"},
    {"--config", "FILE", "with --system: its settings (default: /etc/berth/berth.toml)"},
    {"--mode", "MODE",
     "with --system, of processes without a lease: observe, warn or enforce (default: observe)"},
    {"--enforce-on", "PATH",
     "the control group whose processes need a lease (default: user.slice)"},
    {"--tcp", "ADDRESS:PORT",
     "answer on loopback as well (127.0.0.1:8642), to programs that have the token; docs/api.md"},
    {"--idle", "DURATION", "end when there was nothing to do for so long (10m; default: never)"},
});
constexpr auto kServeExamples = std::to_array<Example>({
    {"berth serve", "your own broker, in this terminal; `berth run` starts one by itself"},
    {"sudo berth serve --system", "one broker for everybody on this machine"},
});

constexpr auto kSimOptions = std::to_array<Option>({
    {"--machine", "NAME|FILE",
     "the machine: one that Berth carries, or a file (docs/simulator.md)"},
    {"--processes", "N", "start N processes and spread them over the GPUs"},
    {"--attach", "PID:DEVICE:SIZE", "put a process that runs already on a GPU", true},
    {"--seed", "N", "another number, another load (default: 0)"},
    {"--at", "SECONDS", "time stands still that long after the start"},
    {"--fault", "KIND[:DEVICE][@SECONDS][=VALUE]",
     "lost, hung, slow, xid, ecc, remap, throttle, mismatch, no-permission, no-driver or zombie",
     true},
    {"--report", "FILE", "write at the end, as JSON, what was asked of the driver (- is stderr)"},
    {"--list", nullptr, "list the machines that Berth carries"},
    {"--describe", "NAME|FILE", "show what a machine has"},
});
constexpr auto kSimExamples = std::to_array<Example>({
    {"berth sim --list", "which machines there are"},
    {"berth sim --machine dgx-h100-8 --processes 20 -- berth", "what a big machine looks like"},
    {"berth sim --machine lab-4x3090 --fault lost:2 -- berth ls", "a GPU that fell off the bus"},
    {"berth sim --machine ./mine.toml --at 60 -- gpustat",
     "another tool, on a machine of your own"},
});

constexpr auto kDoctorOptions = std::to_array<Option>({
    {"--python", "PATH", "the Python that the program runs in (default: the active environment's)"},
    {"--venv", "DIR", "the same by the folder of a virtual environment"},
    {"--conda", "NAME", "the same by the name of a conda environment"},
    {"--static", nullptr, "read files only; ask no driver"},
    {"--deep", nullptr, "also let each framework of the target run one kernel (at most 15 s)"},
    {"--error", "FILE|-", "a pasted traceback or log: what it speaks of is looked at first"},
    {"--pid", "PID", "a running process: its files, variables and rights"},
    {"--only", "ID,…", "only these rules", true},
    {"--list", nullptr, "list the rules"},
    {"--explain", "ID", "what one rule looks for"},
    {"--all", nullptr, "every finding in full"},
    {"--record", "DIR", "write what the rules look at to a new folder, without names and tokens"},
    {"--from", "DIR", "a recorded machine instead of this one (docs/bundle.md)"},
});
constexpr auto kDoctorExamples = std::to_array<Example>({
    {"berth doctor", "why the GPU can't be used, or is used badly"},
    {"berth doctor --venv ~/train", "the same for a Python environment, of which nothing is run"},
    {"berth doctor train.py Dockerfile", "lines that do not do what they look like"},
    {"berth doctor -- torchrun train.py", "what this command would see; it is not run"},
    {"python train.py 2>&1 | berth doctor --error -", "begin with what the error speaks of"},
    {"berth doctor --deep", "run one kernel with each framework, too"},
    {"berth doctor --static --json", "for a program, without asking a driver"},
    {"berth doctor --record ./bundle", "a bundle for a bug report"},
    {"berth doctor --from ./bundle", "the same for a recorded machine"},
});

constexpr auto kDrainExamples = std::to_array<Example>({
    {"berth drain 2", "before a card is taken out, or its driver reset"},
    {"berth drain 0 1 && berth jobs", "and see what still runs"},
});
constexpr auto kUndrainExamples = std::to_array<Example>({
    {"berth undrain 2", "when it is back"},
});

constexpr auto kVerbs = std::to_array<Verb>({
    {"", Group::kLook, "one screen: devices, users, problems, next steps", "", false,
     kOverviewOptions, kOverviewExamples, run_overview},
    {"ls", Group::kLook, "the devices of this machine, of every vendor, and the CPU", "", false,
     kLsOptions, kLsExamples, run_ls},
    {"ps", Group::kLook, "the processes on devices: whose, how much, where", "", false, kPsOptions,
     kPsExamples, run_ps},
    {"doctor", Group::kLook, "say why a GPU can't be used, and how to mend it",
     "[FILE…] [-- COMMAND…]", false, kDoctorOptions, kDoctorExamples, run_doctor},
    {"run", Group::kUse, "run a program on the right device, and say how it used it", "-- COMMAND…",
     true, kRunOptions, kRunExamples, run_run},
    {"lease", Group::kUse, "have devices for a while: for a shell, or for what you start in it",
     "[-- COMMAND…]", true, kLeaseOptions, kLeaseExamples, run_lease},
    {"env", Group::kUse, "print the environment that a job would get", "", false, kEnvOptions,
     kEnvExamples, run_env},
    {"jobs", Group::kUse, "the jobs of this machine: what runs, what waits, what ended", "", false,
     kJobsOptions, kJobsExamples, run_jobs},
    {"why",
     Group::kUse,
     "say what a job waits for, who has it, and when it may start",
     "JOB",
     false,
     {},
     kWhyExamples,
     run_why},
    {"logs", Group::kUse, "print what a queued job wrote", "JOB", false, kLogsOptions,
     kLogsExamples, run_logs},
    {"wait",
     Group::kUse,
     "wait until jobs have ended, and pass their exit code on",
     "JOB…",
     false,
     {},
     kWaitExamples,
     run_wait},
    {"cancel",
     Group::kUse,
     "end jobs, or take them out of the line",
     "JOB…",
     false,
     {},
     kCancelExamples,
     run_cancel},
    {"hold",
     Group::kUse,
     "keep jobs that wait from starting",
     "JOB…",
     false,
     {},
     kHoldExamples,
     run_hold},
    {"release",
     Group::kUse,
     "let jobs that were held stand in line again",
     "JOB…",
     false,
     {},
     kReleaseExamples,
     run_release},
    {"drain",
     Group::kOperate,
     "give a device to no new jobs, for maintenance; what runs on it goes on",
     "DEVICE…",
     false,
     {},
     kDrainExamples,
     run_drain},
    {"undrain",
     Group::kOperate,
     "give a device that was drained to jobs again",
     "DEVICE…",
     false,
     {},
     kUndrainExamples,
     run_undrain},
    {"serve", Group::kOperate, "give out devices: the broker that jobs get their leases from", "",
     false, kServeOptions, kServeExamples, run_serve},
    {"help", Group::kLook, "explain a verb", "[VERB]", false, kHelpOptions, kHelpExamples,
     run_help},
    {"sim", Group::kMeasure, "run a command on a simulated machine", "-- COMMAND…", true,
     kSimOptions, kSimExamples, run_sim},
});

}  // namespace

std::span<const Verb> verbs() {
  return kVerbs;
}
std::span<const Option> common_options() {
  return kCommon;
}

const Verb* find_verb(std::string_view name) {
  for (const Verb& verb : kVerbs)
    if (verb.name == name) return &verb;
  return nullptr;
}

Error unknown_verb(const std::string& word) {
  std::vector<std::string> known;
  known.reserve(kVerbs.size());
  for (const Verb& verb : kVerbs) known.emplace_back(verb.name);
  const std::string near = nearest(word, known);
  return {ErrorCode::kInvalidArgument, "E0002", text("there is no verb '{}'", printable(word)),
          (near.empty() ? "" : text("did you mean {}?", "berth " + near) + "   ") + "berth help"};
}

}  // namespace berth::cli
