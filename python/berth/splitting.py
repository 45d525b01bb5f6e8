"""One training step that fits: in so many parts as memory needs, with the gradients of the whole batch, and stepped once."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import weakref
from typing import Any, Callable, ContextManager, List, MutableMapping, Optional, Tuple

from .accumulating import Count, Part, check_over, check_reduction, divided, weighed
from .agreement import FAILED, Agreement, RankFailed, agreement
from .batches import DoesNotFit
from .comparing import check_number
from .errors import InvalidRequest, Unsupported
from .hooks import Hooks
from .language import text
from .oom import is_oom
from .parts import length_of, positive
from .randomness import kept, unused
from .retrying import attempt, first_line, release_memory
from .sizes import number
from .splittable import Looked, batch_norms, check_batch_norm, check_hooks, check_loss, inner
from .stepping import StepInterrupted

__all__ = ["StepInterrupted", "StepResult", "split_step"]

Loss = Callable[[Any, Any], Any]
_FITS, _SPLIT, _TOO_LARGE, _REFUSED = 0, 1, 2, 8
_CHOICES = ("refuse", "warn", "allow")
# Of each model: how many items a part had that fitted, and which losses were looked at.
_known: MutableMapping[Any, "_Known"] = weakref.WeakKeyDictionary()


@dataclasses.dataclass(frozen=True)
class StepResult:
    """What a step did.

    Attributes
    ----------
    loss : float
        The mean over the items that count, of all ranks.
    items : int or float
        So many of this rank's; what `count` gives.
    parts : int
        In so many was the batch computed.
    tries : int
        1 where memory did not run out.
    norm : float, optional
        Of the gradients before they were clipped.
    stepped : bool
        False where GradScaler left the step out, because a gradient was not finite.
    """

    loss: float
    items: float
    parts: int
    tries: int
    norm: Optional[float]
    stepped: bool


class _Known:
    def __init__(self) -> None:
        self.items = 0  # 0: memory has not run out yet
        self.losses: List[Looked] = []

    def fitted(self, items: int, after_failure: bool) -> None:
        """So many a part. Only a failure makes it less: the parts of a small batch are small without one."""
        if after_failure:
            self.items = max(items, 1)
        elif self.items:
            self.items = max(items, self.items)


@dataclasses.dataclass
class _Step:
    """What stays the same in all tries of a step."""

    model: Any
    loss_fn: Loss
    optimizer: Any
    batch: Any
    count: Optional[Count]
    reduction: str
    scaler: Any
    over: str
    together: Agreement
    grads: "_Gradients"
    hooks: Hooks

    def quiet(self) -> ContextManager[Any]:
        """No rank waits for another before all are through: gradients are exchanged by `exchange`."""
        return self.model.no_sync() if self.together.ranks > 1 and hasattr(self.model, "no_sync") else contextlib.nullcontext()

    def gradients(self, pieces: List[Part]) -> float:
        """Adds them up, and returns this rank's part of the loss."""
        total: Any = 0.0
        # Of the check, which has no gradients, or of weights before the last step: autocast would go on with them.
        sys.modules["torch"].clear_autocast_cache()
        with self.quiet(), self.hooks.off():
            for part in pieces:
                if not part.items:
                    continue  # padding alone; the mean of nothing is no number
                loss = self.loss_fn(self.model, part.data)
                check_number(loss)
                if not loss.requires_grad:
                    raise InvalidRequest(text("the loss has no gradients: no parameter that learns went into it"), hint=text(
                        "no torch.no_grad(), .detach() or .item() around it; parameters with requires_grad"))
                share = part.share(loss, self.reduction)
                total = total + share.detach()
                (share if self.scaler is None else self.scaler.scale(share)).backward()
                del loss, share
        self.hooks.of_tensors()
        return float(total)

    def exchange(self, loss: float) -> float:
        """The sum over all ranks, in place: it needs no memory of its own. And that of the loss."""
        torch, together = sys.modules["torch"], self.together
        if together.ranks == 1:
            return loss
        parameters = [one for one in inner(self.model).parameters() if one.requires_grad]
        has = torch.tensor([0.0 if one.grad is None else 1.0 for one in parameters], device=parameters[0].device)
        torch.distributed.all_reduce(has, group=together.group)
        some = [one for one, ranks in zip(parameters, has.tolist()) if ranks]
        if any(0 < ranks < together.ranks for ranks in has.tolist()):
            together.each(lambda: _zeros(some))
        for wait in [torch.distributed.all_reduce(one.grad, group=together.group, async_op=True) for one in some]:
            wait.wait()
        return together.sum(loss)


def _zeros(parameters: List[Any]) -> None:
    """Gradients where another rank has some."""
    for one in parameters:
        if one.grad is None:
            one.grad = sys.modules["torch"].zeros_like(one)


class _Gradients:
    """From nothing in each try. Parameters that the optimizer does not have keep what they had, and the step's is added to it."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        own = {id(one) for group in optimizer.param_groups for one in group["params"]}
        self._optimizer = optimizer
        self._others = [(one, one.grad) for one in inner(model).parameters() if one.requires_grad and id(one) not in own]

    def clear(self) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        for one, _ in self._others:
            one.grad = None

    def put_back(self) -> None:
        self.clear()
        for one, before in self._others:
            one.grad = before

    def add_up(self) -> None:
        for one, before in self._others:
            if before is not None:
                one.grad = before if one.grad is None else before.add_(one.grad)


class _Buffers:
    """What a forward pass writes into a model: put back where the pass is made again. Large ones that no layer is known to write are
    only watched."""

    _LARGE = 1 << 20

    def __init__(self, model: Any) -> None:
        torch = sys.modules["torch"]
        normal = {id(buffer) for one in inner(model).modules() if isinstance(one, torch.nn.modules.batchnorm._NormBase) for buffer in one.buffers()}
        self._kept: List[Tuple[Any, Any]] = []
        self._watched: List[Tuple[str, Any, int]] = []
        for name, buffer in inner(model).named_buffers():
            if buffer.is_inference():  # nothing may write into it
                continue
            if id(buffer) in normal or buffer.numel() * buffer.element_size() <= self._LARGE:
                self._kept.append((buffer, buffer.detach().clone()))
            else:
                self._watched.append((name, buffer, buffer._version))

    def restore(self) -> None:
        torch = sys.modules["torch"]
        changed = [name for name, buffer, version in self._watched if buffer._version != version]
        if changed:
            raise StepInterrupted(text("a forward pass has written into {}, which was not kept: the step cannot be tried again", ', '.join(changed)),
                                  "E0563",
                                  text("start from the last checkpoint, with more parts from the beginning: parts=2"))
        with torch.no_grad():
            for buffer, before in self._kept:
                buffer.copy_(before)


def split_step(model: Any, loss_fn: Loss, optimizer: Any, batch: Any, *, parts: Optional[int] = None, count: Optional[Count] = None,
               reduction: str = "mean", scaler: Any = None, clip_norm: Optional[float] = None, batch_norm: str = "refuse",
               in_batch: str = "refuse", over: str = "all", report: bool = True) -> StepResult:
    """A whole training step: gradients from nothing, exchanged between ranks, clipped, and stepped once. Where memory runs out, the
    batch is split, and the parts' gradients add up to what the whole would have given.

    Each next try begins with the random numbers, the buffers and without the gradients of the last. The next step begins with parts of
    the size that fitted. Ranks of DistributedDataParallel agree on the number of parts before they try again, and exchange
    gradients once, after all are through: none waits for one that has run out of memory.

    Parameters
    ----------
    model : torch.nn.Module
    loss_fn : callable
        `loss_fn(model, part)` gives the mean over the items that count, or with `reduction="sum"` their sum, as a tensor of one number. Mixed
        precision is its own: autocast inside of it.
    batch : tensor, or dict, tuple or list of tensors
        Split along the first axis.
    parts : int, optional
        At least so many; else as few as have fitted before.
    count : callable, optional
        Takes a part, gives how many of its items count: `lambda part: (part["labels"] != -100).sum()`, or with class weights
        `lambda part: weight[part["labels"]].sum()`. Else all along the first axis; then the loss of each batch that is split is compared with
        that of its parts, which takes two passes without a backward one. With a count only the first batch is whose parts count differently.
    scaler : torch.amp.GradScaler, optional
        Gradients are unscaled before they are clipped; it is updated once.
    clip_norm : float, optional
        The largest norm of all gradients together.
    batch_norm, in_batch : {"refuse", "warn", "allow"}
        What to do, when the batch is split, about layers and losses that depend on which items are together.
    over : {"all", "rank"}
        As in `accumulate`.

    Raises
    ------
    NotSplittable
        Batch normalisation, or a loss between the items of a batch; only where it must be split.
    DoesNotFit
        One item is too large.
    StepInterrupted
        Memory ran out in the optimizer's own step.
    """
    together = _agreement_of(model)

    def begun() -> Tuple[_Step, _Known, int]:
        step = _made(model, loss_fn, optimizer, batch, count, reduction, scaler, over, together)
        _check_options(batch_norm, in_batch, clip_norm)
        length, known = length_of(batch), _known.setdefault(inner(model), _Known())
        return step, known, positive("parts", parts) if parts is not None else max(1, -(-length // known.items) if known.items else 1)
    step, known, first = together.each(begun)
    try:
        loss, pieces, tries = _until_it_fits(step, first, (batch_norm, in_batch), known, report)
        loss = step.exchange(loss)
    except BaseException:  # also Ctrl-C: no half gradients are left
        step.grads.put_back()
        raise
    step.grads.add_up()
    norm, stepped = together.each(lambda: _apply(step, clip_norm))
    return StepResult(loss, sum(part.items for part in pieces), len(pieces), tries, norm, stepped)


def _agreement_of(model: Any) -> Agreement:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise InvalidRequest(text("model: a {} is no torch.nn.Module", type(model).__name__))
    return agreement(model.process_group) if isinstance(model, torch.nn.parallel.DistributedDataParallel) else Agreement()


def _check_options(batch_norm: str, in_batch: str, clip_norm: Optional[float]) -> None:
    for name, value in (("batch_norm", batch_norm), ("in_batch", in_batch)):
        if value not in _CHOICES:
            raise InvalidRequest(text("{}: {!r} is none of {}", name, value, ', '.join(_CHOICES)), "E0003")
    if clip_norm is not None:
        number("clip_norm", clip_norm, above=True)


def _made(model: Any, loss_fn: Loss, optimizer: Any, batch: Any, count: Optional[Count], reduction: str, scaler: Any, over: str,
          together: Agreement) -> _Step:
    torch = sys.modules["torch"]
    check_over(over)
    check_reduction(reduction)
    _check_callables(torch, loss_fn, optimizer, count, scaler)
    if isinstance(optimizer, torch.optim.LBFGS):
        raise Unsupported(text("LBFGS computes the loss several times in a step, which is not split"), "E0561", text("another optimizer"))
    kinds = " ".join(kind.__name__ for kind in type(model).__mro__)
    if "FullyShardedDataParallel" in kinds or "FSDPModule" in kinds or "DeepSpeedEngine" in kinds:
        raise Unsupported(text("{} exchanges parameters within a pass: a rank that has run out of memory cannot leave it", type(model).__name__), "E0565",
                          text("parts=… in berth.accumulate, with a number that fits in every rank"))
    if together.ranks > 1 and any("SyncBatchNorm" in name for name in batch_norms(model)):
        raise Unsupported(text("SyncBatchNorm exchanges statistics within a pass: a rank that has run out of memory cannot leave it"), "E0565",
                          text("GroupNorm, or BatchNorm of each rank's own"))
    return _Step(model, loss_fn, optimizer, batch, count, reduction, scaler, over, together, _Gradients(model, optimizer), Hooks(model, optimizer))


def _check_callables(torch: Any, loss_fn: Any, optimizer: Any, count: Any, scaler: Any) -> None:
    """What is in another's place, or missing."""
    mean = "loss_fn=lambda model, part: F.cross_entropy(model(part['x']), part['labels'])"
    if not callable(loss_fn) or isinstance(loss_fn, torch.nn.modules.loss._Loss):
        raise InvalidRequest(text("loss_fn: a {} does not take the model and a part of the batch", type(loss_fn).__name__), hint=mean)
    if not hasattr(optimizer, "param_groups"):
        raise InvalidRequest(text("optimizer: a {} is no torch.optim.Optimizer", type(optimizer).__name__))
    if count is not None and not callable(count):
        raise InvalidRequest(text("count: a {} cannot be called", type(count).__name__), hint="count=lambda batch: (batch['labels'] != -100).sum()")
    if scaler is not None and not hasattr(scaler, "scale"):
        raise InvalidRequest(text("scaler: a {} is no GradScaler", type(scaler).__name__), hint="scaler=torch.amp.GradScaler()")


def _share_buffers(torch: Any, model: Any, together: Agreement) -> None:
    """What DistributedDataParallel does at the beginning of a pass: here, where no rank can be missing."""
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
        return
    if together.ranks > 1 and getattr(model, "broadcast_buffers", False):
        distributed = torch.distributed
        number = getattr(distributed, "get_global_rank", None) or distributed.distributed_c10d._get_global_rank
        first = number(together.group, 0)
        for buffer in inner(model).buffers():
            distributed.broadcast(buffer, first, group=together.group)
    model.require_forward_param_sync = False


def _until_it_fits(step: _Step, parts: int, allowed: Tuple[str, str], known: _Known, report: bool) -> Tuple[float, List[Part], int]:
    _share_buffers(sys.modules["torch"], step.model, step.together)
    state, tries = kept(), 0
    buffers = step.together.each(lambda: _Buffers(step.model))
    length = length_of(step.batch)
    parts = step.together.most(min(parts, max(1, length)))
    lack: Optional[BaseException] = None
    failed: Optional[BaseException] = None
    result: Any = None
    try:
        while True:
            tries += 1
            if parts > 1:
                _check(step, parts, allowed, known, lack)
            pieces = weighed(step.together.each(lambda: divided(step.batch, parts, step.count)), step.together, step.over)
            said, result = _try(step, pieces)
            most = step.together.most(said)
            if most == _FITS:
                unused(state)
                known.fitted(-(-length // max(len(pieces), 1)), tries > 1)
                return float(result), pieces, tries
            step.grads.clear()
            why = first_line(result) if isinstance(result, BaseException) else text("in another rank")
            failed = result if said == FAILED else None
            lack = result if isinstance(result, BaseException) else None  # without its frames: it keeps no tensor
            result = None
            release_memory(thorough=tries > 1)
            state.restore()
            if most == _SPLIT:
                step.together.each(buffers.restore)
            else:  # all ranks end here
                buffers.restore()
            if failed is not None:
                raise failed
            if most == FAILED:
                raise RankFailed(text("another rank failed, and not for want of memory: its own output says how"), "E0564")
            if most == _TOO_LARGE:
                raise DoesNotFit(text("memory runs out with one item at a time as well: {}", why), "E0562",
                                 text("shorter sequences, less precision, checkpointed activations, or a GPU with more memory")) from lack
            parts *= 2
            if report and step.together.rank == 0:
                print(text("berth: a batch of {} does not fit ({}); trying it in {} parts", length, why, min(parts, length)), file=sys.stderr)
    finally:  # tracebacks keep this frame, and it keeps none of them
        lack = failed = result = None


def _try(step: _Step, pieces: List[Part]) -> Tuple[int, Any]:
    """Whether the gradients fitted, and the loss or the exception."""
    step.grads.clear()
    try:
        good, result = attempt(step.gradients, (pieces,), {})
    except Exception as problem:
        if step.together.ranks == 1:
            raise
        return FAILED, problem
    try:
        if good:
            return _FITS, result
        return (_SPLIT if len(pieces) < length_of(step.batch) else _TOO_LARGE), result
    finally:
        del result


def _check(step: _Step, parts: int, allowed: Tuple[str, str], known: _Known, lack: Optional[BaseException]) -> None:
    """Once for a model, a loss and a count, with a batch whose parts count differently; each batch of a mean without a count, whose items may
    weigh otherwise than those before. All ranks refuse where one does. Where it is for want of memory, that is the cause: a `fit_batch`
    around it goes on with a smaller batch, which needs no parts."""
    each = step.count is None and step.reduction == "mean"
    seen = not each and any(one.is_for(step.loss_fn, step.count) for one in known.losses)
    if not step.together.most(0 if seen else 1):
        return
    problem: Optional[Exception] = None
    tells = False
    try:
        check_batch_norm(step.model, allowed[0])
        check_hooks(step.model, allowed[1])
        tells = check_loss(step.model, step.loss_fn, step.batch, parts, step.count, step.reduction, allowed)
    except Exception as why:
        problem = why
    said = step.together.most(0 if problem is None else _REFUSED)
    try:
        if problem is not None:
            raise problem from lack
    finally:
        del problem, lack
    if said:
        raise RankFailed(text("another rank refuses to split the batch: its own output says why"), "E0564")
    if not each and tells and not _is_even(step, parts):
        known.losses = [*known.losses[-9:], Looked(step.loss_fn, step.count)]


def _is_even(step: _Step, parts: int) -> bool:
    """All parts count alike, as where nothing is padded: that tells nothing of a batch whose parts do not, so it is looked at as well."""
    if step.count is None or step.reduction != "mean":
        return False
    return len({part.items / length_of(part.data) for part in divided(step.batch, parts, step.count)}) == 1


def _apply(step: _Step, clip_norm: Optional[float]) -> Tuple[Optional[float], bool]:
    """Clips and steps, once: never again, whatever happens."""
    torch, norm = sys.modules["torch"], None
    parameters = [one for group in step.optimizer.param_groups for one in group["params"]]
    try:
        step.hooks.after()
        if clip_norm is not None:
            if step.scaler is not None:
                step.scaler.unscale_(step.optimizer)
            norm = float(torch.nn.utils.clip_grad_norm_(parameters, clip_norm))
        if step.scaler is None:
            step.optimizer.step()
            return norm, True
        before = step.scaler.get_scale()
        step.scaler.step(step.optimizer)
        step.scaler.update()
        return norm, bool(step.scaler.get_scale() >= before)
    except Exception as problem:
        if not is_oom(problem):
            raise
        raise StepInterrupted(text("memory ran out while the optimizer stepped, and some parameters may be new: {}", first_line(problem)), "E0563",
                              text("start from the last checkpoint, with smaller parts: parts=2")) from problem
