"""A lease for each worker of Dask, joblib and Ray, on a simulated machine. What is not installed is skipped.

usage: test_worker_leases.py BERTH LIBRARY
"""
import importlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from on_a_machine import OnAMachine, main, wait_until  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))


def needs(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)} not installed; ./dev test --frameworks gets them")


class Workers(OnAMachine):
    """Tests whose code is a file, because workers of a fork server import the main module again."""

    def script(self, code, **more):
        path = self.folder / "program.py"
        path.write_text(textwrap.dedent(code))
        done = subprocess.run([sys.executable, str(path)], env={**self.variables, **more}, capture_output=True, text=True, timeout=400,
                              stdin=subprocess.DEVNULL, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:] + done.stdout[-2000:])
        return json.loads(done.stdout.strip().splitlines()[-1])

    def running(self):
        return [number for number, state in self.states().items() if state == "running"]

    def assert_released(self):
        self.assertTrue(wait_until(lambda: not self.running()), self.states())


class OfAnyScheduler(Workers):
    """Tests with plain processes as workers, without a scheduler."""

    def worker(self, code="print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True); sys.stdin.read()", wishes="{'gpus': 1}", **more):
        begun = f"import os, sys\nfrom berth import worker_leases\nworker_leases.hold({wishes})\n{code}"
        process = subprocess.Popen([sys.executable, "-c", begun], env={**self.variables, **more}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)

        def clean():
            process.kill()
            process.communicate()
        self.addCleanup(clean)
        return process

    def test_each_process_sees_a_different_gpu_until_it_ends(self):
        workers = [self.worker() for _ in range(4)]
        self.assertEqual(sorted(one.stdout.readline().strip() for one in workers), ["0", "1", "2", "3"])
        fifth = self.worker(wishes="{'gpus': 1, 'wait': 0}")
        self.assertIn("E0412", fifth.communicate(timeout=60)[1])
        workers[2].kill()  # SIGKILL
        workers[2].communicate()
        self.assertTrue(wait_until(lambda: len(self.running()) == 3))
        self.assertEqual(len({self.worker().stdout.readline().strip()} & {"0", "1", "2", "3"}), 1, "the GPU of the killed worker")

    def test_a_worker_without_its_lease_sees_no_gpu(self):
        code = """
            from berth import worker_leases
            try: worker_leases.hold({"gpus": 5, "wait": 0})
            except berth.BerthError: print(repr(os.environ["CUDA_VISIBLE_DEVICES"]), "BERTH_JOB" in os.environ)
        """
        self.assertIn(self.prints(code), ("'' False\n", "'-1' False\n"))

    def test_workers_inside_a_job_are_refused(self):
        code = """
            from berth import worker_leases
            with berth.lease(gpus=2):
                try: worker_leases.hold({"gpus": 1})
                except berth.Refused as problem: print(problem.id)
        """
        self.assertEqual(self.prints(code), "E0997\n")

    def test_two_workers_in_one_process_are_refused(self):
        code = """
            from berth import worker_leases
            worker_leases.hold({"gpus": 1})
            try: worker_leases.hold({"gpus": 1})
            except berth.Refused as problem: print(problem.id)
            worker_leases.release()
            worker_leases.release()
            print(worker_leases.hold({"gpus": 1}).job)
        """
        self.assertEqual(self.prints(code), "E0573\n2\n")


class RayWithoutRay(unittest.TestCase):
    """Tests the decorator without Ray, which it does not import."""

    def setUp(self):
        import berth.ray
        self.ray = berth.ray
        self.calls = []
        fakes = mock.patch.multiple(berth.ray.worker_leases, hold=lambda wishes: self.calls.append(("hold", wishes)),
                                    release=lambda: self.calls.append(("release",)))
        fakes.start()
        self.addCleanup(fakes.stop)

    def test_a_function_has_the_lease_while_it_runs(self):
        @self.ray.leased(gpus=1)
        def double(x):
            self.calls.append(x)
            return 2 * x
        self.assertEqual(double(4), 8)
        self.assertEqual(self.calls, [("hold", {"name": "ray double", "gpus": 1}), 4, ("release",)])
        with self.assertRaises(TypeError):
            double("a", "b")
        self.assertEqual(self.calls[-1], ("release",))

    def test_an_actor_keeps_it_from_before_its_start(self):
        @self.ray.leased(memory="2GiB", name="mine")
        class Actor:
            def __init__(this, x):
                self.calls.append(x)
        self.assertEqual(Actor.__name__, "Actor")
        Actor(3)
        self.assertEqual(self.calls, [("hold", {"name": "mine", "memory": "2GiB"}), 3])

    def test_the_empty_list_of_ray_does_not_hide_the_gpus(self):
        @self.ray.leased()
        def seen():
            return os.environ.get("CUDA_VISIBLE_DEVICES")
        with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES=""):
            self.assertIsNone(seen())
            self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], "", "a later task without a lease sees no GPU")
        with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="2"):
            self.assertEqual(seen(), "2", "a GPU that Ray chose stays")

    def test_what_cannot_be_leased_is_named(self):
        import berth

        async def coroutine():
            pass

        def generator():
            yield 1
        for wrong in (coroutine, generator, 3):
            with self.assertRaises(berth.InvalidRequest) as raised:
                self.ray.leased()(wrong)
            self.assertEqual(raised.exception.id, "E0569")
        with self.assertRaises(berth.InvalidRequest):
            self.ray.leased(memory="many")
        with self.assertRaises(TypeError):
            self.ray.leased(gpu=1)


class DaskWithoutDask(unittest.TestCase):
    """Tests the plugin with fakes of the names that it imports from Dask and click."""

    def test_setup_takes_the_lease_and_teardown_ends_it(self):
        import asyncio
        plugin = types.ModuleType("plugin")
        plugin.WorkerPlugin = object
        click = types.ModuleType("click")
        click.command = lambda: lambda function: function
        click.option = lambda *words, **more: lambda function: function
        calls = []

        async def hold(wishes):
            calls.append(wishes)
        modules = {"click": click, "distributed": types.ModuleType("d"), "distributed.diagnostics": types.ModuleType("d"),
                   "distributed.diagnostics.plugin": plugin}
        import berth.worker_leases
        with mock.patch.dict(sys.modules, modules):
            module = importlib.import_module("berth.dask")
        with mock.patch.multiple(module.worker_leases, hold_async=hold, release=lambda: calls.append("released")):
            lease = module.WorkerLease(gpus=1)
            asyncio.run(lease.setup(types.SimpleNamespace(name="w0")))
            lease.teardown(None)
            asyncio.run(module.dask_setup(types.SimpleNamespace(name="w1"), gpus=2, memory=None, share=None))
            module.dask_teardown(None)
        self.assertEqual(calls, [{"gpus": 1, "name": "dask w0"}, "released",
                                 {"gpus": 2, "memory": None, "share": None, "name": "dask w1"}, "released"])
        with self.assertRaises(berth.InvalidRequest):
            module.WorkerLease(gpus=-1)


@needs("distributed")
class Dask(Workers):
    START = """
        import json, os, signal, sys
        from distributed import Client, LocalCluster
        import berth
        def seen():
            return [os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"]]
        if __name__ == "__main__":
            cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes={}, dashboard_address=None)
            client = Client(cluster)
    """

    def program(self, code, processes=True):
        return textwrap.dedent(self.START.format(processes)) + textwrap.indent(textwrap.dedent(code), "    ")

    def test_workers_see_different_gpus_also_after_a_kill(self):
        first, jobs, second, after = self.script(self.program("""
            client.register_plugin(berth.dask.WorkerLease(gpus=1))
            first = client.run(seen)
            jobs = sorted(one["name"] for one in json.loads(os.popen('"$BERTH_PROGRAM" jobs --json').read())["jobs"])
            killed = sorted(first)[0]
            os.kill(first[killed][0], signal.SIGKILL)
            while True:  # until the nanny has started another
                try:
                    second = client.run(lambda: [os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("BERTH_JOB")])
                    if len(second) == 2 and first[killed][0] not in [one[0] for one in second.values()] and all(one[2] for one in second.values()):
                        break
                except Exception: pass
            client.close()
            cluster.close()
            after = [one["state"] for one in json.loads(os.popen('"$BERTH_PROGRAM" jobs --json --all').read())["jobs"]]
            print(json.dumps([list(first.values()), jobs, list(second.values()), after]))
        """))
        self.assertEqual(len({gpu for _, gpu in first}), 2, first)
        self.assertEqual(len({one[1] for one in second}), 2, second)
        self.assertEqual(jobs, ["dask 0", "dask 1"])
        self.assert_released()
        self.assertEqual(len(self.states()), 3, after)

    def test_workers_that_are_threads_are_refused(self):
        (said,) = self.script(self.program("""
            try: client.register_plugin(berth.dask.WorkerLease(gpus=1))
            except berth.Refused as problem: print(json.dumps([problem.id]))
        """, processes=False))
        self.assertIn(said, ("E0573", "E0997"))
        self.assert_released()

    def test_the_preload_takes_it_before_the_worker_has_a_scheduler(self):
        seen, names = self.script("""
            import json, os, subprocess, sys
            from distributed import Client, Scheduler
            import asyncio
            async def main():
                async with Scheduler(port=0, host="127.0.0.1", dashboard=False) as scheduler:
                    worker = subprocess.Popen([sys.executable, "-m", "dask", "worker", scheduler.address, "--nworkers", "2", "--nthreads", "1", "--no-dashboard",
                                               "--preload", "berth.dask", "--memory", "2GiB"], stderr=subprocess.DEVNULL)
                    async with Client(scheduler.address, asynchronous=True) as client:
                        await client.wait_for_workers(2)
                        seen = await client.run(lambda: [os.environ["CUDA_VISIBLE_DEVICES"], os.environ["BERTH_JOB"]])
                        names = sorted(one["name"] for one in json.loads(os.popen('"$BERTH_PROGRAM" jobs --json').read())["jobs"])
                    worker.terminate()
                    worker.wait()
                    print(json.dumps([list(seen.values()), names]))
            asyncio.run(main())
        """)
        self.assertEqual(len({job for _, job in seen}), 2, seen)
        self.assertEqual(len(names), 2, names)
        self.assertTrue(all(one.startswith("dask ") for one in names), names)
        self.assert_released()


@needs("joblib")
class Joblib(Workers):
    START = """
        import json, os, signal, sys, time
        import joblib, berth
        def seen(folder=None, others=0):
            if folder:  # waits until as many workers are here
                open(os.path.join(folder, str(os.getpid())), "w").close()
                while len(os.listdir(folder)) < others: time.sleep(0.01)
            return [os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES")]
        def running():
            return sorted(one["id"] for one in json.loads(os.popen('"$BERTH_PROGRAM" jobs --json').read())["jobs"] if one["state"] == "running")
        if __name__ == "__main__":
    """

    def program(self, code):
        return textwrap.dedent(self.START) + textwrap.indent(textwrap.dedent(code), "    ")

    def test_workers_see_different_gpus_until_the_block_ends(self):
        place = self.folder / "here"
        place.mkdir()
        seen, again, during, after = self.script(self.program(f"""
            with berth.joblib.leases(gpus=1):
                seen = joblib.Parallel(n_jobs=2)(joblib.delayed(seen)({str(place)!r}, 2) for _ in range(2))
                again = joblib.Parallel(n_jobs=2)(joblib.delayed(os.getpid)() for _ in range(8))
                during = running()
            print(json.dumps([seen, again, during, running()]))
        """))
        self.assertEqual(len({gpu for _, gpu in seen}), 2, seen)
        self.assertLessEqual(set(again), {pid for pid, _ in seen}, "the same workers go on, with the same leases")
        self.assertEqual((len(during), after), (2, []))

    def test_more_workers_than_gpus_do_all_tasks_and_end(self):
        gpus, after = self.script(self.program("""
            with berth.joblib.leases(gpus=2, report=False):
                gpus = joblib.Parallel(n_jobs=3, batch_size=1)(joblib.delayed(seen)() for _ in range(12))
            print(json.dumps([[gpu for _, gpu in gpus], running()]))
        """))
        self.assertLessEqual(set(gpus), {"0,1", "2,3"}, gpus)
        self.assertEqual(after, [])

    def test_one_worker_is_this_process(self):
        here, seen, after = self.script(self.program("""
            with berth.joblib.leases(gpus=1):
                found = joblib.Parallel(n_jobs=1)([joblib.delayed(seen)()])
            print(json.dumps([os.getpid(), found[0], [os.environ.get("CUDA_VISIBLE_DEVICES"), running()]]))
        """))
        self.assertEqual(seen[0], here)
        self.assertIn(seen[1], ("0", "1", "2", "3"))
        self.assertEqual(after, [None, []])

    def test_a_killed_worker_frees_its_gpu(self):
        failed, after = self.script(self.program("""
            failed = ""
            try:
                with berth.joblib.leases(gpus=1):
                    joblib.Parallel(n_jobs=2)(joblib.delayed(seen)() for _ in range(2))
                    joblib.Parallel(n_jobs=2)(joblib.delayed(exec)("import os, signal; os.kill(os.getpid(), signal.SIGKILL)") for _ in range(2))
            except Exception as problem: failed = type(problem).__name__
            for _ in range(2000):
                if not running(): break
                time.sleep(0.01)
            print(json.dumps([failed, running()]))
        """))
        self.assertEqual((failed, after), ("TerminatedWorkerError", []))


@needs("ray")
class Ray(Workers):
    def test_actors_and_tasks_see_different_gpus_until_they_end(self):
        actors, task, after_kill, third, end = self.script("""
            import json, os, signal, time
            import ray, berth, berth.ray
            @ray.remote(num_gpus=0, num_cpus=0)
            @berth.ray.leased(gpus=1)
            class Actor:
                def __init__(self, word): self.word = word
                def seen(self): return [os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"], self.word]
            @ray.remote(num_gpus=0, num_cpus=0, max_calls=1)
            @berth.ray.leased(gpus=1)
            def task(x): return [x, os.environ["CUDA_VISIBLE_DEVICES"]]
            def jobs(): return [one for one in json.loads(os.popen('"$BERTH_PROGRAM" jobs --json').read())["jobs"] if one["state"] == "running"]
            def until(count):
                for _ in range(3000):
                    if len(jobs()) == count: break
                    time.sleep(0.01)
                return len(jobs())
            ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, object_store_memory=80 * 2**20, log_to_driver=False)
            both = [Actor.remote("a"), Actor.remote(word="b")]
            seen = ray.get([one.seen.remote() for one in both])
            done = ray.get(task.remote(7))
            until(2)
            os.kill(seen[0][0], signal.SIGKILL)
            after_kill = until(1)
            third = ray.get(Actor.remote("c").seen.remote())
            del both
            ray.shutdown()
            print(json.dumps([seen, done, after_kill, third, until(0)]))
        """)
        self.assertEqual([one[2] for one in actors], ["a", "b"])
        self.assertEqual(len({one[1] for one in actors}), 2)
        self.assertEqual(task[0], 7)
        self.assertNotIn(task[1], [one[1] for one in actors])
        self.assertEqual((after_kill, end), (1, 0))
        self.assertNotEqual(third[1], actors[1][1])


if __name__ == "__main__":
    main()
