"""Commands, leases in an event loop, and notebooks, on a simulated machine. Uses IPython if it is installed.

usage: test_running.py BERTH LIBRARY
"""
import importlib.util
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from on_a_machine import OnAMachine, main, wait_until  # noqa: E402

import berth  # noqa: E402

HAS_IPYTHON = importlib.util.find_spec("IPython") is not None


class Commands(OnAMachine):
    machine = "workstation-4090"

    def test_the_examples_are_true(self):
        for name in ("running", "notebook"):
            code = f"""
                import doctest, importlib
                found = doctest.testmod(importlib.import_module('berth.{name}'), optionflags=0)
                print(found.failed, found.attempted > 0)
                """
            self.assertEqual(self.prints(code), "0 True\n", name)

    def test_a_command_ends_as_it_ends(self):
        code = """
            done = berth.run(['sh', '-c', 'echo out; echo err >&2; cat; exit 3'], gpus=1, capture=True, input='in', name='mine')
            print(done.exit_code, done.outcome, repr(done.stdout), 'err' in done.stderr, done.report['name'], done.report['devices'][0]['index'], done.ok)
            try: done.check()
            except berth.BerthError as problem: print(problem.id)
            print(berth.run(['sh', '-c', 'kill -9 $$'], capture=True).exit_code, berth.run(['true'], gpus=0).check().ok)
            """
        self.assertEqual(self.prints(code), "3 failed 'out\\nin' True mine 0 False\nE0571\n137 True\n")

    def test_what_is_not_started_is_an_error(self):
        code = """
            wishes = [(['no-such'], {}), (['true'], {'gpus': 9}), ([], {}), ('true', {}), (['true'], {'gpus': -1}), (['true'], {'memory': '8'}),
                      (['true'], {'share': 0.3}), (['true'], {'devices': ['7']}), (['/etc/passwd'], {})]
            for words, wish in wishes:
                try: print(berth.run(words, capture=True, **wish))
                except berth.BerthError as problem: print(type(problem).__name__, problem.id)
            """
        self.assertEqual(self.prints(code).split("\n"), ["NotFound E0510", "NoDevice E0411", "InvalidRequest E0516", "InvalidRequest E0516",
                         "InvalidRequest E0104", "InvalidRequest E0101", "InvalidRequest E0013", "NotFound E0413", "BerthError E0511", ""])

    def test_why_nothing_was_started_is_known_without_its_output_and_in_every_language(self):
        code = """
            wishes = [(['true'], {'gpus': 9}), (['true'], {'share': 0.3}), (['true'], {'devices': ['7']}), (['no-such'], {}), (['true'], {'gpus': 1, 'memory': '1GiB'})]
            for words, wish in wishes:
                for capture in (False, True):
                    try: print(berth.run(words, capture=capture, **wish))
                    except berth.BerthError as problem: print(type(problem).__name__, problem.id, bool(problem.hint), problem.args[0])
            """
        english, chinese = (self.python(code, LC_ALL=language).stdout.splitlines() for language in ("C.UTF-8", "zh_CN.UTF-8"))
        told = lambda lines: [line.split(" ", 3)[:3] for line in lines]  # noqa: E731
        self.assertEqual(told(english)[:6], [["NoDevice", "E0411", "True"]] * 2 + [["InvalidRequest", "E0013", "True"]] * 2 + [["NotFound", "E0413", "True"]] * 2)
        self.assertEqual(told(chinese), told(english))
        self.assertEqual([line.isascii() for line in chinese[:8]], [False] * 8, chinese)
        self.assertNotIn("see standard error", "".join(english))

    def test_output_that_is_no_utf8_is_kept(self):
        code = """
            import asyncio
            words = ['sh', '-c', 'cat; printf "\\\\377\\\\r\\\\n"; printf "\\\\376" >&2; exit 3']
            for done in (berth.run(words, gpus=0, capture=True, input='\\u00e9'), asyncio.run(berth.run_async(words, gpus=0, capture=True, input=b'\\xff')),
                         berth.run(words, gpus=0, capture=True, input='\\udcff')):
                print(ascii(done.stdout), ascii(done.stderr), done.exit_code)
            try: done.check()
            except berth.BerthError as problem: print(ascii(problem.args[0]))
            """
        for locale in ("C", "C.UTF-8"):
            self.assertEqual(self.prints(code, LC_ALL=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"),
                             "'\\xe9\\ufffd\\r\\n' '\\ufffd' 3\n" + "'\\ufffd\\ufffd\\r\\n' '\\ufffd' 3\n" * 2
                             + "'the command ended with 3 (failed)\\n\\ufffd'\n")

    def test_what_no_program_can_be_given_is_named(self):
        code = """
            wishes = [(['true', 3], {}), (['true', 'a\\0b'], {}), (3, {}), ([''], {}), (['true'], {'wait': 5}), (['true'], {'wait': 0.5}), (['true'], {'env': {'A': 1}}),
                      (['true'], {'input': 3}), (['true'], {'cwd': '/no/such'}), (['true'], {'name': 3}), (['true'], {'gpus': 0, 'memory': '1GiB'})]
            for words, wish in wishes:
                try: print(berth.run(words, **wish))
                except berth.BerthError as problem: print(type(problem).__name__, problem.id)
            print(berth.run(['true'], wait=None, gpus=0).ok, berth.run(('true',), wait=0, gpus=0).ok, berth.run(iter(['true']), gpus=0, cwd='/').ok)
            """
        self.assertEqual(self.prints(code).split("\n"), ["InvalidRequest E0104", "InvalidRequest E0104", "InvalidRequest E0516", "InvalidRequest E0516",
                         "InvalidRequest E0104", "InvalidRequest E0104", "InvalidRequest E0104", "InvalidRequest E0104", "NotFound E0110", "InvalidRequest E0104",
                         "InvalidRequest E0010", "True True True", ""])

    def test_a_device_that_is_taken(self):
        code = """
            with berth.lease(gpus=1):
                plain = {name: value for name, value in os.environ.items() if name != 'BERTH_JOB' and not name.endswith('VISIBLE_DEVICES')}
                try: berth.run(['true'], gpus=1, wait=False, capture=True, env=plain)
                except berth.Refused as problem: print(problem.id)
            """
        self.assertEqual(self.prints(code), "E0412\n")

    def test_in_an_event_loop(self):
        code = """
            import asyncio
            async def main():
                done = await berth.run_async(['sh', '-c', 'echo $CUDA_VISIBLE_DEVICES; exit 2'], gpus=1, capture=True)
                print(done.exit_code, done.stdout.strip())
                task = asyncio.ensure_future(berth.run_async(['sleep', '60'], gpus=1))
                await asyncio.sleep(0.5); task.cancel()
                try: await task
                except asyncio.CancelledError: print('cancelled')
            asyncio.run(main())
            """
        self.assertEqual(self.prints(code), "2 0\ncancelled\n")
        self.assertTrue(wait_until(lambda: "running" not in self.states().values()))

    def test_a_lease_in_an_event_loop(self):
        code = """
            import asyncio, ticking
            async def main():
                other, ticks = ticking.begin()
                async with berth.lease(gpus=1) as lease:
                    print(lease.job, os.environ['CUDA_VISIBLE_DEVICES'])
                other.cancel()
                print('BERTH_JOB' in os.environ)
            asyncio.run(main())
            """
        self.assertEqual(self.prints(code), "1 0\nFalse\n")
        holder = self.start("run", "--gpus", "1", "--", "sh", "-c", "echo has it; read line")
        holder.stdout.readline()
        code = """
            import asyncio, ticking
            async def main():
                other, ticks = ticking.begin()
                try:
                    async with berth.lease(gpus=1, wait=0.5): print('no')
                except berth.Refused as problem: print(problem.id, len(ticks) > 10)
                waits = asyncio.ensure_future(berth.lease(gpus=1, report=False).__aenter__())
                await asyncio.sleep(0.3); waits.cancel()
                try: await waits
                except asyncio.CancelledError: print('cancelled')
                other.cancel()
            asyncio.run(main())
            """
        self.assertEqual(self.prints(code), "E0412 True\ncancelled\n")
        self.assertEqual(sorted(self.states().values()), ["done", "running"])


class Notebooks(OnAMachine):
    machine = "workstation-4090"
    SHELL = """
        class Events:
            def __init__(self): self.found = {}
            def register(self, name, call): self.found[name] = call
            def unregister(self, name, call): del self.found[name]
        class Shell:
            def __init__(self):
                self.events, self.magics = Events(), {}
                self.magics_manager = type('M', (), {'magics': {'line': self.magics, 'cell': {}}})()
            def register_magic_function(self, call, magic_kind, magic_name): self.magics[magic_name] = call
        import types
        shell = Shell(); berth.load_ipython_extension(shell); magic = shell.magics['berth']
        cell = lambda text: shell.events.found['pre_run_cell'](types.SimpleNamespace(raw_cell=text))
        """

    def test_magics_and_advice(self):
        code = self.SHELL + """
        magic('run --gpus 1 --report none', "import os; print('on', os.environ['CUDA_VISIBLE_DEVICES'])")
        magic('ls')
        print(type(magic('')).__name__)
        magic('status')
        for bad in (lambda: magic('ls', 'x'), lambda: magic('run train.py'), lambda: magic("ls 'unclosed")):
            try: bad()
            except berth.InvalidRequest as problem: print(problem.id, problem._render_traceback_() == [f'InvalidRequest: {problem}'])
        try: magic('run --gpus 1 --report none', "raise SystemExit(4)")
        except berth.BerthError as problem: print(problem)
        cell("x = 1\\n!export CUDA_VISIBLE_DEVICES=0\\n!pip list\\n!FOO=1\\n!FOO=1 command")
        berth.unload_ipython_extension(shell); print(shell.magics, shell.events.found)
        """
        done = self.python(code)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("on 0\n"), done.stdout)
        self.assertIn("NVIDIA GeForce RTX 4090", done.stdout)
        self.assertRegex(done.stdout, "DeviceList\nGPU 0 NVIDIA GeForce RTX 4090: .* GiB.*\nE0002 True\nE0516 True\nE0551 True\n"
                                      r"berth run ended with 4 \(E0571\)\n\{\} \{\}\n$")
        self.assertEqual(done.stderr.count("in a shell that ends with the line"), 2, done.stderr)

    def test_a_variable_that_comes_too_late(self):
        code = self.SHELL + """
        torch = types.ModuleType('torch'); torch.cuda = types.SimpleNamespace(is_initialized=lambda: True); sys.modules['torch'] = torch
        cell("%env CUDA_VISIBLE_DEVICES=1")
        cell("os.environ['OTHER'] = '1'")
        """
        self.assertEqual(self.python(code).stderr, "berth: PyTorch has initialised its devices already, and does not read such variables again: "
                                                   "restart the kernel, and set it first\n")

    @unittest.skipUnless(HAS_IPYTHON, "no IPython")
    def test_in_ipython_itself(self):
        code = """
            from IPython.core.interactiveshell import InteractiveShell
            from IPython.core import displaypub
            shell = InteractiveShell.instance()
            shell.run_line_magic('load_ext', 'berth')
            shown = []
            shell.display_pub.publish = lambda data, **more: shown.append((data.get('text/html'), more.get('update')))
            shell.run_line_magic('berth', 'status on')
            shell.run_cell('1 + 1')
            print('GPU 0 NVIDIA GeForce RTX 4090' in shown[0][0], shown[-1][1])
            shell.run_cell_magic('berth', 'run --gpus 1 --report none', 'print(6 * 7)')
            print(shell.run_cell('%%berth run --gpus 1 --report none\\nprint("cell")').success)
            shell.run_cell('%%berth run --gpus 9 --report none\\npass')
            shell.run_line_magic('unload_ext', 'berth')
            """
        done = self.python(code)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("True True\n42\ncell\nTrue\nerror: 1 GPU is here, requested: 9 (E0411)\n", done.stdout)
        self.assertNotIn("Traceback", done.stdout + done.stderr)


class Magic(unittest.TestCase):
    def test_a_doctor_that_has_found_something_is_no_error(self):
        from berth import notebook
        said = notebook.Extension.__new__(notebook.Extension)
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "berth")
            program.write_text("#!/bin/sh\nexit ${2:-1}\n")
            program.chmod(0o755)
            said._stream([str(program), "doctor"])
            for words in (["ls"], ["doctor", "2"], ["run", "3"]):
                with self.assertRaises(berth.BerthError):
                    said._stream([str(program), *words])


if __name__ == "__main__":
    main()
