"""Steps and batch sizes when memory really runs out.

usage: test_real_memory.py     (77: no PyTorch here)
"""
import os
import subprocess
import sys
import textwrap
import unittest

from with_torch import HERE, torch  # noqa: F401


class RealMemory(unittest.TestCase):
    """The address space is limited, so that PyTorch's own CPU allocator runs out of memory."""

    def run_limited(self, code):
        done = subprocess.run([sys.executable, "-c", "import berth, resource, torch\n" + textwrap.dedent(code)], capture_output=True, text=True, timeout=600,
                              env={**os.environ, "PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1",
                                   # With this setting, freed large blocks are unmapped. The test limits the address space, so unused blocks
                                   # would count.
                                   "MALLOC_MMAP_THRESHOLD_": "65536"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_a_step_survives(self):
        done = self.run_limited("""
            torch.manual_seed(0)
            make = lambda: torch.nn.Sequential(torch.nn.Linear(64, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 8))
            model, batch = make(), (torch.randn(8192, 64), torch.randn(8192, 8))
            other = make(); other.load_state_dict(model.state_dict())
            loss = lambda model, part: torch.nn.functional.mse_loss(model(part[0]), part[1])
            loss(other, batch).backward()
            for one in (model, other): loss(one, [half[:64] for half in batch]).backward if one is model else None
            used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + (130 << 20), resource.RLIM_INFINITY))
            try:
                loss(model, batch).backward(); print('it fits')
            except RuntimeError as problem:
                print(berth.is_oom(problem), "can't allocate memory" in str(problem))
            model.zero_grad(set_to_none=True)
            done = berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.0), batch)
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            grads = [torch.cat([p.grad.flatten().double() for p in one.parameters()]) for one in (model, other)]
            print(done.tries > 1, done.parts > 1, float((grads[0] - grads[1]).norm() / grads[1].norm()) < 1e-6)
            """)
        self.assertEqual(done.stdout, "True True\nTrue True True\n")
        self.assertIn("does not fit", done.stderr)

    def test_the_batch_that_is_found_is_near_the_largest_and_survives(self):
        done = self.run_limited("""
            used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
            line = torch.nn.Linear(16, 4096); line(torch.randn(2, 16)).sum().backward()
            resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20), resource.RLIM_INFINITY))
            sizes = []
            def trial(size):
                sizes.append(size)
                for _ in range(3): line(torch.randn(size, 16)).relu().sum().backward()
            found = berth.find_batch(trial, most=65536)
            before = len(sizes)
            for _ in range(20): trial(found)
            print(before <= 16 + 3, found)
            largest = found
            try:
                while True: trial(largest + found // 100); largest += found // 100
            except RuntimeError: pass
            print(found >= 0.95 * largest)
            """)
        self.assertRegex(done.stdout, r"^True \d+\nTrue\n$")


if __name__ == "__main__":
    unittest.main()
