"""A retry draws the same random numbers as the first try, with the frameworks that are installed.

usage: test_randomness.py
"""
import pathlib
import random
import subprocess
import sys
import textwrap
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import berth  # noqa: E402
from berth import randomness  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


def drawn():
    """Draws from every kind of generator. Some generators compute two numbers at once and keep the second one, which must be restored too."""
    said = [random.random(), random.getrandbits(77), random.gauss(0, 1), random.sample(range(99), 5)]
    if numpy is not None:
        said += [numpy.random.rand(3).tolist(), numpy.random.standard_normal(), numpy.random.randint(0, 1 << 30)]
    if torch is not None:
        said += [torch.rand(3).tolist(), torch.randn(1).tolist(), torch.randperm(9).tolist()]
    return said


class Late(unittest.TestCase):
    @unittest.skipIf(numpy is None, "no NumPy")
    def test_a_generator_that_numpy_loads_in_the_try_is_put_back(self):
        done = subprocess.run([sys.executable, "-c", textwrap.dedent("""
            import sys, berth, numpy
            drew = []
            @berth.retry(first=0.0, report=False)
            def step():
                drew.append(float(numpy.random.rand()))
                if len(drew) < 3: raise MemoryError
            step()
            assert len(set(drew)) == 1, drew
            """)], env={"PYTHONPATH": str(HERE.parent)}, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Kept(unittest.TestCase):
    def check(self):
        for turn in range(50):
            random.seed(turn)
            if numpy is not None:
                numpy.random.seed(turn)
            for _ in range(turn % 7):
                random.gauss(0, 1)
                if numpy is not None:
                    numpy.random.standard_normal(turn % 3)
            state = randomness.kept()
            first = [drawn() for _ in range(turn % 3 + 1)]
            state.restore()
            self.assertEqual([drawn() for _ in range(turn % 3 + 1)], first)
            state.restore()
            self.assertEqual([drawn() for _ in range(turn % 3 + 1)], first, "a third try as well")

    def test_it_is_drawn_again(self):
        self.check()

    def test_what_was_drawn_since_is_seen(self):
        draws = [random.random, lambda: random.gauss(0, 1)]
        draws += [lambda: numpy.random.rand(), lambda: numpy.random.standard_normal()] if numpy is not None else []
        draws += [lambda: torch.rand(1), lambda: torch.randn(1)] if torch is not None else []
        for draw in draws:
            state = randomness.kept()
            self.assertTrue(state.is_now())
            draw()
            self.assertFalse(state.is_now())
            state.restore()
            self.assertTrue(state.is_now())

    def test_inner_tries_and_other_threads_keep_their_own(self):
        def inner():
            return random.random()

        @berth.retry(first=0.0, report=False)
        def outer():
            said = [random.random(), berth.retry(inner)()]
            tries.append(said)
            if len(tries) % 3:
                raise MemoryError
            return said
        tries = []
        random.seed(3)
        outer()
        self.assertEqual(tries[0], tries[1])
        self.assertEqual(tries[0], tries[2])
        threads = [threading.Thread(target=lambda: [berth.retry(inner)() for _ in range(2000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def test_it_may_be_left_out(self):
        tries = []

        @berth.retry(first=0.0, report=False, same_random=False)
        def step():
            tries.append(random.random())
            if len(tries) < 2:
                raise MemoryError
        step()
        self.assertNotEqual(*tries)

    def test_another_generator_of_numpy_is_kept_too(self):
        if numpy is None or not hasattr(numpy.random, "set_bit_generator"):
            self.skipTest("a NumPy from 1.25 on")
        code = """
            import sys, numpy
            from berth import randomness
            randomness.kept()
            numpy.random.set_bit_generator(numpy.random.PCG64(3))
            state = randomness.kept()
            first = numpy.random.rand(3).tolist()
            state.restore()
            print(numpy.random.rand(3).tolist() == first)
            """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env={"PYTHONPATH": str(HERE.parent)}, capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("True\n", ""))


if __name__ == "__main__":
    unittest.main()
