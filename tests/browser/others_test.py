#!/usr/bin/env python3
"""The page of root's broker, as two users see it: the data of one of them is absent for the other. Needs root and mounts of its own.

usage: others_test.py BERTH PAGE      (PAGE: others_page.mjs beside node_modules)"""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "broker"))
from machine import switch_off, switch_on, wait_until  # noqa: E402
from machine_of_all import MachineOfAll, enter, without_folders  # noqa: E402

SECRET = "salmon"  # it is in the name, command, output and programs of one user
# A browser cannot open a socket of the file system. Who forwards a port to it (`ssh -L`) is the caller whom the broker sees.
RELAY = """
import asyncio
async def pump(source, sink):
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()
async def serve(reader, writer):
    there, back = await asyncio.open_unix_connection("/run/berth/berth.sock")
    await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


class Others(MachineOfAll):
    machine = "lab-4x3090"

    def restart_with_process_of(self, person):
        """A process of this user is on GPU 3 of the simulated machine."""
        self.stop()
        switch_off(self.root_machine)
        process = subprocess.Popen([*person.as_them, person.home / f"program-{SECRET}", "600"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.root_machine, self.variables = switch_on(self.berth, self.machine, "--attach", f"{process.pid}:3:1GiB")
        self.addCleanup(switch_off, self.root_machine)
        self.of_the_system = without_folders(self.variables)
        self.serve()

    def seen_by(self, person):
        """What the pages show to this user, and what the broker has sent to them."""
        relay = subprocess.Popen([*person.as_them, sys.executable, "-c", RELAY], stdout=subprocess.PIPE, text=True)
        try:
            done = subprocess.run(["node", PAGE, f"http://127.0.0.1:{int(relay.stdout.readline())}/"], capture_output=True, text=True, timeout=300)
        finally:
            relay.kill()
            relay.wait()
            relay.stdout.close()
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_the_jobs_output_commands_and_history_of_another_user_are_absent(self):
        alice, bob = self.person("alice"), self.person("bob")
        program = alice.home / f"program-{SECRET}"
        program.write_bytes(pathlib.Path("/bin/sleep").resolve().read_bytes())
        program.chmod(0o755)
        self.restart_with_process_of(alice)
        done = alice("run", "--queue", "--gpus", "1", "--name", f"name-{SECRET}", "--", "sh", "-c", f"echo output-{SECRET}; exec sleep 600")
        self.assertEqual(done.returncode, 0, done.stderr)

        def is_recorded():
            usage = subprocess.run([self.berth, "usage", "--by", "command", "--json"], env=self.of_the_system, capture_output=True, text=True)
            return SECRET in usage.stdout and SECRET in alice("logs", "1").stdout
        self.assertTrue(wait_until(is_recorded, 90))
        own, others = self.seen_by(alice), self.seen_by(bob)
        # The owner sees each of them, so that the rest of the test can fail.
        for page, word in (("jobs", f"name-{SECRET}"), ("job/1", f"output-{SECRET}"), ("machine", f"program-{SECRET}"), ("by command", f"program-{SECRET}")):
            self.assertIn(word, own["pages"][page], page)
        for page, text in others["pages"].items():
            self.assertNotIn(SECRET, text, page)
        for path, body in others["bodies"]:
            self.assertNotIn(SECRET, body, path)
        self.assertNotIn(SECRET, others["state"])
        # What others may see is there: that there is a job, and who holds the GPU.
        self.assertIn("alice", others["pages"]["jobs"])
        self.assertIn("alice", others["pages"]["machine"])
        self.assertIn("alice", others["pages"]["users"])
        refused = {path: status for path, status in others["statuses"] if "/v1/jobs/1/" in path}
        self.assertTrue(refused)
        self.assertEqual(set(refused.values()), {403}, refused)


if __name__ == "__main__":
    enter()
    PAGE = str(pathlib.Path(sys.argv.pop(2)).resolve())
    Others.berth = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
