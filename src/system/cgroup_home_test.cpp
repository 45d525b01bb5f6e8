// Texts of /proc/PID/cgroup as the engines produce them (ids and names changed).
#include <doctest/doctest.h>

#include <string>

#include "system/process.hpp"

using namespace berth::system;

namespace {

const std::string kId = "3f2a9c81d04be7765a1c3e9f8b7d6a5c4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b";
const std::string kOther = "b9a0f1e2d3c4b5a6f7e8d9c0b1a2f3e4c5a6d7b8f9e3c1a5677eb40d18c9a2f3";

struct Case {
  const char* what;
  std::string text, container, unit, pod;
};

const Case kCases[] = {
    {"docker, version 2 with systemd", "0::/system.slice/docker-" + kId + ".scope\n",
     "docker " + kId, "", ""},
    {"docker, version 2 without systemd", "0::/docker/" + kId + "\n", "docker " + kId, "", ""},
    {"docker, version 1, every controller",
     "12:devices:/docker/" + kId + "\n11:cpu,cpuacct:/docker/" + kId + "\n1:name=systemd:/docker/" +
         kId + "\n0::/system.slice/containerd.service\n",
     "docker " + kId, "", ""},
    {"docker in docker is the inner one", "0::/docker/" + kId + "/docker/" + kOther + "\n",
     "docker " + kOther, "", ""},
    {"rootless docker",
     "0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + kId + ".scope\n",
     "docker " + kId, "", ""},
    {"the docker daemon itself lives in no container", "0::/system.slice/docker.service\n", "",
     "docker.service", ""},
    {"podman as root", "0::/machine.slice/libpod-" + kId + ".scope/container\n", "podman " + kId,
     "", ""},
    {"podman as a user",
     "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + kId +
         ".scope/container\n",
     "podman " + kId, "", ""},
    {"podman with cgroupfs", "0::/libpod_parent/libpod-" + kId + "\n", "podman " + kId, "", ""},
    {"podman in a unit of its own", "0::/system.slice/web.service/libpod-payload-" + kId + "\n",
     "podman " + kId, "", ""},
    {"podman's monitor lives in no container",
     "0::/machine.slice/libpod-conmon-" + kId + ".scope\n", "", "libpod-conmon-" + kId + ".scope",
     ""},
    {"containerd in Kubernetes, systemd driver",
     "0::/kubepods.slice/kubepods-burstable.slice/"
     "kubepods-burstable-pod8d3c7a10_52fb_4f0e_9c7e_0a1b2c3d4e5f.slice/cri-containerd-" +
         kId + ".scope\n",
     "containerd " + kId, "", "8d3c7a10-52fb-4f0e-9c7e-0a1b2c3d4e5f"},
    {"a guaranteed pod has no class in its name",
     "0::/kubepods.slice/kubepods-pod8d3c7a10_52fb_4f0e_9c7e_0a1b2c3d4e5f.slice/crio-" + kId +
         ".scope\n",
     "cri-o " + kId, "", "8d3c7a10-52fb-4f0e-9c7e-0a1b2c3d4e5f"},
    {"Kubernetes, cgroupfs driver",
     "5:memory:/kubepods/besteffort/pod8d3c7a10-52fb-4f0e-9c7e-0a1b2c3d4e5f/" + kId + "\n",
     "cri " + kId, "", "8d3c7a10-52fb-4f0e-9c7e-0a1b2c3d4e5f"},
    {"a static pod's uid is a hash",
     "0::/kubepods/burstable/podd2f0b3c1a4958677685a9b0c1d2e3f40/" + kId + "\n", "cri " + kId, "",
     "d2f0b3c1a4958677685a9b0c1d2e3f40"},
    {"kind puts kubelet before it",
     "0::/docker/" + kOther +
         "/kubelet.slice/kubelet-kubepods.slice/"
         "kubelet-kubepods-pod8d3c7a10_52fb_4f0e_9c7e_0a1b2c3d4e5f.slice/cri-containerd-" +
         kId + ".scope\n",
     "containerd " + kId, "", "8d3c7a10-52fb-4f0e-9c7e-0a1b2c3d4e5f"},
    {"a slice taken as a path",
     "0::/system.slice/containerd.service/"
     "kubepods-burstable-pod8d3c7a10_52fb_4f0e_9c7e_0a1b2c3d4e5f.slice:cri-containerd:" +
         kId + "\n",
     "containerd " + kId, "", "8d3c7a10-52fb-4f0e-9c7e-0a1b2c3d4e5f"},
    {"CRI-O's monitor lives in no container", "0::/system.slice/crio-conmon-" + kId + ".scope\n",
     "", "crio-conmon-" + kId + ".scope", ""},
    {"nerdctl", "0::/system.slice/nerdctl-" + kId + ".scope\n", "containerd " + kId, "", ""},
    {"plain containerd names only the id", "0::/default/" + kId + "\n", "container " + kId, "", ""},
    {"LXC, version 1", "4:memory:/lxc/web01\n1:name=systemd:/lxc/web01/init.scope\n", "lxc web01",
     "init.scope", ""},
    {"LXC 4 and LXD", "0::/lxc.payload.web01/system.slice/nginx.service\n", "lxc web01",
     "nginx.service", ""},
    {"LXC's monitor lives in no container", "0::/lxc.monitor.web01\n", "", "", ""},
    {"Proxmox", "0::/lxc/101/ns/system.slice/ollama.service\n", "lxc 101", "ollama.service", ""},
    {"nspawn by machinectl", "0::/machine.slice/systemd-nspawn@build\\x2dbox.service/payload\n",
     "nspawn build-box", "", ""},
    {"nspawn by hand", "0::/machine.slice/machine-build\\x2dbox.scope/payload/init.scope\n",
     "nspawn build-box", "init.scope", ""},
    {"a virtual machine is not a container", "0::/machine.slice/machine-qemu\\x2d1\\x2dvm.scope\n",
     "", "machine-qemu\\x2d1\\x2dvm.scope", ""},
    {"a system unit", "0::/system.slice/ollama.service\n", "", "ollama.service", ""},
    {"a login session", "0::/user.slice/user-1000.slice/session-3.scope\n", "", "session-3.scope",
     ""},
    {"a user unit", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service\n",
     "", "jupyter.service", ""},
    {"a hybrid machine: the unit stands in systemd's line",
     "3:cpuset:/\n1:name=systemd:/user.slice/user-0.slice/session-7.scope\n0::/\n", "",
     "session-7.scope", ""},
    {"Slurm, version 1: the job wins over the daemon's unit",
     "9:freezer:/slurm/uid_1000/job_4242/step_0\n"
     "1:name=systemd:/system.slice/slurmd.service\n",
     "", "slurm job 4242", ""},
    {"Slurm, version 1, the unit's line first",
     "11:pids:/system.slice/slurmd.service\n9:freezer:/slurm_node7/uid_1000/job_4242/step_0\n", "",
     "slurm job 4242", ""},
    {"Slurm, version 2", "0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0\n", "",
     "slurm job 4242", ""},
    {"Slurm, version 2, several daemons on one node",
     "0::/system.slice/node7_slurmstepd.scope/job_4242/step_batch/user/task_special\n", "",
     "slurm job 4242", ""},
    {"no home at all", "0::/\n", "", "", ""},
    {"outside the reader's own root", "0::/../../system.slice/cron.service\n", "", "cron.service",
     ""},
    {"deleted", "0::/user.slice/user-1000.slice/session-3.scope (deleted)\n", "", "session-3.scope",
     ""},
    {"not a cgroup file", "hello\n::\n:\n\n", "", "", ""},
    {"a cut line", "0::/system.slice/ollama.service", "", "ollama.service", ""},
    {"an id that is too short is not an id", "0::/docker/abc\n0::/system.slice/docker-abc.scope\n",
     "", "docker-abc.scope", ""},
    {"a job folder outside Slurm is nothing", "0::/builds/job_17\n", "", "", ""},
};

}  // namespace

TEST_CASE("the home of a process is read from real control group texts") {
  for (const Case& one : kCases) {
    CAPTURE(one.what);
    const Home home = home_of(one.text);
    CHECK(home.container == one.container);
    CHECK(home.unit == one.unit);
    CHECK(home.pod == one.pod);
  }
}

TEST_CASE("names of control groups are not trusted to be valid text") {
  CHECK(home_of("0::/lxc.payload.we\x1b[31mb\n").container == "lxc we\xEF\xBF\xBD[31mb");
  CHECK(home_of("0::/system.slice/a\xff.service\n").unit == "a\xEF\xBF\xBD.service");
}
