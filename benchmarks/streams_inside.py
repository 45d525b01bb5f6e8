"""Measures the daemon of a simulated machine while clients read its event stream: CPU of one core, memory, bytes of a frame. Run inside `berth sim`.

usage: berth sim --machine dgx-h100-8 --processes 20 -- python3 benchmarks/streams_inside.py BERTH SECONDS STREAMS [--tcp]
"""
import os
import pathlib
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time

from watch_inside import cpu_seconds, peak_mib


# A server that does nothing but send so many bytes to all connections, once a second.
BARE = """
import socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen(4096)
streams = [server.accept()[0] for _ in range(int(sys.argv[2]))]
data = b"x" * int(sys.argv[3])
while True:
    for one in streams:
        one.send(data)
    time.sleep(1)
"""


def free_address():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()


def main():
    berth, seconds, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    address = free_address() if "--tcp" in sys.argv else None
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        variables = os.environ | {"BERTH_STATE_DIR": folder, "BERTH_RUNTIME_DIR": folder}
        daemon = subprocess.Popen([berth, "serve", *(["--tcp", "%s:%d" % address] if address else [])], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        path = pathlib.Path(folder) / "berth.sock"
        while not path.exists():
            time.sleep(0.05)
        time.sleep(3)

        def measure(streams, seconds=seconds, pid=daemon.pid):
            got, before, begun = 0, cpu_seconds(pid), time.monotonic()
            while time.monotonic() < begun + seconds:
                for one in select.select(streams, [], [], 0.1)[0]:
                    data = one.recv(1 << 20)
                    assert data, "the daemon has closed a stream"
                    got += len(data)
            passed = time.monotonic() - begun
            return (cpu_seconds(pid) - before) / passed * 100, got / passed / max(len(streams), 1) / 1024, peak_mib(pid)

        def bare(size):
            """The CPU time of a server that only sends, of one core."""
            path = os.path.join(folder, "bare")
            server = subprocess.Popen([sys.executable, "-c", BARE, path, str(count), str(size)])
            while not os.path.exists(path):
                time.sleep(0.05)
            streams = [socket.socket(socket.AF_UNIX) for _ in range(count)]
            for one in streams:
                one.connect(path)
            measure(streams, 2, server.pid)
            used = measure(streams, pid=server.pid)[0]
            server.kill()
            server.wait()
            return used

        alone = measure([])
        streams = []
        for _ in range(count):
            one = socket.socket(socket.AF_INET if address else socket.AF_UNIX)
            one.connect(address or str(path))
            token = pathlib.Path(folder, "tcp-token").read_text().strip() if address else ""
            one.sendall(f"GET /v1/watch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            streams.append(one)
        measure(streams, 5)  # the first event of a stream is a whole frame
        measured = measure(streams)
        for one in streams:
            one.close()
        floor = bare(int(measured[1] * 1024))
        print(f"no stream: {alone[0]:.2f} % of a core, {alone[2]:.1f} MiB; {count} streams: {measured[0]:.2f} % of a core, {measured[2]:.1f} MiB, "
              f"{measured[1]:.1f} KiB/s each; a server that only sends these bytes: {floor:.2f} %")
        daemon.terminate()
        daemon.wait()


if __name__ == "__main__":
    main()
