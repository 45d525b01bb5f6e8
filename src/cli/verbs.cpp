// The verb table. To add a verb: add a row here, a function in its own file, texts in po/, and a
// page in the guide (CONTRIBUTING.md). Groups of verbs have their options in *_options.hpp.
#include "cli/verbs.hpp"

#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/container_options.hpp"
#include "cli/device_options.hpp"
#include "cli/engine_options.hpp"
#include "cli/plan_options.hpp"
#include "cli/rank_options.hpp"
#include "cli/request_options.hpp"
#include "cli/watch_options.hpp"
#include "output/view.hpp"

namespace berth::cli {
namespace {

constexpr auto kCommon = std::to_array<Option>({
    {"--json", nullptr, "print one JSON document instead of text"},
    {"--lang", "en|zh", "language of the text (default: from LC_ALL, LC_MESSAGES or LANG)"},
    {"--color", "auto|always|never", "colour (default: auto; NO_COLOR is honoured)"},
    {"-h,--help", nullptr, "show this page"},
});

constexpr auto kOverviewOptions = std::to_array<Option>({
    kOpenCl,
    kNoOpenCl,
    {"-V,--version", nullptr, "print version, revision and compiler"},
});
constexpr auto kOverviewExamples = std::to_array<Example>({
    {"berth", "show devices, their users, problems, and next steps"},
    {"berth --json", "print the same data as JSON for a program"},
    {"berth run -- python train.py",
     "run on one free GPU; wait if all are busy; use the CPU if there is no GPU"},
    {"berth doctor -- python train.py", "find out why the program does not find the GPU"},
    {"berth sim --machine dgx-h100-8 -- berth", "show this screen for a simulated machine"},
});

constexpr auto kLsOptions = std::to_array<Option>({
    kDevice,
    kUser,
    kMine,
    {"-s,--sort", output::kDeviceSortKeys,
     "the column by which rows are sorted; largest numbers first"},
    kWide,
    {"-l,--details", nullptr, "every field of every device, and why a reading is absent"},
    {"--topology", nullptr, "how the GPUs are connected: NVLink, PCIe switches, NUMA nodes"},
    {"--pcie-throughput", nullptr, "measure PCIe traffic; this takes the driver 40 ms per GPU"},
    kOpenCl,
    kNoOpenCl,
    kHost,
});
constexpr auto kLsExamples = std::to_array<Example>({
    {"berth ls", "every device in one table"},
    {"berth ls --topology", "which GPUs are near each other, like `nvidia-smi topo -m`"},
    {"berth ls --host lab1,lab2", "the devices of other machines, through your ssh"},
    {"berth ls --details --device 0", "all that is known about one device"},
    {"berth ls --json | jq '.devices[].uuid'", "JSON for a program"},
});

constexpr auto kPsOptions = std::to_array<Option>({
    kDevice,
    kUser,
    kMine,
    {"-s,--sort", output::kProcessSortKeys,
     "the column by which rows are sorted; largest numbers first"},
    kWide,
    kOpenCl,
    kNoOpenCl,
    kHost,
});
constexpr auto kPsExamples = std::to_array<Example>({
    {"berth ps", "every process on a device, and its user"},
    {"berth ps --mine --sort memory", "your own processes, by memory"},
});

constexpr auto kHelpOptions = std::to_array<Option>({
    {"--man", nullptr, "print the man page, of berth or of the verb"},
    {"--markdown", nullptr, "print the page for docs/cli.md"},
    {"--completion", "bash|zsh|fish", "print a completion script for a shell"},
    {"--words", "jobs|devices", "existing names, one per line: for shell completions"},
});
constexpr auto kHelpExamples = std::to_array<Example>({
    {"berth help run", "all about one verb"},
    {"berth help --man run | man -l -", "the man page of one verb"},
    {"source <(berth help --completion bash)", "turn on completion in this shell"},
});

constexpr auto kRunOnlyOptions = std::to_array<Option>({
    {"--name", "NAME", "a name for the job, for its report"},
    {"--dry-run", nullptr, "only print what would be set and done"},
    {"--spill", nullptr,
     "with --memory: memory beyond the quota is managed memory, which the driver moves to the host "
     "and back"},
    {"--isolation", "auto|driver|mig|mps|guard|none",
     "the method that enforces --memory and --share (default: auto, the strongest available "
     "method)"},
    {"--strict", nullptr,
     "with --memory or --share: do not start if they cannot be enforced, and end processes of the "
     "job that use a GPU without the guard"},
    {"--report", "FILE|-|none",
     "write the report as JSON to FILE; -: as text to stderr, even if stderr is not a terminal"},
    {"--verbose", nullptr, "the report also says which variables were set, unset and kept"},
    {"--no-wait", nullptr, "fail with exit code 6 instead of waiting for a free device"},
    {"--time-limit", "DURATION", "end the job after this long (2h); helps the queue to plan"},
    {"--grace", "DURATION", "time between SIGTERM and SIGKILL, for saving data (default: 10s)"},
    {"--signal", "SIGNAL@TIME", "send the job a signal this long before its time limit (USR1@60s)"},
    {"--checkpoint-signal", "SIGNAL[@TIME]",
     "whenever the job must end: send this signal first, and SIGTERM this long later (USR1; "
     "default: 30s)"},
    {"--priority", "N", "order among your own waiting jobs: larger first (default: 0)"},
    {"--or-cpu-after", "DURATION", "use the CPU after waiting this long for a GPU (10m)"},
});
constexpr auto kQueueOptions = std::to_array<Option>({
    {"--queue", nullptr, "queue the job: print its number, and do not wait"},
    {"--after", "JOB,…",
     "with --queue: start after these jobs succeed (any:7 = after job 7 ends, not-ok:7 = after job "
     "7 fails)",
     true},
    {"--on-end", "COMMAND", "run this in a shell after the job, with BERTH_EXIT_CODE set"},
    {"--notify", nullptr,
     "when the job has ended, write a line to your terminals and to the desktop"},
    {"--array", "RANGE",
     "with --queue: one job for each index 1-100 (in BERTH_ARRAY_INDEX); 1-100%4: four at a time"},
    {"--requeue", nullptr,
     "with --queue: start the job again if the machine restarts while the job runs"},
    {"--preemptible", nullptr,
     "with --queue: use free GPUs; if another job needs them, end this job and queue it again"},
    {"--hold", nullptr, "with --queue: do not start the job until `berth release`"},
});
constexpr auto kLeaseOptions = join(kRequestOptions, kRunOnlyOptions);
constexpr auto kRunOptions =
    join(join(join(kLeaseOptions, kContainerOptions), kRankOptions), kQueueOptions);
constexpr auto kRunExamples = std::to_array<Example>({
    {"berth run -- python train.py",
     "run on one free GPU; wait if all are busy; use the CPU if there is no GPU"},
    {"berth run --gpus 2 -- python train.py", "run on two GPUs"},
    {"berth run --memory 8GiB -- python infer.py",
     "run on a part of a free GPU, or else of the least used GPU"},
    {"berth run --cpu -- python train.py", "run on the CPU, with the GPUs hidden"},
    {"berth run --ranks 4 -- python train.py",
     "start four processes with a GPU each, as torchrun would"},
    {"berth run --retries 3 -- python train.py",
     "start the program again if memory ran out, a device failed or the program was killed"},
    {"berth run --container pytorch/pytorch --memory 8GiB -- python infer.py",
     "run in a container, limited to 8 GiB"},
    {"berth run --dry-run --gpus 1 -- python train.py", "show what would be set, and why"},
    {"berth run --queue --gpus 1 -- python train.py",
     "queue the job until a GPU is free; you can log out meanwhile"},
    {"berth run --queue --array 0-9%2 -- python train.py",
     "queue an array of ten jobs, which run two at a time"},
});
constexpr auto kStacksOptions = std::to_array<Option>({
    {"--pid", "PID", "a process and its descendants, even if a job has this number"},
});
constexpr auto kStacksExamples = std::to_array<Example>({
    {"berth stacks 12", "show the stacks of a job or a process; nothing is stopped"},
    {"berth stacks --pid 4121", "show the stacks of process 4121, even if a job has this number"},
    {"berth stacks --json 12", "JSON for a program"},
});
constexpr auto kLeaseExamples = std::to_array<Example>({
    {"berth lease --gpus 1", "start a shell that has a GPU until you leave it"},
    {"berth lease --memory 8GiB -- jupyter lab", "use a part of a GPU while one program runs"},
    {"berth lease --gpus 2 --no-wait -- bash", "fail instead of waiting in the queue"},
});
constexpr auto kEnvOptions = join(
    kRequestOptions,
    std::to_array<Option>({
        {"--format", "shell|json|dotenv|docker|cdi|k8s|pip|conda|dockerfile",
         "print the variables for a shell, a file, a container or a pod; or how to install a "
         "framework (default: shell)"},
        {"--framework", "torch|tensorflow|jax|cupy|onnxruntime",
         "with pip, conda, dockerfile: the framework to install, in a version that is known to "
         "work with this driver, GPU and Python"},
        {"--driver", "VERSION", "a recipe for a machine with this NVIDIA driver (550.54)"},
        {"--gpu", "NAME", "a recipe for a machine with this GPU (H100)", true},
        {"--compute-capability", "X.Y", "the compute capability of a GPU that Berth does not know"},
        {"--python-version", "X.Y", "a recipe for another Python (3.11)"},
        {"--torch-index", "URL", "the URL of your mirror of PyTorch's own index"},
    }));
constexpr auto kEnvExamples = std::to_array<Example>({
    {"eval \"$(berth env --gpus 1)\"", "make this shell's programs use one free GPU"},
    {"berth env --gpus 2 --format docker", "print the options of docker run for two free GPUs"},
    {"berth env --cpu", "hide every GPU, and set one thread per usable core"},
    {"berth env --gpus 1 --format k8s", "a Kubernetes Job that requests a GPU"},
    {"berth env --format pip --framework torch",
     "the command that installs a PyTorch for this machine"},
    {"berth env --format dockerfile --framework jax --driver 550.54 --gpu H100",
     "an image for another machine"},
});

constexpr auto kJobsOptions = std::to_array<Option>({
    {"-a,--all", nullptr, "also list jobs that ended more than a day ago"},
    {"-m,--mine", nullptr, "only your own jobs"},
    {"-u,--user", "NAME", "only the jobs of this user (name or uid)"},
    {"--state", "STATE,…",
     "only jobs in these states: waiting, held, running, done, failed, cancelled, lost"},
    {"--since", "DURATION", "jobs that ended within this time (1w; default: 1d)"},
    {"--limit", "N", "maximum number of rows; none: all (default: 100; with --json all)"},
});
constexpr auto kReportExamples = std::to_array<Example>({
    {"berth report 7", "how long job 7 waited and ran, what it used, and what limited it"},
    {"berth report", "the report of your last job"},
});
constexpr auto kEditOptions = std::to_array<Option>({
    {"--priority", "N", "order among your own waiting jobs: larger first"},
    {"--time-limit", "DURATION",
     "end the job after this long; none: no limit; the limit of a running job can only become "
     "shorter"},
    {"--gpus", "N", "number of GPUs; none: run on the CPU"},
    {"--after", "JOB,…", "start after these jobs succeed (any:7, not-ok:7); none: at once", true},
    {"--first", nullptr, "start before all your other waiting jobs"},
    {"--swap", "JOB", "exchange places in the queue with this job"},
});
constexpr auto kEditExamples = std::to_array<Example>({
    {"berth edit 7 --gpus 1 --time-limit 2h", "change the request of job 7 while it waits"},
    {"berth edit 9 --first", "run job 9 before your other waiting jobs"},
    {"berth edit 9 --swap 8", "exchange the places of jobs 8 and 9 in the queue"},
});
constexpr auto kGuardExamples = std::to_array<Example>({
    {"berth guard check",
     "check whether a memory quota is enforced with this driver, and which calls exceed it"},
    {"berth guard check --json", "print the same data as JSON for a program"},
});
constexpr auto kResizeOptions = std::to_array<Option>({
    {"--memory", "SIZE",
     "memory on each of its devices; a lower limit waits until the job has freed enough"},
    {"--share", "SHARE", "part of the device's time when other jobs use it"},
});
constexpr auto kResizeExamples = std::to_array<Example>({
    {"berth resize 7 --memory 12GiB", "give job 7 more memory, if the device has it"},
    {"berth resize 7 --memory 4GiB --share 50%", "reduce the memory and the time share of job 7"},
});
constexpr auto kTraceOptions = std::to_array<Option>({
    {"--out", "FILE",
     "trace file; a name that ends with .json: JSON trace format (default: "
     "berth-trace-JOB.pftrace)"},
    {"--for", "DURATION", "end after this long (default: when the job ends, or with Ctrl-C)"},
    {"--every", "DURATION", "time between two samples (default: 100ms)"},
});
constexpr auto kTraceExamples = std::to_array<Example>({
    {"berth trace 7", "record memory, kernels and copies of job 7 until it ends or Ctrl-C"},
    {"berth trace 7 --for 10s --out a.pftrace",
     "record ten seconds; open a.pftrace in ui.perfetto.dev"},
    {"berth trace 7 --for 1m --json", "print the totals as JSON for a program"},
});
constexpr auto kRerunExamples = std::to_array<Example>({
    {"berth rerun 7", "queue the same command again, with its folder and variables"},
    {"berth rerun", "queue your last job again"},
});
constexpr auto kCancelOptions = std::to_array<Option>({
    {"-m,--mine", nullptr, "all of your unfinished jobs"},
});
constexpr auto kJobsExamples = std::to_array<Example>({
    {"berth jobs", "list jobs that run, wait, or ended in the last day"},
    {"berth jobs --mine --all", "list all of your own jobs that are still recorded"},
    {"berth jobs 7 9-12", "list only these jobs"},
    {"berth jobs --state failed,lost --since 1w", "list jobs that failed in the last week"},
    {"berth jobs --json | jq '.jobs[] | select(.state == \"waiting\").id'", "JSON for a program"},
});
constexpr auto kWhyExamples = std::to_array<Example>({
    {"berth why 7", "show why job 7 has not started, and which request would start at once"},
    {"berth why training", "use the job's name instead of its number"},
});
constexpr auto kLogsOptions = std::to_array<Option>({
    {"-f,--follow", nullptr, "keep printing until the job has ended"},
    {"-n,--lines", "N", "only the last N lines"},
    {"--rank", "N", "only the lines of this rank"},
});
constexpr auto kLogsExamples = std::to_array<Example>({
    {"berth logs 7", "print the output of job 7 until now"},
    {"berth logs -f 7", "also print what job 7 writes until its end"},
    {"berth logs -n 50", "the last 50 lines of your last job"},
    {"berth logs 7 --rank 3", "print only the lines of rank 3"},
});
constexpr auto kWaitExamples = std::to_array<Example>({
    {"berth wait 7", "wait until job 7 has ended, and return its exit code"},
    {"berth wait 7 8 training",
     "wait until all jobs have ended; return the first exit code that is not 0"},
});
constexpr auto kCancelExamples = std::to_array<Example>({
    {"berth cancel 7", "end job 7, or remove it from the queue"},
    {"berth cancel 8 9 training", "cancel several jobs at once"},
    {"berth cancel 7-12 26_[3-4]", "cancel your jobs in this range, and two jobs of array 26"},
    {"berth cancel --mine", "all of your jobs"},
});
constexpr auto kHoldExamples = std::to_array<Example>({
    {"berth hold 8", "let other jobs start first until it is released"},
});
constexpr auto kReleaseExamples = std::to_array<Example>({
    {"berth release 8", "put the job back into the queue"},
});

constexpr auto kServeOptions = std::to_array<Option>({
    {"--system", nullptr, "serve all users of the machine, as root (default: only you)"},
    {"--config", "FILE",
     "the file of settings, see docs/serve.md (default: with --system /etc/berth/berth.toml, "
     "otherwise none)"},
    {"--mode", "MODE",
     "with --system: how to treat processes without a lease: observe, warn or enforce (default: "
     "observe)"},
    {"--enforce-on", "PATH",
     "the control group whose processes need a lease (default: user.slice)"},
    {"--tcp", "ADDRESS:PORT",
     "also listen on this loopback address (127.0.0.1:8642), for programs that have the token; "
     "docs/api.md"},
    {"--idle", "DURATION", "exit after being idle for this long (10m; default: never)"},
});
constexpr auto kServeExamples = std::to_array<Example>({
    {"berth serve", "run your own broker in this terminal; `berth run` starts one by itself"},
    {"sudo berth serve --system", "run one broker for all users of this machine"},
});

constexpr auto kSimOptions = std::to_array<Option>({
    {"--machine", "NAME|FILE", "a built-in machine, or a file (docs/simulator.md)"},
    {"--processes", "N", "start N processes and spread them over the GPUs"},
    {"--attach", "PID:DEVICE:SIZE", "make an existing process a user of a simulated GPU", true},
    {"--seed", "N", "seed of the simulated load (default: 0)"},
    {"--at", "SECONDS", "stop the simulated clock this long after the start"},
    {"--fault", "KIND[:DEVICE][@SECONDS][=VALUE]",
     "a fault to simulate: lost, hung, slow, xid, ecc, remap, throttle, mismatch, no-permission, "
     "no-driver, zombie or mig",
     true},
    {"--report", "FILE", "at the end, write the calls to the driver as JSON (- is stderr)"},
    {"--list", nullptr, "list the built-in machines"},
    {"--describe", "NAME|FILE", "show what a machine has"},
});
constexpr auto kSimExamples = std::to_array<Example>({
    {"berth sim --list", "the built-in machines"},
    {"berth sim --machine dgx-h100-8 --processes 20 -- berth", "show a big machine"},
    {"berth sim --machine lab-4x3090 --fault lost:2 -- berth ls",
     "simulate a GPU that fell off the bus"},
    {"berth sim --machine ./mine.toml --at 60 -- gpustat",
     "run another tool on a machine file of your own"},
});

constexpr auto kDoctorOptions = std::to_array<Option>({
    {"--python", "PATH",
     "the Python that runs the program (default: that of the active environment)"},
    {"--venv", "DIR", "the Python of a virtual environment (its folder)"},
    {"--conda", "NAME", "the Python of a conda environment (its name)"},
    {"--static", nullptr, "read files only; do not call drivers"},
    {"--deep", nullptr, "also let each framework of the target run one kernel (at most 15 s)"},
    {"--error", "FILE|-", "a traceback or log: check the causes that it suggests first"},
    {"--pid", "PID", "diagnose a running process: its files, variables and permissions"},
    {"--only", "ID,…", "check only these rules", true},
    {"--list", nullptr, "list the rules"},
    {"--explain", "ID", "what one rule looks for"},
    {"--all", nullptr, "show every finding in full"},
    {"--record", "FILE",
     "write what the rules read to a new file NAME.machine, without names and tokens"},
    {"--from", "FILE",
     "diagnose a recorded machine instead of this one (docs/recorded-machine.md)"},
});
constexpr auto kDoctorExamples = std::to_array<Example>({
    {"berth doctor", "find out why the GPU can't be used, or is used badly"},
    {"berth doctor --venv ~/train",
     "diagnose with the Python of an environment; none of its programs are run"},
    {"berth doctor train.py Dockerfile",
     "find lines whose effect differs from what they seem to do"},
    {"berth doctor article.md", "check the code in an article; - reads pasted text"},
    {"berth doctor -- torchrun train.py", "check what this command would see, without running it"},
    {"python train.py 2>&1 | berth doctor --error -", "check the likely causes of an error first"},
    {"berth doctor --deep", "also run one kernel with each framework"},
    {"berth doctor --static --json", "JSON for a program, without calling a driver"},
    {"berth doctor --record ./my.machine", "a recorded machine for a bug report"},
    {"berth doctor --from ./my.machine", "diagnose a recorded machine"},
});

constexpr auto kSetupOptions = std::to_array<Option>({
    {"--venv", "DIR", "the new virtual environment (default: .venv)"},
    {"--conda", "NAME", "a new conda environment; conda installs Python, and pip the frameworks"},
    {"--uv", nullptr, "let uv create the environment and install, instead of venv and pip"},
    {"--python", "PATH",
     "the Python to use: a path, or 3.12 (default: that of the active environment)"},
    {"--cpu", nullptr, "install for the CPU, even if there are GPUs"},
    {"--gpu", "NAME", "choose the build for this GPU (H100) instead of the GPUs of this machine",
     true},
    {"--driver", "VERSION", "choose the build for this NVIDIA driver (550.54)"},
    {"--compute-capability", "X.Y", "the compute capability of a GPU that Berth does not know"},
    {"--index", "URL", "take packages only from this mirror of PyPI"},
    {"--torch-index", "URL", "the URL of your mirror of PyTorch's own index"},
    {"--upgrade", nullptr, "change an existing environment: a changed copy replaces it"},
    {"--check", nullptr, "only test the frameworks of an existing environment"},
    {"--format", "dockerfile|devcontainer|environment.yml|pyproject",
     "print this file instead of installing"},
    {"--dry-run", nullptr, "only print the commands; with --upgrade, the changes"},
});
constexpr auto kSetupExamples = std::to_array<Example>({
    {"berth setup torch", "install PyTorch for this driver, GPU and Python in .venv, and test it"},
    {"berth setup tensorflow 2.20 --venv ~/tf", "install one release in its own folder"},
    {"berth setup torch jax --uv", "install two frameworks that are compatible, with uv"},
    {"berth setup jax --cpu", "install JAX for the CPU"},
    {"berth setup torch 2.14 --upgrade",
     "replace the release in .venv; if that fails, nothing changes"},
    {"berth setup --check", "check that the frameworks in .venv run a kernel"},
    {"berth setup torch --format dockerfile >Dockerfile",
     "write a Dockerfile that installs the same packages"},
    {"berth setup torch --dry-run --driver 550.54 --gpu H100",
     "show what setup would do on another machine"},
});

constexpr auto kDrainExamples = std::to_array<Example>({
    {"berth drain 2", "drain a device before a card is removed or the driver is reset"},
    {"berth drain 0 1 && berth jobs", "drain two devices, and list the jobs that still run"},
});
constexpr auto kUndrainExamples = std::to_array<Example>({
    {"berth undrain 2", "use the device again after maintenance"},
});

constexpr auto kVerbs = std::to_array<Verb>({
    {"", Group::kLook, "one screen: devices, users, problems, next steps", "", false,
     kOverviewOptions, kOverviewExamples, run_overview},
    {"ls", Group::kLook, "the devices of this machine, of every vendor, and the CPU", "", false,
     kLsOptions, kLsExamples, run_ls},
    {"ps", Group::kLook, "the processes that use devices: user, memory, device", "", false,
     kPsOptions, kPsExamples, run_ps},
    {"top", Group::kLook, "watch devices and processes live", "", false, kTopOptions, kTopExamples,
     run_top},
    {"doctor", Group::kLook, "say why a GPU can't be used, and how to fix it",
     "[FILE…] [-- COMMAND…]", false, kDoctorOptions, kDoctorExamples, run_doctor},
    {"run", Group::kUse, "run a program on the right device, and report its device use",
     "-- COMMAND…", true, kRunOptions, kRunExamples, run_run},
    {"lease", Group::kUse, "lease devices for a shell and the programs that you start in it",
     "[-- COMMAND…]", true, kLeaseOptions, kLeaseExamples, run_lease},
    {"env", Group::kUse, "print the environment that a job would get", "", false, kEnvOptions,
     kEnvExamples, run_env},
    {"jobs", Group::kUse, "the jobs of this machine: what runs, what waits, what ended", "[JOB…]",
     false, kJobsOptions, kJobsExamples, run_jobs},
    {"why",
     Group::kUse,
     "show what a job waits for, who holds it, and when the job may start",
     "[JOB]",
     false,
     {},
     kWhyExamples,
     run_why},
    {"logs", Group::kUse, "print what a queued job wrote", "[JOB]", false, kLogsOptions,
     kLogsExamples, run_logs},
    {"stacks", Group::kUse,
     "show where the processes of a job are: Python's stacks and the kernel's view", "[JOB|PID]",
     false, kStacksOptions, kStacksExamples, run_stacks},
    {"wait",
     Group::kUse,
     "wait until jobs have ended, and return their exit code",
     "[JOB…]",
     false,
     {},
     kWaitExamples,
     run_wait},
    {"report",
     Group::kUse,
     "say what a job used: time, cores, memory, GPUs",
     "[JOB]",
     false,
     {},
     kReportExamples,
     run_report},
    {"edit", Group::kUse, "change a waiting job: its order, limits and request", "JOB", false,
     kEditOptions, kEditExamples, run_edit},
    {"resize", Group::kUse, "change memory and share of a running job", "JOB", false,
     kResizeOptions, kResizeExamples, run_resize},
    {"trace", Group::kUse, "record what a job with --memory does or did on its GPUs", "JOB", false,
     kTraceOptions, kTraceExamples, run_trace},
    {"rerun", Group::kUse, "queue a job again", "[JOB]", false, {}, kRerunExamples, run_rerun},
    {"cancel", Group::kUse, "end jobs, or remove them from the queue", "[JOB…]", false,
     kCancelOptions, kCancelExamples, run_cancel},
    {"hold",
     Group::kUse,
     "prevent waiting jobs from starting",
     "JOB…",
     false,
     {},
     kHoldExamples,
     run_hold},
    {"release",
     Group::kUse,
     "put held jobs back into the queue",
     "JOB…",
     false,
     {},
     kReleaseExamples,
     run_release},
    {"drain",
     Group::kOperate,
     "give no new jobs to a device, for maintenance; running jobs continue",
     "DEVICE…",
     false,
     {},
     kDrainExamples,
     run_drain},
    {"undrain",
     Group::kOperate,
     "let a drained device take new jobs again",
     "DEVICE…",
     false,
     {},
     kUndrainExamples,
     run_undrain},
    {"serve", Group::kOperate, "run the broker, which leases devices to jobs", "", false,
     kServeOptions, kServeExamples, run_serve},
    {"health", Group::kLook, "say whether GPUs can be used for a job; exit code 1 if one cannot",
     "", false, kHealthOptions, kHealthExamples, run_health},
    {"alerts", Group::kLook, "print the current problems that `berth serve` found", "", false,
     kAlertsOptions, kAlertsExamples, run_alerts},
    {"history", Group::kLook, "past readings of the devices, recorded by `berth serve`", "", false,
     kHistoryOptions, kHistoryExamples, run_history},
    {"diff", Group::kLook, "what changed on the devices: readings, throttling, processes", "",
     false, kDiffOptions, kDiffExamples, run_diff},
    {"usage", Group::kLook, "GPU-hours, energy and idle time by user, job or command", "", false,
     kUsageOptions, kUsageExamples, run_usage},
    {"exporter", Group::kOperate, "serve metrics of the devices to Prometheus, without a broker",
     "", false, kExporterOptions, kExporterExamples, run_exporter},
    {"help", Group::kLook, "explain a verb", "[VERB]", false, kHelpOptions, kHelpExamples,
     run_help},
    {"bench", Group::kMeasure, "measure how fast the devices are",
     "[gemm|memory|copy|peer|launch|train|infer|all]", false, kBenchOptions, kBenchExamples,
     run_bench},
    {"plan", Group::kMeasure,
     "what GPU memory a model takes, which GPUs hold it, and what they cost",
     "fit|measure|gpu|cost [MODEL | -- COMMAND…]", false, kPlanOptions, kPlanExamples, run_plan},
    {"compare", Group::kMeasure,
     "run a program with several settings, and say which setting is best", "-- COMMAND…", true,
     kCompareOptions, kCompareExamples, run_compare},
    {"setup", Group::kUse, "make a Python environment with frameworks that run here",
     "FRAMEWORK [VERSION]…", false, kSetupOptions, kSetupExamples, run_setup},
    {"slurm", Group::kOperate, "print and check the Slurm configuration of this machine's GPUs",
     "gres|check|plugin|prolog|epilog|health|lend|reclaim", false, kSlurmOptions, kSlurmExamples,
     run_slurm},
    {"function", Group::kUse, "serve a Python function by HTTP; it has a GPU only while it is used",
     "serve FILE:FUNCTION", false, kFunctionOptions, kFunctionExamples, run_function},
    {"container", Group::kOperate,
     "let containers that people start without Berth take a lease on their GPUs",
     "[prestart|runtime] [-- COMMAND…]", false, kContainerVerbOptions, kContainerExamples,
     run_container},
    {"guard",
     Group::kOperate,
     "test whether the guard can enforce limits of jobs with this machine's driver",
     "check",
     false,
     {},
     kGuardExamples,
     run_guard},
    {"k8s", Group::kOperate, "offer this machine's GPUs to Kubernetes, whole or in shares",
     "devices|device-plugin|dra|verify|lend|reclaim", false, kK8sOptions, kK8sExamples, run_k8s},
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

namespace {

/// Words known from other tools, with the verbs of Berth that mean the same. The first of these
/// verbs that exists is suggested.
struct Expected {
  const char* word;
  std::array<const char*, 2> verbs;
};
constexpr std::array kExpected{
    Expected{"top", {"top", "ps"}},
    Expected{"watch", {"top", "ps"}},
    Expected{"htop", {"top", "ps"}},
    Expected{"nvidia-smi", {"ls", ""}},
    Expected{"smi", {"ls", ""}},
    Expected{"list", {"ls", ""}},
    Expected{"devices", {"ls", ""}},
    Expected{"gpus", {"ls", ""}},
    Expected{"info", {"ls", ""}},
    Expected{"show", {"ls", ""}},
    Expected{"who", {"ps", ""}},
    Expected{"users", {"ps", ""}},
    Expected{"status", {"jobs", ""}},
    Expected{"queue", {"jobs", ""}},
    Expected{"squeue", {"jobs", ""}},
    Expected{"kill", {"cancel", ""}},
    Expected{"stop", {"cancel", ""}},
    Expected{"rm", {"cancel", ""}},
    Expected{"delete", {"cancel", ""}},
    Expected{"scancel", {"cancel", ""}},
    Expected{"submit", {"run --queue", ""}},
    Expected{"sbatch", {"run --queue", ""}},
    Expected{"add", {"run --queue", ""}},
    Expected{"bench", {"compare", ""}},
    Expected{"benchmark", {"compare", ""}},
    Expected{"exec", {"run", ""}},
    Expected{"srun", {"run", ""}},
    Expected{"start", {"run", ""}},
    Expected{"alloc", {"lease", ""}},
    Expected{"reserve", {"lease", ""}},
    Expected{"output", {"logs", ""}},
    Expected{"tail", {"logs", ""}},
    Expected{"check", {"doctor", ""}},
    Expected{"diagnose", {"doctor", ""}},
    Expected{"fix", {"doctor", ""}},
    Expected{"install", {"setup", ""}},
    Expected{"daemon", {"serve", ""}},
};

std::string expected_for(std::string_view word) {
  for (const Expected& one : kExpected) {
    if (word != one.word) continue;
    for (const std::string_view verb : one.verbs)
      if (!verb.empty() && find_verb(verb.substr(0, verb.find(' '))) != nullptr)
        return std::string(verb);
  }
  return {};
}

}  // namespace

Error unknown_verb(const std::string& word) {
  std::vector<std::string> known;
  known.reserve(kVerbs.size());
  for (const Verb& verb : kVerbs) known.emplace_back(verb.name);
  std::string near = expected_for(word);
  if (near.empty()) near = nearest(word, known);
  return {ErrorCode::kInvalidArgument, "E0002", text("there is no verb '{}'", printable(word)),
          (near.empty() ? "" : text("did you mean {}?", "berth " + near) + "   ") + "berth help"};
}

}  // namespace berth::cli
