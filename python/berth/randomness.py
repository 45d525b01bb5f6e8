"""What the random generators of this process would draw next: kept before a try, put back before another.

A step that is tried again should draw what the first try drew. Python and NumPy hand their state out as a tuple or a dict, at 4 to
20 µs each, of which a step that never fails needs nothing; so its bytes are copied where they lie, in 0.1 µs, and made into a tuple only
when they are put back. Where they lie is tried first, on generators of our own, against what their getters say: where the two
differ (another interpreter, another version), the getters are used.
"""

from __future__ import annotations

import importlib
import random
import struct
import sys
from typing import Any, Callable, List, Optional, Tuple

__all__ = ["Randomness", "kept", "unused"]

_WORDS = 624  # of a Mersenne Twister: so many of 32 bits, and how many of them are used
_BYTES = 4 * (_WORDS + 1)
_GAUSS = 16  # int has_gauss; double gauss
Keep = Callable[["Randomness"], None]


def _view(address: int, size: int) -> memoryview:
    import ctypes  # at the first try, not with `import berth`
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


def _may_look() -> bool:
    """CPython with its lock: nobody else writes while bytes are copied."""
    return sys.implementation.name == "cpython" and bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def _python_view(generator: Any) -> memoryview:
    """`int index; uint32_t state[624]` behind the head of every object."""
    return _view(id(generator) + object.__basicsize__, _BYTES)


def _python_state(held: bytes) -> Tuple[int, ...]:
    used, *words = struct.unpack(f"={_WORDS + 1}I", held)
    return (*words, used)


def _python_keeper() -> Keep:
    generator: Any = getattr(random.random, "__self__", None)
    known = type(generator) is random.Random
    if not _may_look() or not known or random.Random.__basicsize__ < object.__basicsize__ + _BYTES:
        return _python_slowly
    for seed in range(3):
        other = random.Random(seed)
        other.random()
        if _python_state(bytes(_python_view(other))) != other.getstate()[1]:
            return _python_slowly
    view = _python_view(generator)

    def keep(kept: "Randomness") -> None:
        kept.words[:_BYTES] = view
        kept.python = generator.gauss_next
    return keep


def _python_slowly(kept: "Randomness") -> None:
    kept.python = random.getstate()


def _python_restore(kept: "Randomness") -> None:
    state = kept.python
    random.setstate(state if isinstance(state, tuple) else (3, _python_state(bytes(kept.words[:_BYTES])), state))


class _Numpy:
    """NumPy's global generator. `bit_generator.ctypes.state_address` is NumPy's own word for where the state is; the second half
    of a pair of normal numbers is beside it, in an object whose layout is found by drawing one."""

    def __init__(self, numpy: Any) -> None:
        self.numpy = numpy
        self.keep: Keep = self._slowly
        try:
            found = self._quickly()
        except Exception:  # a NumPy that is made otherwise
            found = None
        if found is not None:
            self.keep = found

    def _slowly(self, kept: "Randomness") -> None:
        kept.numpy = self.numpy.random.get_state(legacy=False)

    def _quickly(self) -> Optional[Keep]:
        mtrand: Any = sys.modules["numpy.random.mtrand"]
        own, mine = mtrand._rand, self.numpy.random.RandomState(7)
        at = self._gauss_at(mine)
        if not _may_look() or at is None or not self._is_true(mine, at):
            return None
        bits = own._bit_generator
        if type(bits).__name__ != "MT19937" or type(own) is not type(mine):
            return None
        words, rest = _view(bits.ctypes.state_address, _BYTES), _view(id(own) + at, _GAUSS)

        def keep(kept: "Randomness") -> None:
            if own._bit_generator is not bits or mtrand._rand is not own:
                return self._slowly(kept)
            kept.words[_BYTES:2 * _BYTES] = words
            kept.words[2 * _BYTES:2 * _BYTES + _GAUSS] = rest
            kept.numpy = None
        return keep

    @staticmethod
    def _gauss_at(mine: Any) -> Optional[int]:
        """Where `int has_gauss; double gauss` are in a RandomState: one place alone has what was just drawn."""
        found = None
        for _ in range(3):
            mine.standard_normal()
            said = mine.get_state(legacy=False)
            if not said["has_gauss"]:
                mine.standard_normal()
                said = mine.get_state(legacy=False)
            memory = _view(id(mine), type(mine).__basicsize__).tobytes()
            at = memory.find(struct.pack("<i4xd", 1, said["gauss"]))
            if at < 0 or found not in (None, at):
                return None
            found = at
            mine.standard_normal()
        return found

    @classmethod
    def _is_true(cls, mine: Any, at: int) -> bool:
        for draws in range(4):
            mine.standard_normal(draws)
            bits = mine._bit_generator
            held = _view(bits.ctypes.state_address, _BYTES).tobytes() + _view(id(mine) + at, _GAUSS).tobytes()
            said, made = mine.get_state(legacy=False), cls._state(held)
            if made["state"]["pos"] != said["state"]["pos"] or made["state"]["key"] != said["state"]["key"].tolist() or \
                    made["has_gauss"] != said["has_gauss"] or (made["has_gauss"] and made["gauss"] != said["gauss"]):
                return False
        return True

    @staticmethod
    def _state(held: bytes) -> Any:
        *key, used = struct.unpack_from(f"={_WORDS + 1}I", held)
        has_gauss, gauss = struct.unpack_from("<i4xd", held, _BYTES)
        return {"bit_generator": "MT19937", "state": {"key": key, "pos": used}, "has_gauss": has_gauss, "gauss": gauss}

    def restore(self, kept: "Randomness") -> None:
        state = kept.numpy
        if state is None:
            state = self._state(bytes(kept.words[_BYTES:]))
            state["state"]["key"] = self.numpy.array(state["state"]["key"], dtype=self.numpy.uint32)
        self.numpy.random.set_state(state)


class _Torch:
    """PyTorch's generator for the CPU: `get_state()` takes a microsecond. Its numbers lie in one place, in the order in which its state has them,
    each of its own width; what it has is read there, and never written: the state is made of it, and set."""

    HEAD = struct.Struct("=QiB3xI")  # seed, left, seeded, next
    TAILS = (struct.Struct("=4xfB3xdB7x"), struct.Struct("=4xB3xfB7xd"))  # after the words the halves of two pairs, and whether they are there
    STATE = struct.Struct(f"=QiiQ{_WORDS}Q3di4xfB3x")
    SIZE = HEAD.size + 4 * _WORDS + TAILS[0].size

    def __init__(self, torch: Any) -> None:
        self.torch, self.generator = torch, torch.default_generator
        self.keep: Keep = self._slowly
        for self.tail in self.TAILS:
            try:
                at = self._words_at() if _may_look() else None
                address = self.generator._cdata
            except Exception:  # a PyTorch that is made otherwise
                return
            if at is None:
                continue
            generator, view = self.generator, _view(address + at, self.SIZE)

            def keep(kept: "Randomness") -> None:
                if generator._cdata != address:
                    return self._slowly(kept)
                kept.words[-_Torch.SIZE:] = view
                kept.torch = _QUICK
            self.keep = keep
            return

    def _slowly(self, kept: "Randomness") -> None:
        kept.torch = self.generator.get_state()

    def _words_at(self) -> Optional[int]:
        """How far behind its address, tried on generators of our own; None where they are not as expected."""
        at = None
        for draws in range(6):
            mine = self.torch.Generator()
            mine.manual_seed(7 + draws)
            for size in range(draws):  # so many halves of a pair are left
                self.torch.randn(1 + size % 2, generator=mine)
                self.torch.randn(1, generator=mine, dtype=self.torch.float64)
            said = mine.get_state()
            words = self.STATE.unpack(bytes(said.tolist()))[4:12]
            found = _view(mine._cdata, 512).tobytes().find(struct.pack("=8I", *words)) - self.HEAD.size
            if found < 0 or at not in (None, found) or not self.torch.equal(self._state(_view(mine._cdata + found, self.SIZE).tobytes()), said):
                return None
            at = found
        return at

    def _state(self, held: bytes) -> Any:
        seed, left, seeded, used = self.HEAD.unpack_from(held)
        words = struct.unpack_from(f"={_WORDS}I", held, self.HEAD.size)
        halves = self.tail.unpack_from(held, self.HEAD.size + 4 * _WORDS)
        single, has_single, double, has_double = halves if self.tail is self.TAILS[0] else (halves[1], halves[0], halves[3], halves[2])
        state = self.STATE.pack(seed, left, seeded, used, *words, 0.0, double if has_double else 0.0, 0.0, has_double, single if has_single else 0.0,
                                has_single)
        return self.torch.frombuffer(bytearray(state), dtype=self.torch.uint8)

    def state(self, kept: "Randomness") -> Any:
        """As `get_state()` has it; None where none was kept."""
        return self._state(bytes(kept.words[-self.SIZE:])) if kept.torch is _QUICK else kept.torch

    def restore(self, kept: "Randomness") -> None:
        self.generator.set_state(self.state(kept))


def _load() -> bool:
    """Later NumPys load their generators when they are first used, which may be in the try."""
    try:
        importlib.import_module("numpy.random")
    except Exception:  # half of a NumPy, or what has only its name
        return False
    return "numpy.random.mtrand" in sys.modules


_python_keep: Optional[Keep] = None
_numpy: Optional[_Numpy] = None
_torch: Optional[_Torch] = None
_QUICK = "in the words"
_unused: List["Randomness"] = []


class Randomness:
    """The state of the global generators of Python and of the frameworks that are loaded: NumPy, and PyTorch's for the CPU and
    its GPUs. Generators that a program has made itself are its own to keep."""

    __slots__ = ("words", "python", "numpy", "torch", "cuda", "has_numpy")

    def __init__(self) -> None:
        self.words = memoryview(bytearray(2 * _BYTES + _GAUSS + _Torch.SIZE))
        self.python: Any = None
        self.numpy: Any = None
        self.torch: Any = None
        self.cuda: Optional[List[Any]] = None
        self.has_numpy = False

    def keep(self) -> None:
        global _python_keep, _numpy, _torch
        if _python_keep is None:
            _python_keep = _python_keeper()
        _python_keep(self)
        modules = sys.modules
        if "numpy.random.mtrand" in modules or ("numpy" in modules and _load()):
            if _numpy is None:
                _numpy = _Numpy(modules["numpy"])
            _numpy.keep(self)
            self.has_numpy = True
        torch = modules.get("torch")
        if torch is not None:
            if _torch is None and hasattr(torch, "default_generator"):  # else half of it is loaded
                _torch = _Torch(torch)
            if _torch is not None:
                _torch.keep(self)
                cuda = torch.cuda
                begun = getattr(cuda, "_initialized", True) and cuda.is_initialized()
                self.cuda = cuda.get_rng_state_all() if begun else None

    def is_now(self) -> bool:
        """Nothing was drawn since."""
        now = kept()
        try:
            return self.words[:-_Torch.SIZE] == now.words[:-_Torch.SIZE] and self.python == now.python and str(self.numpy) == str(now.numpy) and \
                (_torch is None or _same(_torch.state(self), _torch.state(now))) and all(map(_same, self.cuda or (), now.cuda or ()))
        finally:
            unused(now)

    def restore(self) -> None:
        """Whatever is drawn next is what was drawn next when this was made."""
        _python_restore(self)
        if self.has_numpy and _numpy is not None:
            _numpy.restore(self)
        if self.torch is not None and _torch is not None:
            _torch.restore(self)
        if self.cuda is not None:
            sys.modules["torch"].cuda.set_rng_state_all(self.cuda)


def _same(one: Any, other: Any) -> bool:
    return one is other or (one is not None and other is not None and bool(sys.modules["torch"].equal(one, other)))


def kept() -> Randomness:
    """The state now. Give it to `unused()` when it is needed no more: 5 KiB that are not asked for again at every call."""
    try:
        state = _unused.pop()
    except IndexError:
        state = Randomness()
    state.keep()
    return state


def unused(state: Optional[Randomness]) -> None:
    """Another call may have it."""
    if state is not None and len(_unused) < 8:
        _unused.append(state)
