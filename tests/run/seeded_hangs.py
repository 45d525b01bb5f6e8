"""seeded_hangs.py SEED ODD, run as a rank: three ranks reduce a number over gloo, and then rank ODD hangs in the way that SEED names. Used
by hangs.py."""
import fcntl
import multiprocessing
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist
import torch.utils.data

FOREVER = 600


class StuckSet(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        time.sleep(FOREVER)


def sleeps():
    time.sleep(FOREVER)


def waits_on_pipe():
    reader, _ = os.pipe()
    os.read(reader, 1)


def waits_on_socket():
    one, other = socket.socketpair()
    one.recv(1)
    other.close()


def accepts():
    socket.create_server(("127.0.0.1", 0)).accept()


def opens_fifo():
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(folder + "/fifo")
        open(folder + "/fifo")


def locks_twice():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def dead_locks():
    one, other = threading.Lock(), threading.Lock()

    def second():
        with other:
            time.sleep(0.2)
            with one:
                pass
    with one:
        threading.Thread(target=second, daemon=True).start()
        time.sleep(0.2)
        with other:
            pass


def waits_for_event():
    threading.Event().wait()


def waits_on_queue():
    queue.Queue().get()


def joins_thread():
    thread = threading.Thread(target=time.sleep, args=(FOREVER,), daemon=True)
    thread.start()
    thread.join()


def waits_for_child():
    subprocess.run(["sleep", str(FOREVER)])


def waits_on_file_lock():
    with tempfile.NamedTemporaryFile() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with open(file.name) as again:
            fcntl.flock(again, fcntl.LOCK_EX)


def waits_on_loader():
    for _ in torch.utils.data.DataLoader(StuckSet(), num_workers=1):
        pass


def waits_on_pool():
    with multiprocessing.Pool(1) as pool:
        pool.apply(time.sleep, (FOREVER,))


def stops_itself():
    os.kill(os.getpid(), signal.SIGSTOP)


def spins():
    while True:
        pass


def spins_in_native_code():
    sum(range(10 ** 15))


def leaves():
    os._exit(0)


def gathers():
    dist.all_gather([torch.zeros(1) for _ in range(dist.get_world_size())], total)


def swaps_collectives():
    dist.broadcast(total, 0)
    dist.all_reduce(total)


def skips():
    pass


# What a rank may do for minutes while the others wait for it. These end.

def downloads():
    """From a slow server: 200 kB a second by recv(), which /proc/PID/io does not count."""
    server = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        wire, _ = server.accept()
        end = time.monotonic() + HEALTHY_SECONDS
        while time.monotonic() < end:
            wire.sendall(b"x" * 20_000)
            time.sleep(0.1)
        os._exit(0)
    os.wait()
    wire = socket.create_connection(server.getsockname())
    while wire.recv(1 << 16):
        pass


def compiles():
    """A program that it starts works, as a compiler does."""
    subprocess.run([sys.executable, "-c", f"import time\nend = time.monotonic() + {HEALTHY_SECONDS}\nwhile time.monotonic() < end: pass"])


def evaluates():
    end = time.monotonic() + HEALTHY_SECONDS
    while time.monotonic() < end:
        torch.ones(1000).sum()


def writes_checkpoint():
    """To a slow disk: 1 MB a second."""
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(HEALTHY_SECONDS):
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
            time.sleep(1)


def loads_in_workers():
    """The processes of a data loader read, and their parent waits."""
    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return HEALTHY_SECONDS

        def __getitem__(self, index):
            time.sleep(1)
            with open(sys.executable, "rb") as file:
                return len(file.read(1 << 16))
    for _ in torch.utils.data.DataLoader(Slow(), num_workers=1, prefetch_factor=2):
        pass


HEALTHY_SECONDS = int(os.environ.get("HEALTHY_SECONDS", "18"))


def step(number, seed, is_odd):
    if number == 3 and is_odd:
        print("FAULT", time.clock_gettime(time.CLOCK_MONOTONIC), file=sys.stderr, flush=True)  # for benchmarks/ranks.py
        globals()[seed]()
        if seed in ("skips", "gathers", "swaps_collectives"):
            return
    dist.all_reduce(total)
    if seed == "swaps_collectives" and number == 3:
        dist.broadcast(total, 0)


def end():
    dist.barrier()


if __name__ == "__main__":
    seed, is_odd = sys.argv[1], os.environ["RANK"] == sys.argv[2]
    if seed == "leaves_before_the_start":
        if is_odd:
            time.sleep(1)
            sys.exit(0)
    dist.init_process_group("gloo")
    total = torch.ones(1)
    for i in range(6):
        step(i, seed, is_odd)
    end()
