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

        def measure(streams, seconds=seconds):
            got, before, begun = 0, cpu_seconds(daemon.pid), time.monotonic()
            while time.monotonic() < begun + seconds:
                for one in select.select(streams, [], [], 0.1)[0]:
                    data = one.recv(1 << 20)
                    assert data, "the daemon has closed a stream"
                    got += len(data)
            passed = time.monotonic() - begun
            return (cpu_seconds(daemon.pid) - before) / passed * 100, got / passed / max(len(streams), 1) / 1024, peak_mib(daemon.pid)

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
        print(f"no stream: {alone[0]:.2f} % of a core, {alone[2]:.1f} MiB; {count} streams: {measured[0]:.2f} % of a core, {measured[2]:.1f} MiB, "
              f"{measured[1]:.1f} KiB/s each")
        daemon.terminate()
        daemon.wait()


if __name__ == "__main__":
    main()
