"""Tests the package on simulated machines, without any framework.

usage: test_berth.py BERTH LIBRARY
"""
import ast
import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from on_a_machine import OnAMachine, main, wait_until  # noqa: E402

import berth  # noqa: E402


class OneGpu(OnAMachine):
    machine = "workstation-4090"

    def test_the_examples_are_true(self):
        for name in ("machine", "leases", "sizes", "oom", "retrying", "batches", "accumulating", "sampling"):
            code = f"""
                import doctest, importlib
                found = doctest.testmod(importlib.import_module('berth.{name}'), optionflags=0)
                print(found.failed, found.attempted > 0)
                """
            self.assertEqual(self.prints(code), "0 True\n", name)

    def test_devices_are_those_of_berth_ls(self):
        said = self.prints("import json; print(json.dumps([dict(one.data) for one in berth.devices()]))")
        shown = json.loads(self.run_berth("ls", "--json").stdout)["devices"]
        self.assertEqual([one["uuid"] for one in json.loads(said)], [one["uuid"] for one in shown])
        self.assertIn("NVIDIA GeForce RTX 4090", self.prints("print(berth.snapshot())"))
        self.assertIn("<td style='text-align:left'>NVIDIA GeForce RTX 4090</td>", self.prints("print(berth.devices()._repr_html_())"))

    def test_a_lease_sets_what_berth_run_sets_and_puts_it_back(self):
        code = """
            before = dict(os.environ)
            with berth.lease(gpus=1, name='mine') as lease:
                print(lease.job, os.environ['CUDA_VISIBLE_DEVICES'], os.environ['BERTH_JOB'], lease.devices[0]['name'])
            print(os.environ == before)
            """
        self.assertEqual(self.prints(code), "1 0 1 NVIDIA GeForce RTX 4090\nTrue\n")
        self.assertEqual(self.states(), {1: "done"})
        self.prints("with berth.lease(gpus=0) as lease: print(lease.devices == [], os.environ['CUDA_VISIBLE_DEVICES'] == '-1')")

    def test_what_is_refused_says_why_and_leaves_nothing(self):
        code = """
            for wish in ({'gpus': 9}, {'gpus': -1}, {'gpus': True}, {'memory': '8'}, {'memory': 0}, {'memory': '1GiB', 'share': '300%'},
                         {'share': 0.5}, {'devices': ['7']}, {'cpus': 0}):
                try:
                    with berth.lease(**wish): print('no')
                except berth.BerthError as problem:
                    print(type(problem).__name__, problem.id)
            """
        self.assertEqual(self.prints(code).split("\n")[:-1], ["NoDevice E0411", "InvalidRequest E0104", "InvalidRequest E0104", "InvalidRequest E0101",
                         "InvalidRequest E0011", "InvalidRequest E0102", "InvalidRequest E0013", "NotFound E0413", "InvalidRequest E0104"])

    def test_what_takes_long_to_load_is_left_out(self):
        code = """
            with berth.lease(gpus=1): pass
            berth.retry(print); berth.run(['true'], gpus=0); berth.env(gpus=1)
            print(sorted({'asyncio', 'berth.chinese', 'unicodedata'} & set(sys.modules)))
            """
        self.assertEqual(self.prints(code), "[]\n")

    def test_wishes_that_make_no_sense_are_named(self):
        code = """
            import decimal, math
            for wish in ({'gpus': '1'}, {'gpus': '8GiB'}, {'gpus': 1.5}, {'memory': 8}, {'memory': '8gb'}, {'memory': True}, {'memory': math.nan}, {'memory': -1},
                         {'memory': '0GiB'}, {'memory': '1GiB', 'share': 0}, {'memory': '1GiB', 'share': 30}, {'memory': '1GiB', 'share': True},
                         {'gpus': 0, 'memory': '1GiB'}, {'gpus': 0, 'devices': [0]}, {'gpus': 0, 'share': 0.5}, {'devices': []}, {'devices': [None]}, {'devices': 1.5},
                         {'devices': 'cuda:0'}, {'devices': 'no-such'}, {'cpus': 10**6}, {'name': 5}, {'wait': -1}, {'wait': '5'}, {'wait': math.nan}, {'wait': True}):
                try:
                    with berth.lease(**wish): print('no', wish)
                except (ValueError, LookupError, berth.BerthError) as problem:
                    print(type(problem).__name__, problem.id, bool(problem.hint))
            """
        said = self.prints(code).split("\n")[:-1]
        wrong = ["E0104 False", "E0104 True", "E0104 False", *["E0101 True"] * 4, *["E0011 True"] * 2, *["E0102 True"] * 3, *["E0010 True"] * 3, *["E0415 True"] * 4]
        self.assertEqual(said[:19], ["InvalidRequest " + one for one in wrong])
        self.assertEqual(said[19:], ["NotFound E0413 True", "InvalidRequest E0104 False", "InvalidRequest E0104 True", *["InvalidRequest E0104 False"] * 4])
        self.assertEqual(self.states(), {})

    def test_wishes_that_are_too_large_or_no_text_are_named_alike_by_leases_and_runs(self):
        code = """
            for wish in ({'gpus': 10**30}, {'gpus': 1025}, {'cpus': 10**30}, {'memory': '99999999999999TiB'}, {'memory': 2**63}, {'memory': 1e300},
                         {'memory': '9' * 400 + 'B'}, {'name': chr(0xd800)}, {'name': 'a' + chr(0)}, {'devices': chr(0xd800)}, {'devices': ['0' + chr(0)]}):
                said = []
                for call in (lambda: berth.lease(**wish).__enter__(), lambda: berth.run(['true'], **wish)):
                    try: call()
                    except berth.InvalidRequest as problem: said.append(str(problem))
                print(len(said) == 2 and said[0] == said[1] and list(wish)[0] in said[0])
            with berth.lease(gpus=0, name='caf' + chr(0xdce9)): pass  # such a name comes from bytes that are not UTF-8
            """
        self.assertEqual(self.prints(code), "True\n" * 11)

    def test_wishes_as_people_write_them(self):
        code = """
            import math
            class Whole:  # as NumPy's
                def __init__(self, value): self.value = value
                def __index__(self): return self.value
            for wish in ({'gpus': Whole(1)}, {'devices': 0}, {'devices': '0'}, {'devices': ['0']}, {'devices': (Whole(0),)}, {'memory': 2e9},
                         {'memory': '2GB'}, {'memory': '2 GiB', 'share': '30%'}, {'gpus': 1, 'wait': math.inf}, {'gpus': 1, 'wait': 5}):
                with berth.lease(**wish) as lease: print(len(lease.devices), end=' ')
            """
        self.assertEqual(self.prints(code), "1 " * 10)

    def test_messages_are_chinese_where_the_program_is(self):
        code = """
            def said(call):
                try: call()
                except berth.BerthError as problem: return str(problem)
            print(said(lambda: berth.lease(gpus=-1)), said(lambda: berth.lease(memory='8')), said(lambda: berth.lease(gpus=9).__enter__()))
            print(berth.devices())
            print(said(lambda: berth.run(['true'], gpus=9, capture=True)))
            """
        for variables in ({"LC_ALL": "zh_CN.UTF-8"}, {"LC_ALL": "", "LC_MESSAGES": "zh_TW.utf8", "LANG": "C"}, {"LC_ALL": "", "LC_MESSAGES": "", "LANG": "zh_CN"}):
            shown = self.prints(code, PYTHONIOENCODING="utf-8", **variables)
            for word in ("gpus：-1 不是 0 到 1024 之间的整数 (E0104)", "memory：'8' 不是大小 (E0101)\n提示：请写成数字加单位", "设备  名称"):
                self.assertIn(word, shown)
            self.assertEqual(shown.count("(E0411)"), 2)
            self.assertNotIn("hint", shown)
        for variables in ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN.UTF-8"}, {"LC_ALL": "zh_CN.GBK"}):
            self.assertIn("hint: ", self.prints(code, PYTHONIOENCODING="utf-8", **variables))

    def test_leases_inside_leases_and_jobs_are_the_outer_ones(self):
        code = """
            with berth.lease(gpus=1) as outer:
                with berth.lease(gpus=1) as inner:
                    print(inner.job == outer.job, os.environ['CUDA_VISIBLE_DEVICES'])
                print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['BERTH_JOB'] == str(outer.job))
                try:
                    with berth.lease(gpus=2): pass
                except berth.Refused as problem:
                    print(problem.id, problem.hint)
                try: berth.run(['true'], gpus=2, capture=True)
                except berth.Refused as problem: print(problem.hint)
                try:
                    with outer: pass
                except berth.InvalidRequest:
                    print('in use')
            """
        hint = "request more when the job starts: berth.lease(gpus=2)"
        self.assertEqual(self.prints(code), f"True 0\n0 True\nE0421 {hint}\n{hint}\nin use\n")
        # The outer job was started from a shell, so the hint is a shell command.
        inside = "import berth\ntry: berth.lease(gpus=2).__enter__()\nexcept berth.Refused as problem: print(problem.hint)"
        done = self.run_berth("run", "--gpus", "1", "--report", "none", "--", sys.executable, "-c", inside)
        self.assertEqual(done.stdout, "request more when the job starts: berth lease --gpus 2\n", done.stderr)

    def test_a_framework_that_is_not_there_is_named(self):
        code = """
            sys.modules['torch'] = sys.modules['cupy'] = None
            for gpus, framework in ((1, 'torch'), (1, 'cupy'), (0, 'cupy')):
                with berth.lease(gpus=gpus) as lease:
                    try:
                        lease.device(framework)
                    except berth.BerthError as problem:
                        print(problem.id)
            """
        self.assertEqual(self.prints(code), "E0568\nE0568\nE0551\n")

    def test_a_framework_that_does_not_see_the_leases_gpu_is_warned_of(self):
        code = """
            import types, warnings
            torch = types.ModuleType('torch'); sys.modules['torch'] = torch
            torch.cuda = types.SimpleNamespace(is_available=lambda: False, is_initialized=lambda: False)
            torch.device = str
            warnings.simplefilter('always')
            for gpus in (1, 0):
                with berth.lease(gpus=gpus) as lease, warnings.catch_warnings(record=True) as said:
                    print(lease.device('torch'), [(one.filename, 'PyTorch sees none' in str(one.message)) for one in said])
            """
        self.assertEqual(self.prints(code), "cpu [('<string>', True)]\ncpu []\n")

    def test_hints_are_in_the_words_of_the_call(self):
        code = """
            for call in (lambda: berth.lease(gpus=5).__enter__(), lambda: berth.lease(memory='8GiB', gpus=2).__enter__(),
                         lambda: berth.lease(share=0.5).__enter__(), lambda: berth.run(['true'], gpus=9)):
                try: call()
                except berth.BerthError as problem: print(problem.hint.split('\\n'))
            try: berth.doctor('/nowhere/train.py')
            except berth.NotFound as problem: print(problem)
            """
        done = self.python(code)
        self.assertEqual(done.stdout, "['berth.lease(gpus=1)']\n" * 2 +
                         "[\"berth.lease(memory='8GiB', share='30%')\"]\n['berth.run([…], gpus=1)']\n"
                         "/nowhere/train.py: there is no such file (E0110)\n", done.stderr)

    def test_leases_that_overlap_are_refused_or_put_back_in_any_order(self):
        code = """
            import asyncio, threading
            before = dict(os.environ)
            first, second = berth.lease(gpus=1), berth.lease(gpus=1)
            first.__enter__(); second.__enter__(); first.__exit__(None, None, None)
            print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['BERTH_JOB'] == str(second.job))
            second.__exit__(None, None, None)
            print(os.environ == before)
            def other():
                try:
                    with berth.lease(gpus=1): pass
                except berth.Refused as problem:
                    print(problem.id)
            with berth.lease(gpus=1):
                thread = threading.Thread(target=other); thread.start(); thread.join()
                try:
                    with berth.lease(devices=['7']): pass
                except berth.BerthError as problem:
                    print(type(problem).__name__)
            async def task():
                async with berth.lease(gpus=1): await asyncio.sleep(0.1)
            async def all_of_them():
                return await asyncio.gather(*(task() for _ in range(3)), return_exceptions=True)
            print([getattr(one, 'id', None) for one in asyncio.run(all_of_them())], os.environ == before)
            with berth.lease(gpus=1): pass
            """
        said = self.prints(code).split("\n")
        self.assertEqual(said[:3] + said[4:5], ["0 True", "True", "E0573", "[None, 'E0573', 'E0573'] True"], said)
        self.assertIn(said[3], ("Refused", "NotFound"))
        self.assertEqual(set(self.states().values()), {"done"})

    def test_who_does_not_get_it_in_time_is_told_who_has_it(self):
        holder = self.start("run", "--gpus", "1", "--", "sh", "-c", "echo has it; read line")
        holder.stdout.readline()
        code = """
            try:
                with berth.lease(gpus=1, wait=0.3): pass
            except berth.Refused as problem:
                print(problem.id, 'job 1' in str(problem))
            """
        self.assertEqual(self.prints(code), "E0412 True\n")
        done = self.python("with berth.lease(gpus=1, wait=2): pass")
        self.assertIn("berth: waiting: 0 of 1 GPUs are free", done.stderr)
        # If a lease was never granted, `berth jobs` does not show it.
        self.assertEqual([state for job, state in self.states().items() if job != 1], [])

    def test_who_does_not_wait_is_told_what_the_command_says(self):
        holder = self.start("run", "--gpus", "1", "--", "sh", "-c", "echo has it; read line")
        holder.stdout.readline()
        for wish, options in (({}, []), ({"gpus": 1}, ["--gpus", "1"]), ({"memory": "20GiB"}, ["--memory", "20GiB"]), ({"devices": 0}, ["--devices", "0"])):
            code = f"""
                try: berth.lease(wait=0, **{wish!r}).__enter__()
                except berth.Refused as problem: print(problem.args[0], f"({{problem.id}})"); print(problem.hint, file=sys.stderr)
                """
            said = self.python(code)
            command = self.run_berth("run", "--no-wait", *options, "--", "true")
            answer, _, rest = command.stderr.replace(" (E0412)", "").removeprefix("error: ").partition("\n\n")
            self.assertEqual((command.returncode, answer), (6, said.stdout.replace(" (E0412)", "").rstrip("\n")), said.stderr)
            self.assertIn("job 1", answer)
            self.assertNotIn("berth run", said.stderr)
            self.assertIn("hint: ", rest)

    def test_ctrl_c_while_it_waits_leaves_no_lease(self):
        holder = self.start("run", "--gpus", "1", "--", "sh", "-c", "echo has it; read line")
        holder.stdout.readline()
        waiter = subprocess.Popen([sys.executable, "-c", "import berth\nwith berth.lease(gpus=1): pass"], env=self.variables,
                                  stderr=subprocess.PIPE, text=True)
        self.assertTrue(wait_until(lambda: self.states().get(2) == "waiting"))
        waiter.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", waiter.communicate(timeout=20)[1])
        self.assertTrue(wait_until(lambda: 2 not in self.states()))

    def test_a_forked_child_does_not_give_back_what_is_its_parents(self):
        code = """
            with berth.lease(gpus=1) as lease:
                if os.fork() == 0:
                    raise SystemExit(0)  # leaves the block, in the child
                os.wait()
                import json, subprocess
                jobs = json.loads(subprocess.run([os.environ['BERTH_PROGRAM'], 'jobs', '--json'], capture_output=True).stdout)['jobs']
                print([one['state'] for one in jobs], os.environ['CUDA_VISIBLE_DEVICES'])
            """
        self.assertEqual(self.prints(code), "['running'] 0\n")

    def test_a_child_that_leaves_the_block_takes_no_answer_from_its_parent(self):
        code = """
            for turn in range(5):  # the broker's answer comes after the parent waits for it, or before
                with berth.lease(gpus=1) as lease:
                    if os.fork() == 0:
                        lease._end(0)
                        os._exit(0)
                    os.wait()
            print('all ended')
            """
        self.assertEqual(self.prints(code), "all ended\n")

    def test_a_process_that_dies_gives_its_lease_back(self):
        self.assertEqual(self.python("lease = berth.lease(gpus=1).__enter__(); os.kill(os.getpid(), 9)").returncode, -9)
        self.assertTrue(wait_until(lambda: self.states() == {1: "lost"}))

    def test_a_framework_that_was_there_first_is_too_early(self):
        fake = """
            import types
            torch = types.ModuleType('torch'); torch.cuda = types.SimpleNamespace(is_initialized=lambda: True); sys.modules['torch'] = torch
            for use in (lambda: berth.lease(gpus=1).__enter__(), berth.disable_gpu):
                try:
                    use()
                except berth.TooLate as problem:
                    print('PyTorch' in str(problem), problem.id, bool(problem.hint))
            """
        self.assertEqual(self.prints(fake), "True E0572 True\nTrue E0572 True\n")

    def driver(self, soname, question):
        """Builds a fake driver library. Like those of CUDA and Level Zero, it reports an error until it is initialised, and then one device."""
        if shutil.which("cc") is None:
            self.skipTest("no C compiler is here")
        path = self.folder / soname
        source = f"static int begun; int begin(void) {{ return !(begun = 1); }} int {question}(unsigned *count) {{ *count = begun; return begun ? 0 : 3; }}"
        subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-xc", "-", "-o", path], input=source, text=True, check=True)
        return f"import ctypes; driver = ctypes.CDLL({str(path)!r})\n"

    def test_a_driver_that_somebody_has_called_is_too_early_and_one_that_is_only_loaded_is_not(self):
        code = """
def tried():
    for use in (lambda: berth.lease(gpus=1).__enter__().__exit__(None, None, None), berth.disable_gpu, lambda: berth.lease(gpus=0).__enter__()):
        try:
            use(); print('done')
        except berth.TooLate as problem:
            print(problem.args[0].split(' has ')[0], problem.id)
tried(); os.environ.pop('BERTH_JOB'); driver.begin(); os.environ['CUDA_VISIBLE_DEVICES'] = 'GPU-0'; tried()
"""
        for name, soname, question in (("CUDA", "libcuda.so.1", "cuDeviceGetCount"), ("Level Zero", "libze_loader.so.1", "zeDriverGet")):
            self.assertEqual(self.prints(self.driver(soname, question) + code), f"done\ndone\ndone\n{name} E0572\n{name} E0572\ndone\n")

    def test_who_has_all_gpus_may_have_looked_at_them(self):
        code = """driver.begin()
with berth.lease(gpus=1): print(os.environ['CUDA_VISIBLE_DEVICES'])
"""
        self.assertEqual(self.prints(self.driver("libcuda.so.1", "cuDeviceGetCount") + code), "0\n")

    def test_a_driver_that_has_opened_its_device_is_too_early(self):
        code = """
import unittest.mock
for target in ('/dev/nvidia0', '/dev/kfd', '/dev/dri/renderD128', '/dev/null'):
    with unittest.mock.patch.object(os, 'readlink', return_value=target):
        try: berth.disable_gpu(); print('done')
        except berth.TooLate as problem: print(problem.args[0].split(' has ')[0])
"""
        for soname, said in (("libhsa-runtime64.so.1", "done\nROCm\ndone\ndone\n"), ("libnvidia-opencl.so.1", "OpenCL\ndone\ndone\ndone\n"),
                             ("libigdrcl.so", "done\ndone\nOpenCL\ndone\n")):
            self.assertEqual(self.prints(self.driver(soname, "unused") + code), said)

    def test_frameworks_that_see_their_devices_already_are_named(self):
        code = """
            import types
            def late(name, module):
                sys.modules[name] = module
                try: berth.disable_gpu(); print('done')
                except berth.TooLate as problem: print(problem.args[0].split(' has ')[0])
                del sys.modules[name]
            for seen in (False, True):
                late('torch', types.SimpleNamespace(xpu=types.SimpleNamespace(is_initialized=lambda: seen)))
                late('numba.cuda.cudadrv.driver', types.SimpleNamespace(driver=types.SimpleNamespace(is_initialized=seen)))
            """
        self.assertEqual(self.prints(code), "done\ndone\nPyTorch\nNumba\n")

    def test_what_sees_the_devices_of_its_job_may_have_them_by_a_lease_too(self):
        code = self.driver("libcuda.so.1", "cuDeviceGetCount") + """
with berth.lease(gpus=1) as outer:
    driver.begin()
    with berth.lease(gpus=1) as inner: print(inner.job == outer.job, os.environ['CUDA_VISIBLE_DEVICES'])
    del os.environ['CUDA_VISIBLE_DEVICES']
    try:
        with berth.lease(gpus=1): print('no')
    except berth.TooLate as problem:
        print(problem.id, os.environ.get('CUDA_VISIBLE_DEVICES'))
"""
        self.assertEqual(self.prints(code), "True 0\nE0572 None\n")

    def test_gpus_can_be_hidden(self):
        names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ONEAPI_DEVICE_SELECTOR", "JAX_PLATFORMS", "PJRT_DEVICE")
        self.assertEqual(self.prints(f"berth.disable_gpu(); print(*(os.environ[one] for one in {names}))"), "-1 -1 -1 *:cpu cpu CPU\n")

    def test_the_environment_is_that_of_berth_env(self):
        said = json.loads(self.run_berth("env", "--gpus", "1", "--json").stdout)["settings"]
        expected = {one["name"]: one["value"] for one in said if one["action"] != "keep"}
        self.assertEqual(json.loads(self.prints("import json; print(json.dumps(berth.env(gpus=1)))")), expected)

    def test_the_doctor_examines_this_interpreter(self):
        code = "found = berth.doctor(static=True); print(found.data['schema'], isinstance(found.ok, bool), isinstance(found.verdict, str))"
        self.assertEqual(self.prints(code), "1 True True\n")


class Installed(OnAMachine):
    """Messages of an installation that is incomplete, or that is not loaded in the usual way."""
    machine = "workstation-4090"

    def test_a_library_or_a_program_that_cannot_be_used_is_named(self):
        tell = """
            for use in (berth.devices, lambda: berth.run(['true'], capture=True)):
                try: use(); print('done')
                except berth.BrokerUnavailable as problem: print(problem.id, problem.hint, problem.args[0])
            """
        for variables, words in (({"BERTH_LIBRARY": "/no/such"}, ("E0550 unset BERTH_LIBRARY", "/no/such")), ({"BERTH_LIBRARY": "libc.so.6"}, ("berth_abi",)),
                                 ({"BERTH_LIBRARY": __file__}, ("invalid ELF header", )), ({"BERTH_PROGRAM": "/no/such"}, ("E0550 unset BERTH_PROGRAM", "/no/such")),
                                 ({"BERTH_PROGRAM": "/tmp"}, ("E0550 unset BERTH_PROGRAM", "/tmp"))):
            said = self.prints(tell, **variables)
            for word in words:
                self.assertIn(word, said)

    def test_the_package_can_be_called(self):
        call = [sys.executable, "-m", "berth"]
        done = subprocess.run([*call, "ls", "--json"], env=self.variables, capture_output=True, text=True)
        self.assertEqual((done.returncode, json.loads(done.stdout)["devices"][0]["name"]), (0, "NVIDIA GeForce RTX 4090"))
        self.assertEqual(subprocess.run([*call, "no-such"], env=self.variables, capture_output=True).returncode, 2)
        done = subprocess.run(call, env={**self.variables, "BERTH_PROGRAM": "/no/such"}, capture_output=True, text=True)
        self.assertEqual((done.returncode, "Traceback" in done.stderr, "E0550" in done.stderr), (1, False, True))

    def test_a_lease_that_has_ended_says_so(self):
        self.assertEqual(self.prints("with berth.lease(gpus=1) as lease: print('ended' in repr(lease))\nprint('ended' in repr(lease))"), "False\nTrue\n")


class Errors(unittest.TestCase):
    def test_lines_of_a_hint_stand_under_each_other(self):
        problem = berth.Refused("no room", "E0412", "one\ntwo")
        self.assertEqual(str(problem), "no room (E0412)\nhint: one\n      two")
        self.assertEqual(problem.hint, "one\ntwo")


class Speed(unittest.TestCase):
    """Properties that keep `import berth` fast. Times are not checked; benchmarks/ measures them."""

    def test_type_checkers_see_every_name(self):
        tree = ast.parse(pathlib.Path(berth.__file__).read_text())
        block = next(node for node in tree.body if isinstance(node, ast.If))
        seen = {(node.module, one.name) for node in block.body for one in node.names}
        self.assertEqual(seen - {(None, name) for name in berth._MODULES}, {(module, name) for module, names in berth._WHERE.items() for name in names})

    def test_names_are_looked_up_once(self):
        self.assertIs(berth.is_oom, importlib.import_module("berth.oom").is_oom)
        self.assertEqual([one for one in dir(berth) if not one.startswith("__")], sorted([*berth.__all__, *berth._MODULES]))
        with self.assertRaises(AttributeError):
            berth.nothing


if __name__ == "__main__":
    main()
