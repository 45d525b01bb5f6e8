# `berth plan measure` runs this code after the program's `import torch` (by src/compare/after_torch.py). It records the memory of a few
# training steps. In some of these steps, it makes the batch or its sequences smaller. It writes the recordings to the file that
# BERTH_MEASURE_TO names, and ends the program. If several processes of the program import torch, only one of them writes the file. If
# BERTH_MEASURE_AS_IS is set, the batch is not changed, because Berth runs the program again with another batch.
import json
import os
import sys

_WARM_UP, _SETTLE = 2, 2  # steps before the first recording; steps in a recording before the step that is used
_MOST_POINTS = 20000  # largest number of points of a recorded memory curve
_MOST_RESTARTS = 20  # how often a recording may be started again because a batch had a different size
_STEP, _FETCH, _FETCHED = "berth: step", "berth: fetch", "berth: fetched"  # names of the marks that are put into PyTorch's profile


def _tensors_in(batch):
    import torch
    if isinstance(batch, torch.Tensor):
        yield batch
    elif hasattr(batch, "items"):
        for one in batch.values():
            yield from _tensors_in(one)
    elif isinstance(batch, (list, tuple)):
        for one in batch:
            yield from _tensors_in(one)


def _changed(batch, change):
    """A copy of the nested structure in which each tensor is replaced by `change(tensor)`."""
    import torch
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if hasattr(batch, "items"):
        parts = {key: _changed(one, change) for key, one in batch.items()}
        try:
            return type(batch)(parts)
        except Exception:
            return parts
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_changed(one, change) for one in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_changed(one, change) for one in batch)
    return batch


def _size_of(batch):
    """(sequences, tokens per sequence) of a batch. A number that is unknown is None."""
    tensors = [one for one in _tensors_in(batch) if one.dim() > 0]
    if not tensors:
        return None, None
    sequences = tensors[0].size(0)
    tokens = [one.size(1) for one in tensors if one.dim() == 2 and one.size(0) == sequences and not one.is_floating_point()]
    return sequences, max(tokens) if tokens and max(tokens) >= 8 else None


def _cut(batch, old, new):
    """A copy of the batch with new[0] sequences of new[1] tokens, instead of old[0] and old[1]. Tensors are always copied, so that every recording has the
    same operations."""
    import torch

    def change(tensor):
        if tensor.dim() > 0 and tensor.size(0) == old[0]:
            if new[0] > old[0]:
                tensor = torch.cat([tensor, tensor[:new[0] - old[0]]])
            tensor = tensor[:new[0]]
            if old[1] and tensor.dim() > 1 and tensor.size(1) == old[1]:
                tensor = tensor[:, :new[1]]
        return tensor.clone()
    return _changed(batch, change)


def _storage(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def _is_allocators(storage):
    """Whether the framework's CPU allocator made this memory: then it is aligned to 64 bytes. Memory of NumPy or of a file cannot be resized."""
    return storage.data_ptr() % 64 == 0 and (not hasattr(storage, "resizable") or storage.resizable())


def _bytes_of(tensors, device, seen):
    """Bytes that the framework's allocator allocated for these tensors. Storages in `seen` do not count."""
    total = 0
    for tensor in tensors:
        try:
            if tensor.device.type != device or tensor.layout != sys.modules["torch"].strided:
                continue
            storage = _storage(tensor)
            key, size = storage.data_ptr(), storage.nbytes()
            if key in seen or size == 0 or (device == "cpu" and not _is_allocators(storage)):
                continue
        except Exception:
            continue
        seen.add(key)
        total += size
    return total


class _Recorder:
    def __init__(self, torch):
        self.torch = torch
        self.optimizers, self.stepping = [], None
        self.units, self.in_unit = 0, 0  # steps so far; optimizer steps since the last of these steps began
        self.has_loader, self.as_is = False, bool(os.environ.get("BERTH_MEASURE_AS_IS"))
        self.size, self.to_do, self.now = None, [], None
        self.profile, self.left, self.restarts = None, 0, 0
        self.path = os.environ["BERTH_MEASURE_TO"]
        self.answer = {"schema": 1, "framework": "PyTorch " + torch.__version__, "device": None, "batch": None, "seq": None,
                       "optimizer": False, "parts": None, "problem": None, "recordings": []}
        try:
            with open(self.path, "x") as file:
                json.dump(self.answer, file)
        except FileExistsError:
            pass  # another process of the program records already

    def write(self):
        part = f"{self.path}.{os.getpid()}"
        with open(part, "w") as file:
            json.dump(self.answer, file)
        os.replace(part, self.path)

    # Without a DataLoader, a step begins after each optimizer step. With a DataLoader, it begins when the program fetches the next batch
    # after an optimizer step.

    def optimizer_stepped(self, optimizer):
        self.stepping = self.stepping or optimizer
        if optimizer is not self.stepping:
            return
        self.in_unit += 1
        if not self.has_loader:
            self.boundary()

    def fetching(self, iterator):
        if self.has_loader and (self.in_unit or not self.optimizers):
            self.boundary()

    def fetched(self, batch):
        if not self.has_loader and self.units:
            return batch  # a DataLoader that is first used after a step is not for training, but for validation, so do not change its batch
        self.has_loader = True
        if self.as_is:
            return batch
        size = _size_of(batch)
        if self.size is None:
            self.size = size
        if size != self.size or size[0] is None:
            # This is the last batch of an epoch, or it is from another DataLoader.
            self.restart()
            return batch
        return _cut(batch, self.size, self.now or self.size)

    def boundary(self):
        self.in_unit = 0
        self.units += 1
        if self.units <= _WARM_UP:
            return
        if self.profile is None:
            if self.now is None and not self.to_do:
                self.to_do = self.sizes()
            self.begin()
            return
        self.left -= 1
        if self.left == 1:
            self.mark(_STEP)
        if self.left == 0:
            self.end()

    def mark(self, name):
        if self.profile is not None:
            with self.torch.autograd.profiler.record_function(name):
                pass

    def sizes(self):
        """The sizes to record: (sequences, tokens)."""
        if self.size is None or self.size[0] is None or self.as_is:
            return [(None, None)]
        batch, seq = self.size
        sizes = [(batch, seq), (batch // 2 if batch >= 4 else batch * 2, seq)]
        if seq:
            sizes += [(batch, seq // 2), (batch, seq // 4)]
        return sizes

    def begin(self):
        os.environ.pop("BERTH_MEASURE_TO", None)  # child processes that start from now on must not record
        self.now = self.now or self.to_do.pop(0)
        self.left = _SETTLE + 1
        profiler = self.torch.profiler
        self.profile = profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True)
        self.profile.start()

    def restart(self):
        if self.profile is None:
            return
        self.profile.stop()
        self.profile = None
        self.restarts += 1
        if self.restarts > _MOST_RESTARTS:
            self.answer["problem"] = "sizes"
            self.finish()

    def end(self):
        self.profile.stop()
        results = self.profile.profiler.kineto_results.events()
        self.profile, self.restarts = None, 0
        self.answer["recordings"].append(self.recording(results))
        if not self.to_do:
            self.finish()
        self.write()
        self.now = None
        self.begin()

    def finish(self):
        self.write()
        sys.stdout.flush()
        sys.stderr.flush()
        # Exit immediately, because the program might otherwise save the weights, and the changed batches have falsified them.
        os._exit(0)

    # Contents of a recording

    def recording(self, events):
        import hashlib
        device = self.answer["device"] or self.device_of(events)
        signs, curve, now, counts, in_fetch = hashlib.sha256(), [], 0, False, False
        for event in events:
            name, size = event.name(), 0
            if name == "[memory]" and event.device_type().name.lower() == device:
                size = event.nbytes()
                now += size
            if name in (_STEP, _FETCH, _FETCHED):
                counts, in_fetch = counts or name == _STEP, name == _FETCH
            elif not size or not counts:
                continue
            elif in_fetch:  # fetching makes one allocation per sequence, so store all of them as one point
                curve[-1] = max(curve[-1], now)
                continue
            signs.update(b"+" if size > 0 else b"-" if size < 0 else b"|")
            curve.append(now)
        parts = self.parts(device)
        self.answer["parts"] = self.answer["parts"] or parts
        base = (self.torch.cuda.memory_allocated() if device == "cuda" else sum(parts.values())) - now
        block = max(1, -(-len(curve) // _MOST_POINTS))
        points = [max(curve[i:i + block]) for i in range(0, len(curve), block)]
        recording = {"batch": self.now[0], "seq": self.now[1], "base_bytes": base, "operations": len(curve), "pattern": signs.hexdigest()[:16],
                     "curve": points, "reserved_bytes": None}
        if device == "cuda":
            recording["reserved_bytes"] = self.torch.cuda.max_memory_reserved()
        return recording

    def device_of(self, events):
        cuda = any(one.name() == "[memory]" and one.device_type().name == "CUDA" for one in events)
        self.answer["device"] = "cuda" if cuda else "cpu"
        self.answer["batch"], self.answer["seq"] = self.size or (None, None)
        self.answer["optimizer"] = bool(self.optimizers)
        return self.answer["device"]

    def parts(self, device):
        """Bytes that stay allocated between steps: weights, gradients, optimizer states and other tensors."""
        import gc
        torch, seen = self.torch, set()
        found = [one for one in gc.get_objects() if isinstance(one, (torch.Tensor, torch.nn.Module))]
        modules = [one for one in found if isinstance(one, torch.nn.Module)]
        tensors = [one for one in found if isinstance(one, torch.Tensor)]
        weights = [one for module in modules for one in [*module.parameters(recurse=False), *module.buffers(recurse=False)]]
        gradients = [one.grad for one in [*weights, *tensors] if one.is_leaf and one.requires_grad and one.grad is not None]
        states = [one for optimizer in self.optimizers for state in list(optimizer.state.values()) for one in _tensors_in(state)]
        return {"weights_bytes": _bytes_of(weights, device, seen), "gradients_bytes": _bytes_of(gradients, device, seen),
                "optimizer_bytes": _bytes_of(states, device, seen), "other_bytes": _bytes_of(tensors, device, seen)}


def _install(torch):
    import functools
    import torch.utils.data.dataloader as loading
    import torch.optim
    import torch.profiler
    recorder = _Recorder(torch)
    began, fetch = torch.optim.Optimizer.__init__, loading._BaseDataLoaderIter.__next__

    @functools.wraps(began)
    def begin(self, *arguments, **options):
        began(self, *arguments, **options)
        recorder.optimizers.append(self)
        kind = type(self)
        if "_berth_counts" in kind.__dict__:
            return
        step = kind.step

        @functools.wraps(step)
        def counted(self, *arguments, **options):
            answer = step(self, *arguments, **options)
            recorder.optimizer_stepped(self)
            return answer
        kind.step, kind._berth_counts = counted, True

    @functools.wraps(fetch)
    def fetch_cut(self):
        recorder.fetching(self)
        recorder.mark(_FETCH)
        try:
            return recorder.fetched(fetch(self))
        finally:
            recorder.mark(_FETCHED)

    torch.optim.Optimizer.__init__ = begin
    loading._BaseDataLoaderIter.__next__ = fetch_cut


if os.environ.get("BERTH_MEASURE_TO"):
    _install(torch)  # noqa: F821: the caller defines `torch` before it runs this code
