// Options and examples of the verbs for other schedulers and engines: container, slurm, function,
// k8s.
#pragma once

#include <array>

#include "cli/request_options.hpp"

namespace berth::cli {

inline constexpr auto kContainerVerbOptions = std::to_array<Option>({
    {"--install", nullptr, "add a hook to podman, and Berth's runtime to docker"},
    {"--remove", nullptr, "remove the hook and the runtime"},
    {"--root", "DIR", "change the files below this folder instead of / (for an image)"},
    {"--next", "PROGRAM", "runtime: the runtime that docker had before (called by docker)"},
    {"--was", "NAME",
     "runtime: the name of that earlier runtime in daemon.json (called by docker)"},
    {"--nvidia", nullptr, "prestart: NVIDIA's runtime runs afterwards (called by a runtime)"},
});
inline constexpr auto kContainerExamples = std::to_array<Example>({
    {"sudo berth container --install", "let docker run --gpus all … take a lease, or refuse it"},
    {"sudo berth container --remove", "restore the settings of podman and docker"},
});

inline constexpr auto kSlurmOptions = std::to_array<Option>({
    {"--conf", "DIR", "the folder of slurm.conf (default: the one that Slurm uses)"},
    {"--node", "NAME", "the node's name in slurm.conf (default: the host's)"},
    {"--shards", "N", "gres: N shards of each GPU"},
    {"--only", "gres.conf|slurm.conf|cgroup.conf", "gres: print only the lines of one file"},
    {"--install", nullptr, "plugin: build the plugin here, and add its line to plugstack.conf"},
    {"--remove", nullptr, "plugin: remove the plugin and its line"},
    {"--prefix", "DIR", "plugin: the folder to install it in (default: /usr/local/lib/berth)"},
    {"--timeout", "DURATION",
     "lend, reclaim: how long to wait for running jobs (default: as long as they run)"},
    {"--begin", "TASK",
     "task: called by the plugin when a task begins; -: read the task from stdin"},
    {"--end", "TASK", "task: called by the plugin when a task has ended"},
    {"--memory", "SIZE", "task: GPU memory of each task"},
    {"--share", "PART", "task: part of a GPU's time"},
    {"--report", "FILE", "task: file of the report; %j: job, %t: task"},
    {"--command", "NAME", "task: the command of the task, for the report"},
    {"--hang-timeout", "DURATION",
     "task: report where the task is if it makes no progress for this long"},
    {"--status", "N", "task: the exit status of the task, as wait(2) returns it"},
});
inline constexpr auto kSlurmExamples = std::to_array<Example>({
    {"berth slurm gres",
     "print the lines of gres.conf, slurm.conf and cgroup.conf for this machine"},
    {"berth slurm gres --only gres.conf > gres.conf", "print only the lines of gres.conf"},
    {"berth slurm gres --node n1 --shards 4",
     "print lines for a file that all nodes share; four jobs share a GPU"},
    {"berth slurm check", "show differences between Slurm's configuration and the machine"},
    {"berth slurm check --conf ./new --json", "check a configuration that is not installed yet"},
    {"berth slurm health --node n1",
     "drain this node if a GPU fails, and resume it when all GPUs work again"},
    {"sudo berth slurm plugin --install",
     "add the options --berth-memory, --berth-share and --berth-report to srun"},
    {"sudo berth slurm reclaim --node n1",
     "move this machine's GPUs from Slurm to Berth's own queue"},
    {"sudo berth slurm lend --node n1", "move them back to Slurm when Berth's jobs have ended"},
});

inline constexpr auto kFunctionOwnOptions = std::to_array<Option>({
    {"--idle", "DURATION", "end a worker after this long without a call (default: 60s)"},
    {"--max", "N", "at most N workers, each with its own lease (default: 1)"},
    {"--queue", "N",
     "maximum number of waiting calls; further calls get 503 and Retry-After (default: 16)"},
    {"--timeout", "DURATION",
     "how long a call may wait for a worker, and how long it may then run (default: 60s)"},
    {"--body", "SIZE", "the largest body of a call (default: 10MiB)"},
    {"--listen", "ADDRESS:PORT", "the address to listen on (default: 127.0.0.1:8643)"},
    {"--token-file", "FILE",
     "every request must have the header Authorization: Bearer TOKEN, with the token in this file"},
    {"--python", "PATH", "the Python interpreter of the workers (default: python3)"},
});
inline constexpr auto kFunctionOptions = join(kFunctionOwnOptions, kRequestOptions);
inline constexpr auto kFunctionExamples = std::to_array<Example>({
    {"berth function serve handler.py:predict", "call predict() by HTTP, on a free GPU"},
    {"berth function serve handler.py:predict --idle 5m --max 2",
     "serve two calls at a time; keep idle workers loaded for longer"},
    {"berth function serve handler.py:predict --memory 4GiB", "give each worker a part of a GPU"},
    {"curl --json '{\"x\": 3}' http://127.0.0.1:8643/", "call the function"},
});

inline constexpr auto kK8sOptions = std::to_array<Option>({
    {"--shares", "N", "offer each GPU as N shares of its memory, instead of as a whole"},
    {"--memory-step", "SIZE",
     "device-plugin, devices: offer memory of each GPU in steps of SIZE: berth.dev/gpu-memory"},
    {"--pass", "env|cdi|nodes",
     "how a container gets a GPU: by NVIDIA's runtime, CDI, or device nodes (default: env)"},
    {"--kubelet", "DIR",
     "device-plugin: the kubelet's folder (default: /var/lib/kubelet/device-plugins); dra, "
     "lend, reclaim: the kubelet's root folder (default: /var/lib/kubelet)"},
    {"--state", "DIR", "the guard's files and the journal (default: /var/lib/berth/kubernetes)"},
    {"--interval", "DURATION", "how often to check the GPUs (default: 5s)"},
    {"--node", "NAME", "dra: this node (default: the variable NODE_NAME)"},
    {"--cdi", "DIR", "dra: the folder for CDI files (default: /var/run/cdi)"},
    {"--api", "URL", "dra: the API server (default: that of the cluster in which the pod runs)"},
    {"--account", "DIR",
     "dra: the folder with token and ca.crt (default: "
     "/var/run/secrets/kubernetes.io/serviceaccount)"},
    {"--image", "IMAGE", "verify: an image with berth (default: that of the installed DaemonSet)"},
    {"--namespace", "NAME", "verify: where the pod runs (default: kubectl's namespace)"},
    {"--resource", "NAME", "verify: what the pod requests (default: berth.dev/gpu-share)"},
    {"--runtime-class", "NAME",
     "verify: the pod's RuntimeClass (default: that of the installed DaemonSet)"},
    {"--timeout", "DURATION",
     "verify: how long the pod may take to start (default: 60s); lend, reclaim: how long to wait "
     "for running jobs (default: as long as they run)"},
    {"--devices", "LIST", "lend, reclaim: only these GPUs (default: all)", true},
    {"--inside", nullptr,
     "verify: check the container in which this command runs, without kubectl"},
});
inline constexpr auto kK8sExamples = std::to_array<Example>({
    {"berth k8s devices --shares 4", "show what the kubelet would be offered"},
    {"sudo berth k8s device-plugin", "offer GPUs as berth.dev/gpu until the command is stopped"},
    {"sudo berth k8s device-plugin --shares 4 --pass cdi",
     "offer each GPU as four shares, berth.dev/gpu-share"},
    {"sudo berth k8s device-plugin --memory-step 1GiB",
     "let a pod request 6 GiB of a GPU as berth.dev/gpu-memory: 6"},
    {"berth k8s dra --shares 4", "offer GPUs by dynamic resource allocation (Kubernetes 1.34)"},
    {"berth k8s verify",
     "run a pod that tries to exceed its quota, and report whether the quota was enforced"},
    {"kubectl exec POD -- berth k8s verify --inside", "run the test in a pod that already runs"},
    {"sudo berth k8s reclaim --devices 0", "move GPU 0 from Kubernetes to Berth's own queue"},
    {"sudo berth k8s lend", "move all GPUs back to Kubernetes when Berth's jobs have ended"},
});

}  // namespace berth::cli
