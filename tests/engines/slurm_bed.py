"""A real Slurm on this machine for tests: munged, slurmctld and a slurmd for each node in a temporary folder. The node's GPUs are links to /dev/null:
Slurm checks that they are devices but opens none."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "scontrol", "squeue", "munged", "mungekey")

os.environ["PATH"] += ":/usr/sbin:/sbin"


def why_not():
    """Why Slurm cannot run here, or "". Fails instead for ./dev test --slurm."""
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    why = "slurmd needs root" if os.geteuid() != 0 else ""
    if missing:
        why = "not installed: " + ", ".join(missing)
    if why and os.environ.get("BERTH_NEED_SLURM"):
        raise RuntimeError(why)
    return why


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Slurm:
    """`gres` and `slurm`: lines of gres.conf and of slurm.conf, as `berth slurm gres` prints them. Device files are in the test's folder.
    `more`: further lines of slurm.conf, in which FOLDER stands for that folder. `accounting`: with slurmdbd and MariaDB. `tracked`: the
    plugin ("cgroup/v1", "cgroup/v2") by which processes are in control groups, which hold them to their job's devices; "" they are in none.
    `others`: names of further nodes, which are like the first."""

    def __init__(self, gres, slurm, plugstack="", more=(), accounting=False, tracked="", others=()):
        self.folder = tempfile.mkdtemp(prefix="berth-slurm-")
        self.started = []
        os.chmod(self.folder, 0o755)
        self.host = socket.gethostname().split(".")[0]
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "CUDA_", "BERTH_"))}
        self.environment["SLURM_CONF"] = self.path("slurm.conf")
        self.accounting = accounting
        self.tracked = tracked
        self.tracking = ("proctrack/cgroup", "task/cgroup") if tracked else ("proctrack/linuxproc", "task/none")
        if accounting:
            self.database_port = free_port()
            more = (*more, "AccountingStorageType=accounting_storage/slurmdbd", "AccountingStorageHost=127.0.0.1",
                    f"AccountingStoragePort={self.database_port}", "AccountingStorageUser=root",
                    f"AccountingStoragePass={self.path('munge.socket')}")
        self.others = others
        self.write_files(gres, slurm, plugstack, more)

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def write_files(self, gres, slurm, plugstack, more):
        for folder in ("dev", "state", "spool"):
            os.mkdir(self.path(folder))
        for number in range(16):
            os.symlink("/dev/null", self.path(f"dev/nvidia{number}"))
        self.gres = gres.replace("/dev/", self.path("dev") + "/")
        # Most tests track no processes by cgroups, so that they run in any container.
        if self.tracked:
            self.put("cgroup.conf", f"CgroupPlugin={self.tracked}\nCgroupMountpoint=/sys/fs/cgroup\nConstrainDevices=yes\n")
        kept = [line for line in slurm.splitlines() if not line.startswith(("ProctrackType", "TaskPlugin"))]
        node = [line for line in kept if line.startswith("NodeName=")][0].split()
        rest = [line for line in kept if not line.startswith("NodeName=")]
        self.node = node[0].removeprefix("NodeName=")
        self.nodes = (self.node, *self.others)
        named = [f"NodeName={name} NodeHostname={self.host} NodeAddr=127.0.0.1 Port={free_port()} " + " ".join(node[1:]) for name in self.nodes]
        self.put("gres.conf", self.gres + "".join(self.gres.replace(f"NodeName={self.node} ", f"NodeName={name} ") for name in self.others))
        for name in self.nodes:
            os.mkdir(self.path(f"spool/{name}"))
        if plugstack:
            self.put("plugstack.conf", plugstack)
        self.put("slurm.conf", "\n".join([
            "ClusterName=berth", f"SlurmctldHost={self.host}(127.0.0.1)", "SlurmUser=root", "AuthType=auth/munge", "CredType=cred/munge",
            f"AuthInfo=socket={self.path('munge.socket')}", f"SlurmctldPort={free_port()}", f"StateSaveLocation={self.path('state')}",
            f"SlurmdSpoolDir={self.path('spool')}/%n", f"SlurmctldPidFile={self.path('slurmctld.pid')}", f"SlurmdPidFile={self.path('slurmd-%n.pid')}",
            f"SlurmctldLogFile={self.path('slurmctld.log')}", f"SlurmdLogFile={self.path('slurmd-%n.log')}", "MpiDefault=none",
            f"ProctrackType={self.tracking[0]}", f"TaskPlugin={self.tracking[1]}", "ReturnToService=2", "JobAcctGatherType=jobacct_gather/none",
            "MessageTimeout=30", f"PlugStackConfig={self.path('plugstack.conf')}",
            *[line.replace("FOLDER", self.folder) for line in more], *rest, *named, "PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=NO", ""]))

    def start(self, *command):
        with open(self.path("out.log"), "a") as log:
            self.started.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def __enter__(self):
        try:
            subprocess.run(["mungekey", "-c", "-k", self.path("munge.key")], check=True, timeout=20)
            self.start("munged", "--foreground", "--force", "--num-threads=2", f"--socket={self.path('munge.socket')}",
                       f"--key-file={self.path('munge.key')}", f"--pid-file={self.path('munged.pid')}", f"--log-file={self.path('munged.log')}",
                       f"--seed-file={self.path('munged.seed')}")
            self.wait(lambda: os.path.exists(self.path("munge.socket")), "munged")
            if self.accounting:
                self.start_accounting()
            self.start("slurmctld", "-D", "-c", "-f", self.path("slurm.conf"))
            # With v2, slurmd gives controllers to the children of its group, so it must have a group of its own.
            own_group = ("systemd-run", "--scope", "--quiet", "--property=Delegate=yes") if self.tracked == "cgroup/v2" else ()
            for name in self.nodes:
                self.start(*own_group, "slurmd", "-D", "-c", "-N", name, "-f", self.path("slurm.conf"))
            self.wait(lambda: self.run("scontrol", "show", "node").stdout.replace("+", " ").count("State=IDLE") == len(self.nodes), "an idle node")
        except BaseException:
            self.__exit__()
            raise
        return self

    def start_accounting(self):
        data, sock = self.path("mysql"), self.path("mysql.socket")
        port = free_port()
        subprocess.run(["mariadb-install-db", "--user=root", f"--datadir={data}", "--auth-root-authentication-method=normal"],
                       check=True, capture_output=True, timeout=100)
        self.start("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={sock}", f"--port={port}", "--bind-address=127.0.0.1",
                   f"--pid-file={self.path('mysql.pid')}", "--innodb-buffer-pool-size=64M")
        sql = "CREATE USER slurm@127.0.0.1; CREATE USER slurm@localhost; GRANT ALL ON *.* TO slurm@127.0.0.1; GRANT ALL ON *.* TO slurm@localhost"
        self.wait(lambda: self.run("mariadb", "--no-defaults", f"--socket={sock}", "-e", sql).returncode == 0, "database")
        self.put("slurmdbd.conf", "\n".join([
            "AuthType=auth/munge", f"AuthInfo=socket={self.path('munge.socket')}", "DbdHost=localhost", "DbdAddr=127.0.0.1",
            f"DbdPort={self.database_port}", "SlurmUser=root", "StorageType=accounting_storage/mysql", "StorageHost=127.0.0.1", f"StoragePort={port}",
            "StorageUser=slurm", f"LogFile={self.path('slurmdbd.log')}", f"PidFile={self.path('slurmdbd.pid')}", ""]))
        os.chmod(self.path("slurmdbd.conf"), 0o600)
        # slurmdbd reads its file from the folder of slurm.conf.
        self.start("slurmdbd", "-D")
        self.wait(lambda: self.run("sacctmgr", "--immediate", "add", "cluster", "berth").returncode == 0, "accounting")

    def wait(self, done, what):
        for _ in range(300):
            if done():
                return
            time.sleep(0.2)
        raise RuntimeError(f"no {what} within a minute:\n" + self.logs())

    def logs(self):
        text = ""
        for name in ("out.log", "munged.log", "slurmctld.log", *(f"slurmd-{name}.log" for name in self.nodes), "slurmdbd.log"):
            if os.path.exists(self.path(name)):
                with open(self.path(name), errors="replace") as file:
                    text += f"== {name}\n" + file.read()[-4000:]
        return text

    def run(self, *command, **keywords):
        keywords.setdefault("timeout", 90)
        environment = {**self.environment, **keywords.pop("variables", {})}
        return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, **keywords)

    def __exit__(self, *_):
        for process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.started):
            try:
                process.wait(3)  # slurmd sometimes deadlocks when it ends
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
