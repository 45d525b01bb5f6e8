"""`berth function serve`: an HTTP endpoint that calls a Python function in worker processes. Each worker is a job of `berth run`.

The program embeds this file and starts it with a socket that listens. Workers are the same file; they talk to the server over a socket pair.
A message is two lengths (4 and 8 bytes), a JSON object and a body.
"""
import collections
import hmac
import http.server
import importlib.util
import inspect
import json
import math
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback

LENGTHS = struct.Struct("!IQ")
REQUEST_SECONDS = 30  # seconds in which a client must send its request, and in which it must receive the answer
MORE_CONNECTIONS = 16  # connections beyond the running and waiting calls, for /healthz and for 503 answers
LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?")
END_SECONDS = 5  # seconds that a worker has to end after its channel was closed


def send(channel, head, body=b"", deadline=None):
    words = json.dumps(head).encode()
    channel.settimeout(None if deadline is None else max(0.001, deadline - time.monotonic()))  # `receive` may have set another timeout
    try:
        channel.sendall(LENGTHS.pack(len(words), len(body)) + words + body)
    except socket.timeout:
        raise TimeoutError from None


def receive(channel, deadline=None):
    """Reads the next message. Returns None if the other side has closed the channel. Raises TimeoutError after the deadline."""
    def exactly(count):
        parts = bytearray()
        while len(parts) < count:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            channel.settimeout(left)
            try:
                part = channel.recv(min(count - len(parts), 1 << 20))
            except socket.timeout:
                raise TimeoutError from None
            except OSError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)
    lengths = exactly(LENGTHS.size)
    if lengths is None:
        return None
    head, body = LENGTHS.unpack(lengths)
    words = exactly(head)
    data = exactly(body) if words is not None else None
    return None if data is None else (json.loads(words), data)


# The part that runs in worker processes: loads the function, and calls it for each message.


def loaded(path, name):
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function = getattr(module, name)
    if not callable(function):
        raise TypeError(f"{name} is not a function")
    return function


def input_of(kind, body):
    """The argument for the function: the value of a JSON document, text, or bytes. None without a body."""
    if not body:
        return None
    if kind == "application/json":
        return json.loads(body)
    return body.decode() if kind.startswith("text/") else body


def output_of(result):
    if isinstance(result, (bytes, bytearray, memoryview)):
        return "application/octet-stream", bytes(result)
    if isinstance(result, str):
        return "text/plain; charset=utf-8", result.encode()
    return "application/json", json.dumps(result).encode()


def work(descriptor, path, name):
    channel = socket.socket(fileno=descriptor)
    calls, arrived = collections.deque(), threading.Semaphore(0)

    def read():  # read in a separate thread, so that this process ends when its server ends, even if the function hangs
        while True:
            message = receive(channel)
            if message is None:
                os._exit(0)
            calls.append(message)
            arrived.release()

    try:
        function = loaded(path, name)
    except BaseException as problem:
        traceback.print_exc()
        send(channel, {"status": "not_loaded", "type": type(problem).__name__})
        return
    send(channel, {"status": "ready"})
    threading.Thread(target=read, daemon=True).start()
    while True:
        arrived.acquire()
        head, body = calls.popleft()
        try:
            value = input_of(head["kind"], body)
        except (ValueError, RecursionError, MemoryError):
            send(channel, {"status": "bad_input"})
            continue
        try:
            result = function(value)
            if inspect.iscoroutine(result):
                import asyncio
                result = asyncio.run(result)
            kind, data = output_of(result)
        except BaseException as problem:  # catch SystemExit too, because the worker must continue if the function calls exit()
            traceback.print_exc()
            send(channel, {"status": "raised", "type": type(problem).__name__})
            continue
        send(channel, {"status": "ok", "kind": kind}, data)


# The part that runs in the server process.


class Refusal(Exception):
    """Raised to answer a request with an error, because there is no result of the function."""

    def __init__(self, code, kind, retry=None):
        super().__init__(kind)
        self.code, self.kind, self.retry = code, kind, retry


class Worker:
    def __init__(self, config):
        self.channel, theirs = socket.socketpair()
        command = [config["berth"], "run", *config["request"], "--name", config["name"], "--report", "none", "--grace", "2s", "--",
                   sys.executable, os.path.abspath(sys.argv[0]), "work", str(theirs.fileno()), config["path"], config["function"]]
        with theirs:
            # The worker has its own session, so that Ctrl-C reaches only the server, which then ends the workers.
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, pass_fds=(theirs.fileno(), config["script"]),
                                            start_new_session=True)
        self.since = time.monotonic()

    def ended(self):
        """Whether an idle worker has ended, so that its end of the channel is closed."""
        ends = select.poll()  # select() fails for descriptors above 1023
        ends.register(self.channel, select.POLLIN)
        return bool(ends.poll(0))

    def end(self, now=False):
        try:
            self.channel.shutdown(socket.SHUT_RDWR)  # also wakes a thread of this process that is reading from the channel
        except OSError:
            pass
        self.channel.close()
        try:
            if not now:
                self.process.wait(END_SECONDS)
                return
        except subprocess.TimeoutExpired:
            pass
        self.process.kill()  # kills `berth run`, whose job ends with it
        self.process.wait()


class Pool:
    """The worker processes. A call takes an idle worker. If there is none, it waits until a worker becomes idle or has started."""

    def __init__(self, config):
        self.config = config
        self.changed = threading.Condition()
        self.idle, self.failures = [], []
        self.alive, self.starting = set(), set()  # `alive` contains all workers: idle, working, and starting
        self.calls = self.waiting = 0
        self.durations = collections.deque(maxlen=20)
        self.closing = False

    def busy(self):
        """Returns a 503 answer with the seconds after which a worker should be free, estimated from the duration of the last calls."""
        usual = sum(self.durations) / len(self.durations) if self.durations else 1
        return Refusal(503, "busy", max(1, min(60, math.ceil(usual * max(1, self.calls) / self.config["max"]))))

    def call(self, kind, body):
        with self.changed:
            if self.closing:
                raise Refusal(503, "ending", 5)
            if self.calls >= self.config["max"] + self.config["queue"]:
                raise self.busy()
            self.calls += 1
        try:
            return self.answer(self.take(time.monotonic() + self.config["timeout"]), kind, body)
        finally:
            with self.changed:
                self.calls -= 1

    def take(self, deadline):
        with self.changed:
            self.waiting += 1
            try:
                while True:
                    if self.closing:
                        raise Refusal(503, "ending", 5)
                    while self.idle:
                        worker = self.idle.pop()
                        if not worker.ended():
                            return worker
                        self.drop(worker)
                    if self.failures:
                        raise self.failures.pop()
                    if self.waiting > len(self.starting) and len(self.alive) < self.config["max"]:
                        self.begin()
                    if not self.changed.wait(deadline - time.monotonic()):
                        raise self.busy()
            finally:
                self.waiting -= 1
                if not self.waiting:
                    self.failures.clear()

    def begin(self):
        try:
            worker = Worker(self.config)
        except OSError as problem:
            sys.stderr.write(f"berth function: no worker can be started: {problem}\n")
            raise Refusal(503, "no_worker", 5) from None
        self.alive.add(worker)
        self.starting.add(worker)
        threading.Thread(target=self.started, args=(worker,), daemon=True).start()

    def started(self, worker):
        """Waits until the worker has its lease and has loaded the function, and then adds it to the idle workers."""
        try:
            message = receive(worker.channel)
        except ValueError:
            message = None
        with self.changed:
            self.starting.discard(worker)
            if message and message[0]["status"] == "ready" and not self.closing:
                worker.since = time.monotonic()
                self.idle.append(worker)
            else:
                self.drop(worker)
                if self.waiting and not self.closing:
                    self.failures.append(Refusal(500, message[0]["type"]) if message else Refusal(503, "no_worker", 5))
            self.changed.notify_all()

    def answer(self, worker, kind, body):
        begun = time.monotonic()
        healthy, message = False, None
        try:
            send(worker.channel, {"kind": kind}, body, begun + self.config["timeout"])
            message = receive(worker.channel, begun + self.config["timeout"])
            healthy = message is not None
        except TimeoutError:
            raise Refusal(504, "timeout") from None
        except (OSError, ValueError):
            pass
        finally:
            with self.changed:
                self.durations.append(time.monotonic() - begun)
                if healthy and not self.closing:
                    worker.since = time.monotonic()
                    self.idle.append(worker)
                else:
                    self.drop(worker)
                self.changed.notify_all()
        if message is None:
            raise Refusal(500, "worker_ended")
        head, data = message
        if head["status"] == "raised":
            raise Refusal(500, head["type"])
        if head["status"] == "bad_input":
            raise Refusal(400, "body")
        return head["kind"], data

    def drop(self, worker):
        """Ends a worker without waiting for its end. An idle worker ends because its channel is closed; a working one gets a signal. Its GPU becomes free when
        its job has ended."""
        self.alive.discard(worker)
        threading.Thread(target=worker.end, args=(worker not in self.idle,)).start()

    def reap(self):
        """Ends workers that have been idle for the time of `--idle`."""
        while True:
            with self.changed:
                if self.closing:
                    return
                now = time.monotonic()
                for worker in [one for one in self.idle if now - one.since >= self.config["idle"] or one.ended()]:
                    self.drop(worker)
                    self.idle.remove(worker)
            time.sleep(min(1.0, self.config["idle"] / 4))

    def close(self):
        with self.changed:
            self.closing = True
            for worker in [*self.idle, *self.alive.difference(self.idle)]:
                self.drop(worker)
            self.idle.clear()
            self.changed.notify_all()


def uid_of_peer(peer, own):
    """The uid of the process at the other end of a local connection, from /proc/net/tcp; None if not known."""
    def words(address):
        host = socket.inet_pton(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, address[0])
        swapped = b"".join(host[at:at + 4][::-1] if sys.byteorder == "little" else host[at:at + 4] for at in range(0, len(host), 4))
        return f"{swapped.hex().upper()}:{address[1]:04X}"
    try:
        with open("/proc/net/tcp6" if ":" in peer[0] else "/proc/net/tcp") as table:
            for line in table:
                row = line.split()
                # In this table, a socket that its process has closed has user 0. So count only established connections (state 01).
                if row[1:4] == [words(peer), words(own), "01"]:
                    return int(row[7])
    except (OSError, ValueError, IndexError):
        pass
    return None


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Handles HTTP requests. POST / calls the function. GET /healthz tells that the server runs, and needs no token. Each connection carries one request."""

    timeout = REQUEST_SECONDS  # seconds without data after which a connection is closed
    server_version, sys_version = "berth", ""

    def setup(self):
        super().setup()
        self.limit = threading.Timer(self.timeout, self.cut)
        self.limit.daemon = True
        self.limit.start()

    def finish(self):
        self.limit.cancel()
        super().finish()

    def cut(self):
        """Closes the connection if the whole request has not arrived within the limit, even if bytes still arrive."""
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def do_GET(self):
        self.answer(lambda: ("text/plain; charset=utf-8", b"ok\n") if self.path == "/healthz" else self.refuse(405 if self.path == "/" else 404))

    def do_POST(self):
        self.answer(self.called)

    def refuse(self, code, kind=None):
        raise Refusal(code, kind or self.responses[code][0].lower().replace(" ", "_"))

    def answer(self, make):
        begun, headers = time.monotonic(), {}
        try:
            kind, data = make()
            code = 200
        except Refusal as problem:
            code, kind = problem.code, "application/json"
            data = json.dumps({"error": {"type": problem.kind}}).encode()
            if problem.retry:
                headers["Retry-After"] = str(problem.retry)
        except (socket.timeout, ConnectionError):
            return
        headers.update({"Content-Type": kind, "Content-Length": str(len(data)), "X-Content-Type-Options": "nosniff"})
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        if self.path != "/healthz":
            sys.stderr.write(f"berth function: {self.command} {code} {time.monotonic() - begun:.3f} s\n")

    def log_message(self, *words):
        """Logs nothing. The base class would log the client's request line unescaped."""

    def allow(self):
        config = self.server.config
        if config["token"]:
            given = self.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode("latin-1", "replace"), b"Bearer " + config["token"].encode()):
                self.refuse(401)
            return
        # Without a token, accept only processes of this user or root, and reject requests from web pages (browsers send Origin).
        if uid_of_peer(self.client_address, self.connection.getsockname()) not in (0, os.getuid()) or "Origin" in self.headers:
            self.refuse(403)
        if not LOOPBACK.fullmatch(self.headers.get("Host", "localhost")):  # reject other host names that resolve to this address (DNS rebinding)
            self.refuse(403)

    def called(self):
        self.allow()
        if self.path != "/":
            self.refuse(404)
        length = self.headers.get("Content-Length", "")
        if not length or "Transfer-Encoding" in self.headers:
            self.refuse(411)
        if not (length.isascii() and length.isdigit() and len(length) < 19):
            self.refuse(400)
        if int(length) > self.server.config["body"]:
            self.refuse(413, "body_too_large")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.refuse(400)
        self.limit.cancel()
        return self.server.pool.call(self.headers.get_content_type() if "Content-Type" in self.headers else "application/json", body)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False  # so that server_close() waits for the running calls

    def __init__(self, config):
        listening = socket.socket(fileno=config["socket"])
        self.address_family = listening.family
        super().__init__(listening.getsockname(), Endpoint, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.config, self.pool = config, Pool(config)
        self.open = set()
        self.connections = threading.BoundedSemaphore(config["max"] + config["queue"] + MORE_CONNECTIONS)

    def process_request(self, request, client_address):
        if not self.connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address):
        self.open.add(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.open.discard(request)
            self.connections.release()

    def hang_up(self):
        """Accepts no more requests. Running calls still get their answers."""
        for request in list(self.open):
            try:
                request.shutdown(socket.SHUT_RD)
            except OSError:
                pass

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (OSError, socket.timeout)):
            traceback.print_exc()


def serve(config):
    if config["token"]:
        with open(config["token"]) as file:
            config["token"] = file.read().strip()
    os.set_inheritable(config["socket"], False)
    server = Server(config)
    signals = []

    def stop(number, frame):
        signals.append(number)
        if len(signals) > 1:
            server.pool.close()
            server.hang_up()
        else:
            threading.Thread(target=server.shutdown).start()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    threading.Thread(target=server.pool.reap, daemon=True).start()
    server.serve_forever(poll_interval=0.2)
    server.server_close()  # waits for calls that have already arrived; a second signal ends these calls
    server.pool.close()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(int(sys.argv[2]), sys.argv[3], sys.argv[4])
    else:
        serve(json.loads(sys.argv[2]))
