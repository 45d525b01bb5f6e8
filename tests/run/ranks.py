"""`berth run --ranks`: the environment of each rank, the output, which rank is blamed for a failure, and that no process is left."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from support import BERTH, PATIENCE, Terminal, environment, holding, main, run, start, wait_until

SHOW = "import os, json; print(json.dumps({k: os.environ.get(k) for k in os.environ}))"


def python_with_torch():
    for program in ("python3", "/usr/bin/python3"):
        look = subprocess.run([program, "-c", "import torch.distributed as d; raise SystemExit(not d.is_available())"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        if look.returncode == 0:
            return program
    return None


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(folder.name, "report.json")
        self.marker = f"marker-{os.getpid()}-{self.id()}"

    def report(self):
        with open(self.file) as file:
            return json.load(file)

    def ranks(self, count, *command, options=(), **keywords):
        return run(*command, options=["--ranks", str(count), "--report", self.file, *options], **keywords)


# Rank 0 starts to listen late, on two ports. The others connect only once, send their number and a lot of data, and read an answer.
MEET = """
import os, socket, sys, time
rank, world, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
for offset in range(2):
    if rank == 0:
        time.sleep(float(sys.argv[1]))
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("", port + offset))
        server.listen()
        for _ in range(world - 1):
            link = server.accept()[0]
            with link.makefile("rwb") as file:
                number, rest = file.readline().decode().strip(), file.read()
                file.write(f"answer to {number} and {len(rest)} bytes".encode())
            link.close()
    else:
        link = socket.create_connection(("127.0.0.1", port + offset))
        link.sendall(f"{rank}\\n".encode() + b"x" * 3000000)
        link.shutdown(socket.SHUT_WR)
        print(f"port {offset}:", link.makefile().read(), flush=True)
"""


def by_rank(text):
    found = {}
    for line in text.splitlines():
        prefix = re.match(r"\[rank (\d+)\] ", line)
        assert prefix, line
        found.setdefault(int(prefix[1]), []).append(line[prefix.end():])
    return found


class Start(WithFolder):
    def test_variables_of_torchrun(self):
        done = self.ranks(3, "python3", "-c", SHOW, options=["--cpu"], env=environment(OMP_NUM_THREADS=None))
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = {rank: json.loads(lines[0]) for rank, lines in by_rank(done.stdout).items()}
        self.assertEqual(sorted(seen), [0, 1, 2])
        for rank, variables in seen.items():
            for name in ("RANK", "LOCAL_RANK", "ROLE_RANK"):
                self.assertEqual(variables[name], str(rank), name)
            for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"):
                self.assertEqual(variables[name], "3", name)
            self.assertEqual((variables["GROUP_RANK"], variables["NODE_RANK"], variables["GROUP_WORLD_SIZE"]), ("0", "0", "1"))
            self.assertEqual((variables["MASTER_ADDR"], variables["TORCHELASTIC_RESTART_COUNT"]), ("127.0.0.1", "0"))
            for name, value in (("TORCHELASTIC_MAX_RESTARTS", "0"), ("TORCHELASTIC_USE_AGENT_STORE", "False"), ("ROLE_NAME", "default"),
                                ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"), ("ACCELERATE_USE_CPU", "true"), ("JAX_NUM_PROCESSES", "3"),
                                ("JAX_PROCESS_ID", str(rank))):
                self.assertEqual(variables[name], value, name)
            self.assertTrue(variables["TORCHELASTIC_RUN_ID"] and variables["TORCHELASTIC_ERROR_FILE"])
            self.assertEqual(json.loads(variables["TF_CONFIG"])["task"], {"type": "worker", "index": rank})
            self.assertEqual(len(json.loads(variables["TF_CONFIG"])["cluster"]["worker"]), 3)
            self.assertEqual(variables["CUDA_VISIBLE_DEVICES"], "-1")
            self.assertGreaterEqual(int(variables["OMP_NUM_THREADS"]), 1)
        for name in ("JAX_COORDINATOR_ADDRESS", "TORCHELASTIC_RUN_ID"):
            self.assertEqual(len({variables[name] for variables in seen.values()}), 1, name)
        first = seen[0]
        self.assertEqual(seen[1]["MASTER_PORT"], seen[2]["MASTER_PORT"])
        self.assertNotEqual(seen[1]["MASTER_PORT"], first["MASTER_PORT"], "Berth listens for the ranks above 0")
        addresses = [f"127.0.0.1:{first['MASTER_PORT']}", first["JAX_COORDINATOR_ADDRESS"], *json.loads(first["TF_CONFIG"])["cluster"]["worker"]]
        self.assertEqual(len(set(addresses)), 5, "no two servers get one port")
        report = self.report()
        self.assertEqual([(one["rank"], one["part"], one["exit_code"]) for one in report["ranks"]], [(0, "ok", 0), (1, "ok", 0), (2, "ok", 0)])
        self.assertTrue(all(one["peak_rss_bytes"] > 1_000_000 for one in report["ranks"]))

    def test_a_job_without_ranks_has_none(self):
        run("true", options=["--report", self.file])
        self.assertIsNone(self.report()["ranks"])

    def test_lines_do_not_mix(self):
        write = "for i in $(seq 300); do printf 'a%s-' $RANK; printf 'b%s-' $RANK; printf 'c%s\\n' $RANK; done"
        done = self.ranks(4, "sh", "-c", write)
        lines = by_rank(done.stdout)
        for rank in range(4):
            self.assertEqual(lines[rank], [f"a{rank}-b{rank}-c{rank}"] * 300)

    def test_a_gigabyte_without_newline_takes_no_memory(self):
        done = self.ranks(2, "sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' x; echo", stdout=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0)
        self.assertLess(self.report()["peak_rss_bytes"], 60_000_000)

    def test_log_folder_and_tee(self):
        logs = os.path.join(self.folder, "a", "logs")
        done = self.ranks(3, "sh", "-c", "echo out $RANK; echo err $RANK >&2", options=["--log-dir", logs, "--tee", "0,2"])
        self.assertEqual(sorted(by_rank(done.stdout)), [0, 2])
        for rank in range(3):
            with open(os.path.join(logs, f"rank-{rank}.log")) as file:
                self.assertEqual(sorted(file.read().split("\n")), ["", f"err {rank}", f"out {rank}"])
        self.assertEqual(self.report()["ranks"][1]["log"], os.path.join(logs, "rank-1.log"))

    def test_a_rank_that_writes_without_end_does_not_fill_the_disk(self):
        # Binary output, without a newline except in front of the last words.
        logs = os.path.join(self.folder, "logs")
        words = "printf first; head -c 30000000 /dev/zero; printf '\\nlast %s' $RANK"
        done = self.ranks(2, "sh", "-c", words, options=["--log-dir", logs, "--log-limit", "4MiB", "--tee", "1"], stdout=subprocess.DEVNULL)
        for rank, one in enumerate(self.report()["ranks"]):
            files = [os.path.join(logs, f"rank-{rank}.log{part}") for part in ("", ".1", ".2")]
            parts = [pathlib.Path(file).read_bytes() for file in files]
            self.assertLess(sum(map(len, parts)), (4 << 20) + 200)
            self.assertTrue(parts[0].startswith(b"first\0"))
            self.assertIn(f"the log stops here; its last part is in rank-{rank}.log.1".encode(), parts[0])
            self.assertTrue((parts[1] + parts[2]).endswith(b"\nlast %d" % rank))
            self.assertGreater(one["log_left_out_bytes"], 25_000_000)
            self.assertIn(f"rank {rank} writes more than half of --log-limit: {files[0]} has the beginning", done.stderr)

    def test_rank_0_has_the_input(self):
        done = self.ranks(3, "sh", "-c", "cat", input="from the terminal\n")
        self.assertEqual(done.stdout, "[rank 0] from the terminal\n")

    def test_another_rank_has_the_input(self):
        done = self.ranks(3, "sh", "-c", "cat", options=["--stdin-rank", "2"], input="from the terminal\n")
        self.assertEqual(done.stdout, "[rank 2] from the terminal\n")
        wrong = self.ranks(3, "true", options=["--stdin-rank", "3"])
        self.assertEqual((wrong.returncode, "E0536" in wrong.stderr), (2, True), wrong.stderr)

    def test_the_second_of_two_nodes(self):
        show = "echo $RANK $LOCAL_RANK $WORLD_SIZE $GROUP_RANK $MASTER_ADDR:$MASTER_PORT $JAX_PROCESS_ID $JAX_COORDINATOR_ADDRESS"
        slurm = environment(SLURM_JOB_ID="3", SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="2", SLURM_PROCID="1", SLURM_STEP_NODELIST="n[1-2]",
                            MASTER_PORT="4000")
        for options, variables in (([], slurm), (["--nodes", "2"], environment(NODE_RANK="1", MASTER_ADDR="n1", MASTER_PORT="4000"))):
            done = self.ranks(2, "sh", "-c", show, options=["--cpu", *options], env=variables)
            self.assertEqual(sorted(done.stdout.splitlines()), ["[rank 2] 2 0 4 1 n1:4000 2 n1:4001", "[rank 3] 3 1 4 1 n1:4000 3 n1:4001"], done.stderr)
        wrong = self.ranks(2, "true", options=["--cpu", "--nodes", "2"], env=environment(NODE_RANK=None, MASTER_ADDR=None))
        self.assertEqual((wrong.returncode, "E0534" in wrong.stderr), (2, True), wrong.stderr)

    def test_other_launchers(self):
        torchrun = os.path.join(self.folder, "torchrun")
        with open(torchrun, "w") as file:
            file.write("#!/bin/sh\necho $RANK ran; echo begun >&2\n")
        os.chmod(torchrun, 0o755)
        words = [torchrun, "--standalone", "--nproc_per_node=2", "train.py"]
        done = run(*words, options=["--cpu"], env=environment(RANK=None))
        self.assertEqual((done.returncode, done.stdout), (0, "ran\n"))
        self.assertLess(done.stderr.index("--nproc_per_node=2"), done.stderr.index("begun"), "the note comes first")
        self.assertIn("--standalone, --nproc_per_node=2", done.stderr)
        self.assertIn("berth run --ranks 2 -- python train.py", done.stderr)
        twice = self.ranks(2, *words)
        self.assertEqual((twice.returncode, "E0537" in twice.stderr), (2, True), twice.stderr)
        self.assertIn("berth run --ranks 2 -- python train.py", twice.stderr)

    def test_a_port_for_each_of_many_starts(self):
        # Each rank 0 listens on its port while the other jobs ask for ports, too.
        listen = ("import os, socket, time; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1);"
                  "s.bind(('', int(os.environ['MASTER_PORT']))); s.listen(); print(os.environ['MASTER_PORT']); time.sleep(1)")
        jobs = [start("python3", "-c", listen, options=["--ranks", "1", "--cpu"]) for _ in range(20)]
        ports = [job.communicate(timeout=120)[0] for job in jobs]
        self.assertTrue(all(job.returncode == 0 for job in jobs))
        self.assertEqual(len(set(ports)), 20)

    def test_ranks_above_0_may_connect_before_rank_0_listens(self):
        done = self.ranks(3, "python3", "-c", MEET, "0.7", options=["--cpu"])
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = by_rank(done.stdout)
        for rank in (1, 2):
            self.assertEqual(lines[rank], [f"port 0: answer to {rank} and 3000000 bytes", f"port 1: answer to {rank} and 3000000 bytes"])

    def test_connections_to_a_rank_0_that_has_ended_are_closed(self):
        words = ("import os, socket, sys, time\nif os.environ['RANK'] == '0': time.sleep(0.5); sys.exit(0)\n"
                 "link = socket.create_connection(('127.0.0.1', int(os.environ['MASTER_PORT'])))\nprint(link.recv(10))\n"
                 "print(socket.socket().connect_ex(('127.0.0.1', int(os.environ['MASTER_PORT']))) != 0)\n")
        done = self.ranks(2, "python3", "-c", words, options=["--cpu"])
        self.assertEqual((done.returncode, done.stdout), (0, "[rank 1] b''\n[rank 1] True\n"), done.stderr)

    def test_ranks_of_many_jobs_meet(self):
        count, at_once = (200, 20) if "BERTH_SOAK" in os.environ else (12, 12)
        for begin in range(0, count, at_once):
            jobs = [start("python3", "-c", MEET, "0.05", options=["--ranks", "2", "--cpu"], stderr=subprocess.DEVNULL) for _ in range(at_once)]
            said = [job.communicate(timeout=300)[0] for job in jobs]
            for job, words in zip(jobs, said):
                self.assertEqual((job.returncode, words.count("answer to 1 and")), (0, 2), f"job {begin}: {words}")

    def test_wrong_words(self):
        for options, code in ((["--ranks", "2", "--hang-action", "retry"], 2), (["--ranks", "2", "--hang-action", "wait"], 2),
                              (["--ranks", "2", "--hang-timeout", "5s"], 2),
                              (["--ranks", "0"], 2), (["--ranks", "many"], 2), (["--tee", "0"], 2), (["--ranks", "2", "--gpus-per-rank", "0"], 2),
                              (["--ranks", "2", "--log-dir", "/proc/nowhere"], 125)):
            done = run("true", options=options)
            self.assertEqual(done.returncode, code, (options, done.stderr))
            self.assertIn("hint:", done.stderr)
        self.assertEqual(run("no-such-command", options=["--ranks", "2"]).returncode, 127)


class End(WithFolder):
    def test_the_first_that_fails_gives_the_exit_code(self):
        begun = time.monotonic()
        done = self.ranks(3, "sh", "-c", f"[ $RANK = 1 ] || exec sleep 600 # {self.marker}\nsleep 0.3; echo last words >&2; exit 42")
        self.assertLess(time.monotonic() - begun, 8)
        self.assertEqual(done.returncode, 42)
        self.assertIn("rank 1 failed first, with exit code 42", done.stderr)
        ranks = self.report()["ranks"]
        self.assertEqual([one["part"] for one in ranks], ["victim", "failed first", "victim"])
        self.assertEqual([one["signal"] for one in ranks], [15, None, 15])
        self.assertEqual(ranks[1]["last_lines"], ["last words"])
        self.assertEqual(self.report()["outcome"], {"class": "failed", "exit_code": 42, "signal": None})

    def test_a_signal_is_the_signal_of_the_job(self):
        done = self.ranks(2, "sh", "-c", "[ $RANK = 0 ] && kill -KILL $$; exec sleep 600")
        self.assertEqual(done.returncode, 137)
        self.assertEqual(self.report()["outcome"]["signal"], 9)

    def test_the_report_has_a_table_of_the_ranks(self):
        words = "[ $RANK = 1 ] && { head -c 60000000 /dev/zero | tail -c 50000000 >/dev/null; exit 4; }; exec sleep 600"
        text = run("bash", "-c", words, options=["--ranks", "3", "--cpu", "--report", "-"]).stderr
        table = [re.split("  +", line.strip()) for line in text.splitlines()]
        head = table.index(["rank", "end", "time", "CPU time", "memory"])
        self.assertEqual([row[:2] for row in table[head + 1:head + 4]], [["0", "victim"], ["1", "exit code 4 (failed first)"], ["2", "victim"]], text)
        self.assertTrue(all(row[4].endswith("iB") for row in table[head + 1:head + 4]), text)
        many = run("sh", "-c", "[ $RANK = 10 ] || exec sleep 600; exit 4", options=["--ranks", "12", "--cpu", "--report", "-"]).stderr
        self.assertIn("10    exit code 4 (failed first)", many)
        self.assertIn("4 more ranks: see --report FILE", many)

    def test_a_traceback_is_in_the_report(self):
        program = os.path.join(self.folder, "fails.py")
        with open(program, "w") as file:
            file.write("import os, time\nif os.environ['RANK'] == '1':\n    raise ValueError('no data here')\ntime.sleep(600)\n")
        done = self.ranks(2, "python3", program)
        self.assertEqual(done.returncode, 1)
        self.assertIn("rank 1: ValueError: no data here", done.stderr)
        trace = self.report()["ranks"][1]["traceback"]
        self.assertTrue(trace.startswith("Traceback"), trace)
        self.assertTrue(trace.endswith("ValueError: no data here"), trace)

    def test_the_error_file_of_the_program(self):
        # Writes the error file as PyTorch's record() does, and no traceback to standard error. The rank takes a while to end, and its peer
        # fails in the meantime.
        words = """import json, os, sys, time
if os.environ["RANK"] == "0":
    time.sleep(0.5)
    sys.exit("RuntimeError: Connection closed by peer")
error = {"message": "ValueError: seeded", "extraInfo": {"py_callstack": "Traceback (most recent call last):\\nValueError: seeded\\n", "timestamp": "1700000009"}}
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump({"message": error}, file)
time.sleep(2.5)
os._exit(7)
"""
        mine = os.path.join(self.folder, "mine.json")
        done = self.ranks(2, "python3", "-c", words, env=environment(TORCHELASTIC_ERROR_FILE=mine))
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("rank 1: ValueError: seeded", done.stderr)
        self.assertEqual([one["part"] for one in self.report()["ranks"]], ["victim", "failed first"])
        self.assertEqual(self.report()["ranks"][1]["traceback"], "Traceback (most recent call last):\nValueError: seeded")
        with open(mine) as file:
            passed = json.load(file)["message"]
        self.assertEqual((passed["message"], passed["errorCode"], passed["extraInfo"]["timestamp"]), ("ValueError: seeded", 7, "1700000009"))

    def test_an_error_file_for_a_program_that_writes_none(self):
        mine = os.path.join(self.folder, "mine.json")
        self.ranks(2, "python3", "-c", "import os\nif os.environ['RANK'] == '1': raise KeyError('x')\n", env=environment(TORCHELASTIC_ERROR_FILE=mine))
        with open(mine) as file:
            passed = json.load(file)["message"]
        self.assertEqual((passed["message"], passed["errorCode"]), ("KeyError: 'x'", 1))
        self.assertTrue(passed["extraInfo"]["py_callstack"].startswith("Traceback"))

    def test_error_files_do_not_stay(self):
        self.ranks(2, "sh", "-c", "echo '{' > $TORCHELASTIC_ERROR_FILE; exit 3")
        left = [name for _, _, files in os.walk(environment()["BERTH_RUNTIME_DIR"]) for name in files if name.endswith(".json")]
        self.assertEqual(left, [])

    def test_a_rank_that_left_early_is_named(self):
        words = "[ $RANK = 1 ] && exit 0; sleep 0.3; echo 'RuntimeError: Connection closed by peer' >&2; exit 1"
        done = self.ranks(2, "sh", "-c", words)
        self.assertEqual(done.returncode, 1)
        self.assertIn("rank 1 had ended with exit code 0 while others still needed it", done.stderr)
        self.assertEqual(self.report()["tries"][0]["left_early"], [1])

    def test_the_victims_are_named(self):
        done = self.ranks(4, "sh", "-c", "[ $RANK = 1 ] && { sleep 0.2; exit 5; }; exec sleep 600")
        self.assertIn("ranks 0,2-3 failed as a result", done.stderr)

    def test_the_others_are_gone_at_once(self):
        # The goal is 20 ms. The limit allows for a busy machine.
        log = os.path.join(self.folder, "end")
        begun = f"date +%s.%N > {log}; exit 5"
        done = self.ranks(3, "bash", "-c", f"[ $RANK = 1 ] && {{ sleep 0.3; {begun}; }}; setsid sleep 600.7{os.getpid()} & wait")
        ended = time.time()
        self.assertEqual(done.returncode, 5)
        self.assertEqual(holding(f"600.7{os.getpid()}"), [])
        with open(log) as file:
            self.assertLess(ended - float(file.read()), 2.0)

    def test_a_rank_that_only_lost_its_peer_is_no_culprit(self):
        # Rank 0 ends first, but its last words say that it only lost its peer.
        words = "[ $RANK = 0 ] && { echo 'RuntimeError: Connection closed by peer' >&2; exit 1; }; sleep 0.2; exit 7"
        done = self.ranks(2, "sh", "-c", words)
        self.assertEqual(done.returncode, 7)
        self.assertEqual([one["part"] for one in self.report()["ranks"]], ["victim", "failed first"])

    def test_who_ignores_sigterm_is_killed_after_the_grace(self):
        done = self.ranks(2, "sh", "-c", "[ $RANK = 0 ] && { sleep 0.5; exit 3; }; trap '' TERM; while :; do sleep 0.1; done",
                          options=["--grace", "500ms"])
        self.assertEqual(done.returncode, 3)
        self.assertEqual(self.report()["ranks"][1]["signal"], 9)

    def test_each_rank_gets_a_signal_once(self):
        count = "trap 'echo got' USR1; echo ready; i=0; while [ $i -lt 40 ]; do sleep 0.05; i=$((i+1)); done"
        job = start("sh", "-c", count, options=["--ranks", "2"])
        lines = [job.stdout.readline(), job.stdout.readline()]
        self.assertEqual(sorted(lines), ["[rank 0] ready\n", "[rank 1] ready\n"])
        os.kill(job.pid, signal.SIGUSR1)
        rest = job.communicate(timeout=60)[0]
        self.assertEqual(sorted(rest.splitlines()), ["[rank 0] got", "[rank 1] got"])

    def test_sigterm_ends_all_and_blames_none(self):
        job = start("sh", "-c", f"echo ready; exec sleep 600 # {self.marker}", options=["--ranks", "2", "--report", self.file])
        for _ in range(2):
            job.stdout.readline()
        job.terminate()
        self.assertEqual(job.wait(timeout=60), 143)
        self.assertEqual([one["part"] for one in self.report()["ranks"]], ["stopped", "stopped"])

    def test_ctrl_c_ends_the_ranks_once(self):
        count = ("import signal, time, sys\nn = []\nsignal.signal(signal.SIGINT, lambda *a: n.append(1))\nprint('ready', flush=True)\n"
                 "while not n: time.sleep(0.01)\ntime.sleep(0.5)\nprint('count', len(n), flush=True)\n")
        terminal = Terminal(BERTH, "run", "--ranks", "2", "--", "python3", "-c", count)
        self.addCleanup(terminal.close)
        terminal.expect("ready", terminal.expect("ready"))
        terminal.send("\x03")
        terminal.expect("count 1", terminal.expect("count 1"))
        self.assertEqual(terminal.status(), 0)

    def test_nothing_survives_sigkill(self):
        job = start("sh", "-c", f"setsid sleep 600.{os.getpid()} & echo ready; exec sleep 600.{os.getpid()}", options=["--ranks", "3"])
        for _ in range(3):
            job.stdout.readline()
        wait_until(lambda: len(holding(f"600.{os.getpid()}")) >= 6, "all run")
        job.kill()
        begun = time.monotonic()
        wait_until(lambda: not holding(f"600.{os.getpid()}"), "all ranks and their children are gone")
        self.assertLess(time.monotonic() - begun, 1.0 if os.getloadavg()[0] < 2 else 5.0)

    def test_what_a_victim_started_is_ended_without_words(self):
        done = self.ranks(2, "sh", "-c", "[ $RANK = 0 ] && { sleep 0.2; exit 5; }; sleep 600 & wait")
        self.assertEqual(done.returncode, 5)
        self.assertEqual(self.report()["left_behind"], [])


# A torch that sees a GPU, and cannot use it.
BROKEN_DEVICE = """
import sys, types
def set_device(device): raise RuntimeError("invalid device ordinal")
__path__, __version__ = [], "2.9.0"
cuda = types.SimpleNamespace(is_available=lambda: True, device_count=lambda: 1, set_device=set_device)
distributed = sys.modules["torch.distributed"] = types.ModuleType("torch.distributed")
distributed.is_available = distributed.is_nccl_available = lambda: True
"""


# What NCCL writes with NCCL_DEBUG=INFO, as far as it matters here.
LIKE_NCCL = r"""
import os
assert os.environ["NCCL_DEBUG"] == "INFO"
rank, to = int(os.environ["RANK"]), (int(os.environ["RANK"]) + 1) % int(os.environ["WORLD_SIZE"])
name = os.environ["NCCL_DEBUG_FILE"].replace("%%", "<>").replace("%p", str(os.getpid())).replace("<>", "%")
with open(name, "w") as file:
    begin = f"host:{os.getpid()}:7 [{rank}] NCCL INFO "
    file.write(begin + "NCCL version 2.27.5+cuda12.9" + os.linesep)
    for channel in range(2):
        way = "NET/Socket/0" if rank == 2 else "P2P/CUMEM"
        file.write(begin + f"Channel {channel:02}/0 : {rank}[{rank}] -> {to}[{to}] {'[send] ' if rank == 2 else ''}via {way}\n")
    if rank == 1:
        file.write(f"host:1:7 [1] misc/socket.cc:58 NCCL WARN Connection closed by remote peer\n")
"""


class NcclLog(WithFolder):
    def test_the_report_says_how_the_ranks_are_connected(self):
        done = self.ranks(3, "python3", "-c", LIKE_NCCL, options=["--cpu", "--nccl-debug"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        nccl = self.report()["tries"][0]["nccl"]
        self.assertEqual((nccl["version"], nccl["more_warnings"]), ("2.27.5+cuda12.9", 0))
        self.assertEqual(nccl["links"], [{"from": 0, "to": 1, "transport": "P2P/CUMEM", "channels": 2},
                                         {"from": 1, "to": 2, "transport": "P2P/CUMEM", "channels": 2},
                                         {"from": 2, "to": 0, "transport": "NET/Socket", "channels": 2}])
        self.assertEqual(nccl["warnings"], ["rank 1: Connection closed by remote peer"])

    def test_as_text_and_with_its_logs_kept(self):
        logs = os.path.join(self.folder, "logs %p")  # NCCL must not replace this one
        done = run("python3", "-c", LIKE_NCCL, options=["--ranks", "3", "--cpu", "--nccl-debug", "--log-dir", logs, "--report", "-"])
        said = " ".join(done.stderr.split())
        self.assertIn("NCCL 2.27.5+cuda12.9: 1 pair of ranks connected by NET/Socket: 2>0; 2 pairs of ranks connected by P2P/CUMEM: 0>1, 1>2", said)
        self.assertIn("ranks of this machine communicate over the network", said)
        self.assertIn("NCCL warned: rank 1: Connection closed by remote peer", said)
        self.assertEqual(len([name for name in os.listdir(logs) if re.fullmatch(r"rank-[012]\.nccl\.\d+\.log", name)]), 3, os.listdir(logs))

    def test_without_nccl_there_is_nothing_to_say(self):
        done = self.ranks(2, "true", options=["--cpu", "--nccl-debug"])
        self.assertEqual((done.returncode, self.report()["tries"][0]["nccl"]), (0, None), done.stderr)
        done = run("true", options=["--nccl-debug"])
        self.assertEqual(done.returncode, 2)
        self.assertIn("--nccl-debug needs --ranks", done.stderr)


class Preflight(WithFolder):
    def test_without_pytorch_it_is_skipped_and_says_why(self):
        done = self.ranks(2, "sh", "-c", "echo ran", options=["--cpu", "--preflight"])
        self.assertEqual((done.returncode, done.stdout.count("ran\n")), (0, 2), done.stderr)
        self.assertIn("preflight skipped: the command is not Python", done.stderr)
        done = self.ranks(2, "python3", "-S", "-c", "print('ran')", options=["--cpu", "--preflight"], env=environment(PYTHONPATH=self.without_torch()))
        self.assertEqual((done.returncode, done.stdout.count("ran\n")), (0, 2), done.stderr)
        self.assertIn("preflight skipped: this Python has no PyTorch", done.stderr)
        self.assertEqual((self.report()["preflight"]["state"], len(self.report()["tries"])), ("skipped", 1))

    def without_torch(self):
        with open(os.path.join(self.folder, "torch.py"), "w") as file:
            file.write("raise ImportError('none here')\n")
        return self.folder

    def fake_torch(self, lines):
        """A torch whose ranks have these versions, by rank; what is not there fails."""
        with open(os.path.join(self.folder, "torch.py"), "w") as file:
            file.write(lines)
        return environment(PYTHONPATH=self.folder)

    def test_a_torch_that_fails_stops_the_program(self):
        done = self.ranks(2, "python3", "-c", "print('ran')", options=["--cpu", "--preflight"], env=self.fake_torch("import os; os._exit(3)"))
        self.assertEqual((done.returncode, done.stdout), (125, ""), done.stderr)
        self.assertIn("E0953", done.stderr)
        self.assertEqual((self.report()["preflight"]["state"], self.report()["tries"]), ("failed", []))

    def test_its_own_words_are_told_if_torch_fails(self):
        for lines, step, words in (("raise OSError('libcudart.so.12: cannot open')", "import", "cannot be imported: OSError: libcudart.so.12"),
                                   ("import sys; sys.exit('no such board')", None, "ended without an answer: no such board"),
                                   (BROKEN_DEVICE, "device", "cannot use its device: RuntimeError: invalid device ordinal")):
            with self.subTest(step):
                done = self.ranks(1, "python3", "-c", "print('ran')", options=["--cpu", "--preflight"], env=self.fake_torch(lines))
                self.assertEqual((done.returncode, done.stdout), (125, ""), done.stderr)
                self.assertIn(words, done.stderr)
                self.assertEqual(self.report()["preflight"]["step"], step)

    def test_a_stop_meanwhile_is_no_failure(self):
        begun = os.path.join(self.folder, "begun")
        env = self.fake_torch(f"import time; open({begun!r} + str(time.time_ns()), 'w'); time.sleep(1000)")
        job = start("python3", "-c", "print('ran')", options=["--ranks", "1", "--cpu", "--preflight", "--report", self.file], env=env)
        wait_until(lambda: any(name.startswith("begun") for name in os.listdir(self.folder)), "the rank imports torch")
        job.send_signal(signal.SIGTERM)
        self.assertEqual((job.communicate(timeout=PATIENCE)[0], job.returncode), ("", 143))
        self.assertEqual((self.report()["outcome"]["exit_code"], self.report()["preflight"], self.report()["tries"]), (143, None, []))

    def test_it_needs_ranks(self):
        self.assertEqual(run("true", options=["--preflight"]).returncode, 2)


class Queue(WithFolder):
    def test_a_queued_job_with_ranks(self):
        state = tempfile.TemporaryDirectory()
        self.addCleanup(state.cleanup)
        env = environment(BERTH_STATE_DIR=state.name)

        def berth(*words):
            return subprocess.run([BERTH, *words], env=env, capture_output=True, text=True, timeout=60)

        queued = berth("run", "--queue", "--cpu", "--ranks", "2", "--report", self.file, "--", "sh", "-c", "echo here $RANK; sleep $RANK; exit $RANK")
        self.assertEqual(queued.returncode, 0, queued.stderr)
        number = queued.stdout.strip()
        self.assertEqual(berth("wait", number).returncode, 1)
        log = berth("logs", number).stdout
        self.assertIn("[rank 0] here 0\n", log)
        self.assertIn("[rank 1] here 1\n", log)
        self.assertIn("rank 1 failed first", log)
        one = berth("logs", number, "--rank", "1")
        self.assertEqual((one.stdout, one.stderr), ("here 1\n", ""))
        none = berth("logs", number, "--rank", "2")
        self.assertEqual((none.stdout, f"the output of job {number} has no line of that rank" in none.stderr), ("", True), none.stderr)
        self.assertIn("E0010", berth("logs", number, "--rank", "1", "--lines", "2").stderr)
        ended = berth("stacks", number)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn(f"job {number} has ended", ended.stderr)
        self.assertIn(f"berth report {number}", ended.stderr)
        if os.path.exists(f"/proc/{number}"):
            self.assertIn(f"berth stacks --pid {number}", ended.stderr)
        self.assertEqual([one["part"] for one in self.report()["ranks"]], ["ok", "failed first"])


TRAIN = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
print("sum", total.item(), flush=True)
if len(sys.argv) > 1 and dist.get_rank() == int(sys.argv[1]):
    raise ValueError("seeded")
for _ in range(100):
    dist.all_reduce(total)
"""


@unittest.skipUnless(python_with_torch(), "no PyTorch with torch.distributed")
class Gloo(WithFolder):
    def program(self):
        path = os.path.join(self.folder, "train.py")
        with open(path, "w") as file:
            file.write(TRAIN)
        return path

    def test_two_ranks_find_each_other(self):
        done = self.ranks(2, python_with_torch(), self.program(), options=["--cpu"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["[rank 0] sum 3.0", "[rank 1] sum 3.0"])
        self.assertEqual([one["part"] for one in self.report()["ranks"]], ["ok", "ok"])

    def test_the_ranks_meet_before_the_program(self):
        done = self.ranks(2, python_with_torch(), "-c", "import os; print('try', os.environ['BERTH_TRY'])", options=["--cpu", "--preflight"])
        self.assertEqual((done.returncode, done.stdout.count("try 1")), (0, 2), done.stderr)
        self.assertRegex(done.stderr, "note: preflight: the ranks connected and did an all-reduce with gloo in ")
        self.assertEqual((self.report()["preflight"]["state"], self.report()["preflight"]["backend"]), ("ok", "gloo"))

    def test_an_interface_that_is_not_there_is_found_before_the_program(self):
        done = self.ranks(2, python_with_torch(), "-c", "print('ran')", options=["--cpu", "--preflight"], env=environment(GLOO_SOCKET_IFNAME="none0"))
        self.assertEqual((done.returncode, done.stdout), (125, ""), done.stderr)
        self.assertEqual((self.report()["preflight"]["state"], self.report()["preflight"]["step"]), ("failed", "all-reduce"))

    def test_the_error_that_pytorch_records(self):
        mine, program = os.path.join(self.folder, "mine.json"), os.path.join(self.folder, "records.py")
        with open(program, "w") as file:
            file.write("import os\nfrom torch.distributed.elastic.multiprocessing.errors import record\n@record\ndef main():\n"
                       "    if os.environ['RANK'] == '1':\n        raise ValueError('seeded')\nmain()\n")
        done = self.ranks(2, python_with_torch(), program, options=["--cpu", "--log-dir", self.folder], env=environment(TORCHELASTIC_ERROR_FILE=mine))
        self.assertEqual(done.returncode, 1, done.stderr)
        for path in (mine, os.path.join(self.folder, "rank-1.error.json")):
            with open(path) as file:
                self.assertEqual(json.load(file)["message"]["message"], "ValueError: seeded")

    @unittest.skipUnless(shutil.which("torchrun"), "no torchrun")
    def test_torchrun_inside(self):
        done = run("torchrun", "-r", "1", "-t", "1", "--log_dir", self.folder, "--standalone", "--nproc_per_node=2", self.program(), options=["--cpu"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--ranks 2 -- python " + self.program(), done.stderr)

    def test_two_nodes_find_each_other(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        nodes = [start(python_with_torch(), self.program(), options=["--ranks", "1", "--nodes", "2", "--cpu"],
                       env=environment(NODE_RANK=str(node), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)) for node in range(2)]
        said = [node.communicate(timeout=60)[0] for node in nodes]
        self.assertEqual(said, ["[rank 0] sum 3.0\n", "[rank 1] sum 3.0\n"])

    def test_the_rank_that_failed_is_named_and_not_its_peer(self):
        for seeded in (0, 1):
            done = self.ranks(2, python_with_torch(), self.program(), str(seeded), options=["--cpu"])
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"rank {seeded} failed first", done.stderr)
            self.assertIn("ValueError: seeded", self.report()["ranks"][seeded]["traceback"])


if __name__ == "__main__":
    main()
