"""A real one-node Kubernetes in namespaces of its own, as root: nothing listens on the machine's network, and nothing is written outside of one
folder and one cgroup. It ends with its first process. build.sh makes the programs."""
import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ADDRESS, SERVICE = "10.77.0.1", "10.96.0.1"


def programs():
    """The folder that build.sh has filled, or None."""
    folder = os.environ.get("BERTH_KUBERNETES") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "berth", "kubernetes")
    path = os.path.join(folder, "bin")
    return path if all(os.path.exists(os.path.join(path, name)) for name in ("kubebox", "containerd-shim-runc-v2", "containerd-1.6/containerd", "../helm/bin/python")) else None


def until(condition, what, seconds=60):
    """Waits until the function returns something true, and returns that."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.2)


class Node:
    """`old_containerd`: Debian's 1.6, which has no CDI. `simulation`: the folder BERTH_SIM_DIR, whose GPUs the RuntimeClass nvidia gives."""

    def __init__(self, simulation, images, old_containerd=False):
        self.bin = programs()
        self.folder = tempfile.mkdtemp(prefix="bk", dir="/tmp")
        self.group = "/berth-" + os.path.basename(self.folder)
        self.simulation, self.images = simulation, images
        self.containerd = os.path.join(self.bin, "containerd-1.6") if old_containerd else self.bin
        self.old = old_containerd
        self.running, self.words = {}, {}

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def put(self, name, text, mode=0o644):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    # --- processes -----------------------------------------------------------------------------------------------------------------------

    def inside(self, *words):
        """The command with nsenter before it."""
        environment = [f"KUBECONFIG={self.path('kubeconfig')}", f"PATH={self.folder}:{self.containerd}:{self.bin}:{os.environ['PATH']}"]
        return ["nsenter", "-t", str(self.first), "-m", "-p", "-n", "-u", "-i", f"--wdns={self.folder}", "env", *environment, *words]

    def start(self, name, *words):
        log = open(self.path(name + ".log"), "ab")
        # The shell writes the pid that the process has inside.
        self.running[name] = subprocess.Popen(self.inside("sh", "-c", 'echo $$ > "$0.pid"; exec "$@"', name, *words), stdin=subprocess.DEVNULL,
                                              stdout=log, stderr=log)
        log.close()
        self.words[name] = words

    def stop(self, name, sign="TERM"):
        with open(self.path(name + ".pid")) as file:
            pid = file.read().strip()
        subprocess.run(self.inside("kill", "-" + sign, pid), check=True)
        try:
            self.running.pop(name).wait(timeout=30)
        except subprocess.TimeoutExpired:
            subprocess.run(self.inside("kill", "-KILL", pid), check=True)

    def restart(self, name):
        self.stop(name)
        self.start(name, *self.words[name])

    def run(self, *words, given=None, check=True, seconds=120):
        done = subprocess.run(self.inside(*words), input=given, capture_output=True, text=True, timeout=seconds)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def kubectl(self, *words, given=None, check=True):
        return self.run("kubectl", *words, given=given, check=check)

    def get(self, *words):
        """The object, or None if there is none."""
        done = self.kubectl("get", *words, "-o", "json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def apply(self, *objects):
        return self.kubectl("apply", "-f", "-", given="\n---\n".join(one if isinstance(one, str) else json.dumps(one) for one in objects)).stdout

    def pod_state(self, name, namespace="default"):
        pod = self.get("pod", name, "-n", namespace)
        return pod["status"].get("phase", "") if pod else ""

    def allocatable(self, resource):
        node = self.get("node", "node1")
        return int(node["status"].get("allocatable", {}).get(resource, "0")) if node else 0

    # --- life ----------------------------------------------------------------------------------------------------------------------------

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()

    def cgroups(self):
        base = "/sys/fs/cgroup"
        if os.path.exists(base + "/cgroup.controllers"):
            return [base + self.group]
        return [f"{base}/{name}{self.group}" for name in os.listdir(base) if os.path.isdir(f"{base}/{name}") and not os.path.islink(f"{base}/{name}")]

    def make_cgroups(self):
        for path in self.cgroups():
            os.makedirs(path, exist_ok=True)
            parent = os.path.dirname(path)
            if os.path.exists(parent + "/cgroup.subtree_control") and "unified" not in parent:
                with open(parent + "/cgroup.subtree_control", "w") as file:
                    file.write("+cpu +cpuset +memory +pids")
            for name in ("cpuset.cpus", "cpuset.mems"):
                if os.path.exists(f"{parent}/{name}") and os.path.exists(f"{path}/{name}"):
                    with open(f"{parent}/{name}") as source, open(f"{path}/{name}", "w") as target:
                        target.write(source.read())

    def certificates(self):
        def openssl(*words):
            subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=self.folder, timeout=60)
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl("req", "-x509", *key, "-days", "30", "-subj", "/CN=test", "-keyout", "ca.key", "-out", "ca.crt")
        openssl("req", *key, "-subj", "/CN=kube-apiserver", "-keyout", "server.key", "-out", "server.csr")
        self.put("names", f"subjectAltName=DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:{ADDRESS},IP:{SERVICE}\n")
        openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", "names",
                "-out", "server.crt")
        openssl("genrsa", "-out", "accounts.key", "2048")
        self.put("tokens.csv", "administrator,admin,admin,system:masters\n")

    def settings(self):
        runc = os.path.join(self.bin, "runc")
        with open(os.path.join(HERE, "gpu_runtime.py")) as file:
            self.put("gpu_runtime", file.read().replace("@RUNC@", runc).replace("@SIMULATION@", self.simulation), 0o755)
        shutil.copy(os.path.join(HERE, "pod_network.sh"), self.folder)
        self.put("kubectl", f'#!/bin/sh\nexec {self.bin}/kubebox kubectl "$@"\n', 0o755)
        with open(self.path("ca.crt"), "rb") as file:
            authority = base64.b64encode(file.read()).decode()
        self.put("kubeconfig", json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test", "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:443", "certificate-authority-data": authority}}],
            "users": [{"name": "u", "user": {"token": "administrator"}}]}))
        self.put("kubelet.json", json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "failCgroupV1": False, "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.group, "enforceNodeAllocatable": ["pods"], "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}}, "authorization": {"mode": "AlwaysAllow"},
            "clusterDNS": [ADDRESS], "clusterDomain": "cluster.local", "makeIPTablesUtilChains": False, "oomScoreAdj": 0, "maxOpenFiles": 20000, "failSwapOn": False, "resolvConf": "", "syncFrequency": "5s",
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100}))
        runtimes = {"runc": runc, "nvidia": self.path("gpu_runtime")}
        if self.old:
            lines = ["version = 2", "[plugins.'io.containerd.grpc.v1.cri']", "sandbox_image = 'test.local/pause:1'", "restrict_oom_score_adj = true",
                     "disable_apparmor = true", "disable_hugetlb_controller = true"]
            table = "plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes"
        else:
            lines = ["version = 3", "[plugins.'io.containerd.cri.v1.images'.pinned_images]", "sandbox = 'test.local/pause:1'",
                     "[plugins.'io.containerd.cri.v1.runtime']", "restrict_oom_score_adj = true", "disable_apparmor = true",
                     "disable_hugetlb_controller = true", "enable_cdi = true", "cdi_spec_dirs = ['/etc/cdi', '/var/run/cdi']"]
            table = "plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes"
        for name, program in runtimes.items():
            lines += [f"[{table}.{name}]", "runtime_type = 'io.containerd.runc.v2'", f"[{table}.{name}.options]", f"BinaryName = '{program}'"]
        # Global keys come first in TOML.
        lines[1:1] = ["root = '/var/lib/containerd'", "state = '/run/containerd'", "oom_score = 0"]
        self.put("containerd.toml", "\n".join(lines) + "\n")

    def up(self):
        self.make_cgroups()
        self.certificates()
        self.settings()
        with open(self.path("node.log"), "ab") as log:
            self.outer = subprocess.Popen(["unshare", "-m", "-p", "-n", "-u", "-i", "--fork", "--mount-proc", "--kill-child",
                                           os.path.join(HERE, "node.sh"), self.folder], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                          start_new_session=True)

        def prepared():
            if self.outer.poll() is not None:
                raise AssertionError(open(self.path("node.log")).read())
            return os.path.exists(self.path("prepared"))
        until(prepared, "the node's namespaces")
        with open(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children") as file:
            self.first = int(file.read().split()[0])
        self.start("containerd", os.path.join(self.containerd, "containerd"), "--config", self.path("containerd.toml"))
        box = os.path.join(self.bin, "kubebox")
        self.start("etcd", box, "etcd", "--data-dir", "/var/lib/etcd", "--unsafe-no-fsync")
        self.start("apiserver", box, "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--secure-port=443", f"--advertise-address={ADDRESS}",
                   "--endpoint-reconciler-type=none", "--kubelet-preferred-address-types=InternalIP",
                   "--service-cluster-ip-range=10.96.0.0/16", "--tls-cert-file=server.crt",
                   "--tls-private-key-file=server.key", "--token-auth-file=tokens.csv", "--service-account-key-file=accounts.key",
                   "--service-account-signing-key-file=accounts.key", "--service-account-issuer=https://kubernetes.default.svc",
                   "--authorization-mode=Node,RBAC", "--allow-privileged=true", "--enable-admission-plugins=NodeRestriction")
        until(lambda: self.run("ctr", "version", check=False).returncode == 0, "containerd")
        self.run("ctr", "-n", "k8s.io", "images", "import", self.images)
        until(lambda: self.kubectl("get", "--raw", "/readyz", check=False).returncode == 0, "the API server", 120)
        self.start("controllers", box, "kube-controller-manager", "--kubeconfig=kubeconfig", "--leader-elect=false", "--root-ca-file=ca.crt",
                   "--service-account-private-key-file=accounts.key", "--use-service-account-credentials=true")
        self.start("scheduler", box, "kube-scheduler", "--kubeconfig=kubeconfig", "--leader-elect=false")
        self.start("names", "/usr/bin/python3", os.path.join(HERE, "names.py"), ADDRESS, "ca.crt", "administrator")
        self.start("kubelet", box, "kubelet", "--config=kubelet.json", "--kubeconfig=kubeconfig", "--hostname-override=node1", f"--node-ip={ADDRESS}")
        until(self.is_ready, "node1 is Ready", 120)
        until(lambda: self.get("serviceaccount", "default"), "the ServiceAccount default")
        self.apply({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"})

    def is_ready(self):
        node = self.get("node", "node1")
        return node and any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", []))

    def down(self):
        if getattr(self, "outer", None) and self.outer.poll() is None:
            # The kernel ends everything in the pid namespace with its first process.
            os.kill(self.outer.pid, signal.SIGKILL)
            self.outer.wait()
        for process in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
        for _ in range(10):
            for group in self.cgroups():
                for path, _, _ in os.walk(group, topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(path)
            if not any(os.path.exists(group) for group in self.cgroups()):
                break
            time.sleep(0.3)
        if os.environ.get("BERTH_KEEP"):
            print("kept:", self.folder, file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
