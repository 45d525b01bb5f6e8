"""`berth run --nodes` in the pods of an indexed Job of Kubernetes. Each of two pods is played by namespaces of its own: a network with its own address, and
the host name, /etc/hosts and DNS that Kubernetes gives such a pod behind a headless Service."""
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from support import BERTH, HERE, PATIENCE, environment, main

DOMAIN = "train.default.svc.cluster.local"
# Answers questions for the addresses in a file, as the cluster's DNS does: a pod's name exists from when the pod has an address.
DNS = """
import json, socket, struct, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
while True:
    question, client = server.recvfrom(2000)
    name, at = [], 12
    while question[at]:
        name.append(question[at + 1:at + 1 + question[at]].decode())
        at += 1 + question[at]
    kind = struct.unpack("!H", question[at + 1:at + 3])[0]
    with open(sys.argv[1]) as file:
        address = json.load(file).get(".".join(name))
    answer = b"\\xc0\\x0c" + struct.pack("!HHIH", 1, 1, 5, 4) + socket.inet_aton(address) if address and kind == 1 else b""
    flags = 0x8580 if address else 0x8583
    server.sendto(question[:2] + struct.pack("!HHHHH", flags, 1, 1 if answer else 0, 0, 0) + question[12:at + 5] + answer, client)
"""
ALL_REDUCE = """
import torch
import torch.distributed as distributed
distributed.init_process_group("gloo")
value = torch.tensor([distributed.get_rank() + 1.0])
distributed.all_reduce(value)
print("sum", value.item(), flush=True)
"""
SHOW = "import os, json; print(json.dumps({key: os.environ[key] for key in ('RANK', 'GROUP_RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT', 'TF_CONFIG')}))"


def why_not():
    missing = [name for name in ("unshare", "nsenter", "ip", "mount") if not shutil.which(name)]
    if os.geteuid() != 0 or missing:
        return "needs root" if not missing else "not installed: " + " ".join(missing)
    done = subprocess.run(["unshare", "--net", "ip", "link", "add", "name", "a0", "type", "veth", "peer", "name", "b0"], capture_output=True, text=True)
    return done.stderr.strip()


class Pod:
    """A pod of the indexed Job `train`, with its index as the end of its address."""

    def __init__(self, index, folder):
        self.index, self.folder = index, os.path.join(folder, str(index))
        os.mkdir(self.folder)
        self.address = f"10.9.0.{index + 1}"
        self.holder = subprocess.Popen(["unshare", "--net", "--mount", "--uts", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.started = [self.holder]

    def words(self, *words):
        return ["nsenter", "--target", str(self.holder.pid), "--net", "--mount", "--uts", *words]

    def put(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)
        return os.path.join(self.folder, name)

    def set_up(self, names):
        host = f"train-{self.index}"
        hosts = self.put("hosts", f"# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n{self.address}\t{host}.{DOMAIN}\t{host}\n")
        resolve = self.put("resolv.conf", "search default.svc.cluster.local svc.cluster.local cluster.local\nnameserver 127.0.0.1\noptions ndots:5\n")
        subprocess.run(self.words("sh", "-ec", f"hostname {host}; mount --bind {hosts} /etc/hosts; mount --bind {resolve} /etc/resolv.conf; ip link set lo up; "
                                               f"ip addr add {self.address}/24 dev e0; ip link set e0 up"), check=True, timeout=PATIENCE)
        self.started.append(subprocess.Popen(self.words("python3", "-c", DNS, names)))

    def start(self, *command):
        variables = environment(JOB_COMPLETION_INDEX=str(self.index), HOSTNAME=f"train-{self.index}", BERTH_RUNTIME_DIR=self.folder, MASTER_ADDR=None,
                                MASTER_PORT=None, KUBERNETES_SERVICE_HOST="10.96.0.1")
        job = subprocess.Popen(self.words(BERTH, "run", "--cpu", "--ranks", "1", "--nodes", "2", "--", *command), env=variables, cwd=HERE, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(job)
        return job

    def end(self):
        for process in reversed(self.started):
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe:
                    pipe.close()


@unittest.skipIf(why_not(), why_not())
class IndexedJob(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="berth-pods-")
        self.addCleanup(folder.cleanup)
        self.names = os.path.join(folder.name, "names")
        self.pods = []
        for index in range(2):
            self.pods.append(Pod(index, folder.name))
            self.addCleanup(self.pods[-1].end)
        subprocess.run(self.pods[0].words("ip", "link", "add", "name", "e0", "type", "veth", "peer", "name", "e0", "netns", str(self.pods[1].holder.pid)),
                       check=True, timeout=PATIENCE)
        self.publish(*self.pods)
        for pod in self.pods:
            pod.set_up(self.names)

    def publish(self, *pods):
        with open(self.names + ".new", "w") as file:
            json.dump({f"train-{pod.index}.{DOMAIN}": pod.address for pod in pods}, file)
        os.rename(self.names + ".new", self.names)

    def test_a_pod_finds_its_rank_the_number_of_pods_and_the_addresses_of_its_peers(self):
        for pod in self.pods:
            out, err = pod.start("python3", "-c", SHOW).communicate(timeout=PATIENCE)
            found = json.loads(out.partition("] ")[2])
            self.assertEqual((found["RANK"], found["GROUP_RANK"], found["WORLD_SIZE"]), (str(pod.index), str(pod.index), "2"), err)
            self.assertEqual((found["MASTER_ADDR"], found["MASTER_PORT"]), (f"train-0.{DOMAIN}", "29500"))
            workers = json.loads(found["TF_CONFIG"])["cluster"]["worker"]
            self.assertEqual([worker.partition(":")[0] for worker in workers], [f"train-0.{DOMAIN}", f"train-1.{DOMAIN}"])

    @unittest.skipUnless(subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"], capture_output=True).returncode == 0, "no PyTorch")
    def test_two_pods_meet_and_reduce(self):
        for is_late in (False, True):
            with self.subTest(is_late=is_late):
                self.publish(*self.pods[1 if is_late else 0:])
                second = self.pods[1].start("/usr/bin/python3", "-c", ALL_REDUCE)
                if is_late:  # pod 0 gets its address, and with it its name, after pod 1 has started to ask for it
                    time.sleep(3)
                    self.publish(*self.pods)
                first = self.pods[0].start("/usr/bin/python3", "-c", ALL_REDUCE)
                said = [job.communicate(timeout=PATIENCE) for job in (first, second)]
                self.assertEqual([one[0] for one in said], ["[rank 0] sum 3.0\n", "[rank 1] sum 3.0\n"], said)


if __name__ == "__main__":
    main()
