"""Forward and backward passes of one batch, in as many parts as memory needs. The gradients add up to those of the whole batch."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import weakref
from typing import Any, Callable, ContextManager, List, MutableMapping, Optional, Tuple

from .agreement import FAILED, Agreement, RankFailed, agreement
from .batches import DoesNotFit
from .buffers import Buffers
from .comparing import check_number
from .earlier_steps import EarlierSteps
from .errors import InvalidRequest, Unsupported
from .hooks import Hooks
from .language import text
from .parts import length_of, positive
from .randomness import kept
from .retrying import attempt, first_line, release_memory
from .splittable import batch_norms, check_batch_norm, check_hooks, check_loss, inner
from .step_gradients import StepGradients
from .stepping import StepInterrupted
from .weighted_parts import Count, Part, check_over, check_reduction, divided, weighed

__all__ = ["BackwardResult", "Loss", "Passes", "agreement_of", "backward_in_parts", "check_choices", "check_model", "first_parts", "until_it_fits"]

Loss = Callable[[Any, Any], Any]
_FITS, _SPLIT, _TOO_LARGE, _REFUSED = 0, 1, 2, 8
_CHOICES = ("refuse", "warn", "allow")
# For each model, what earlier steps with it have shown.
_known: MutableMapping[Any, EarlierSteps] = weakref.WeakKeyDictionary()


@dataclasses.dataclass
class Passes:
    """What does not change between the tries of one batch.

    `optimizers` is empty if the caller calls the optimizer's step. Then the batch's gradients are added to existing ones.
    """

    model: Any
    loss_fn: Loss
    optimizers: List[Any]
    batch: Any
    count: Optional[Count]
    reduction: str
    scaler: Any
    over: str
    together: Agreement
    grads: StepGradients
    hooks: Hooks
    outputs: Optional[List[Any]] = None
    backward: Optional[Callable[[Any], Any]] = None  # called instead of loss.backward()
    one: Optional[Callable[[Part, "Passes"], Any]] = None  # runs the passes of a part, instead of `loss_fn` and `backward`
    before_split: Optional[Callable[["Passes"], None]] = None  # called before the first split; may set `reduction` and `count`

    def loss_of(self, model: Any, data: Any) -> Any:
        """Returns only the loss. With `outputs`, `loss_fn` returns (loss, output)."""
        return self._pair(model, data)[0] if self.outputs is not None else self.loss_fn(model, data)

    def _pair(self, model: Any, data: Any) -> Any:
        found = self.loss_fn(model, data)
        if not isinstance(found, tuple) or len(found) != 2:
            raise InvalidRequest(text("outputs=True: the loss function returned a {} instead of a loss and an output", type(found).__name__),
                                 hint="return loss, logits")
        return found

    def parameters(self) -> List[Any]:
        """The parameters that the optimizers update, each once. Without optimizers, all parameters of the model that require gradients."""
        if not self.optimizers:
            return [one for one in inner(self.model).parameters() if one.requires_grad]
        return list({id(one): one for optimizer in self.optimizers for group in optimizer.param_groups for one in group["params"]}.values())

    def scaled(self, loss: Any) -> Any:
        return loss if self.scaler is None else self.scaler.scale(loss)

    def quiet(self) -> ContextManager[Any]:
        """A context in which DistributedDataParallel does not exchange gradients, because `exchange` does it after all parts."""
        return self.model.no_sync() if self.together.ranks > 1 and hasattr(self.model, "no_sync") else contextlib.nullcontext()

    def gradients(self, pieces: List[Part]) -> float:
        """Runs all parts, and returns this rank's share of the loss."""
        total: Any = 0.0
        # Clear autocast's cache of converted weights. Those may be from before the last step, or made without gradients by the comparison.
        sys.modules["torch"].clear_autocast_cache()
        if self.outputs is not None:
            self.outputs.clear()
        with self.quiet(), self.hooks.off():
            for part in pieces:
                if not part.items:
                    continue  # the part contains only padding, so its mean would be NaN
                total = total + (self._of_part(part) if self.one is None else self.one(part, self))
        self.hooks.of_tensors()
        return float(total)

    def _of_part(self, part: Part) -> Any:
        """Runs the forward and backward pass of a part, and returns what the part adds to the loss."""
        if self.outputs is None:
            loss = self.loss_fn(self.model, part.data)
        else:
            loss, output = self._pair(self.model, part.data)
            self.outputs.append(_detached(output))
            del output
        check_number(loss)
        if not loss.requires_grad:
            raise InvalidRequest(text("the loss has no gradients: it depends on no trainable parameter"), hint=text(
                "compute it without torch.no_grad(), .detach() or .item(), from parameters with requires_grad"))
        share = part.share(loss, self.reduction)
        del loss
        self.grads.begin(share)
        if self.backward is None:
            self.scaled(share).backward()
        else:
            self.backward(share)
        return share.detach()

    def exchange(self, loss: float) -> float:
        """Sums the gradients over all ranks, in place, so it needs no extra memory. Returns the sum of the losses."""
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
    """Adds gradients of zeros for parameters that have gradients only in other ranks."""
    for one in parameters:
        if one.grad is None:
            one.grad = sys.modules["torch"].zeros_like(one)


def _detached(output: Any) -> Any:
    """The same output, with each tensor detached from the autograd graph."""
    if sys.modules["torch"].is_tensor(output):
        return output.detach()
    if isinstance(output, dict):
        return {key: _detached(one) for key, one in output.items()}
    if isinstance(output, (list, tuple)):
        some = [_detached(one) for one in output]
        return type(output)(*some) if hasattr(output, "_fields") else type(output)(some)
    return output


def _put_back(buffers: Buffers) -> None:
    lost = buffers.lost()
    if lost:
        raise StepInterrupted(text("a forward pass has modified {}, and no copy exists, so the step cannot be retried", ', '.join(lost)), "E0563",
                              text("start from the last checkpoint, with more parts from the beginning: parts=2"))
    buffers.put_back()


def _share_buffers(torch: Any, model: Any, together: Agreement) -> None:
    """Copies the first rank's buffers to all ranks, as DistributedDataParallel does at the start of a pass. Done here, because all ranks take part at this
    point, but perhaps not later."""
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
        return
    if together.ranks > 1 and getattr(model, "broadcast_buffers", False):
        distributed = torch.distributed
        number = getattr(distributed, "get_global_rank", None) or distributed.distributed_c10d._get_global_rank
        first = number(together.group, 0)
        for buffer in inner(model).buffers():
            distributed.broadcast(buffer, first, group=together.group)
    model.require_forward_param_sync = False


def until_it_fits(step: Passes, first: Tuple[int, int], allowed: Tuple[str, str], known: EarlierSteps, report: bool) -> Tuple[float, List[Part], int]:
    """Tries the batch in more and more parts until memory is sufficient. Returns this rank's loss, the parts, and the number of tries."""
    _share_buffers(sys.modules["torch"], step.model, step.together)
    state, tries = kept(), 0
    buffers = step.together.each(lambda: Buffers([inner(step.model)]))
    length = length_of(step.batch)
    parts, fitted = (step.together.most(min(one, max(1, length))) for one in first)
    larger = parts < fitted
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
                known.fitted(-(-length // max(len(pieces), 1)), tries - 1, larger)
                return float(result), pieces, tries
            step.grads.clear()
            why = first_line(result) if isinstance(result, BaseException) else text("in another rank")
            failed = result if said == FAILED else None
            lack = result if isinstance(result, BaseException) else None  # the exception keeps no tensor alive, because its frames were cleared
            result = None
            release_memory(thorough=tries > 1)
            state.restore()
            if most == _SPLIT:
                step.together.each(lambda: _put_back(buffers))
            else:  # no agreement is needed, because every rank raises an error next
                _put_back(buffers)
            if failed is not None:
                raise failed
            if most == FAILED:
                raise RankFailed(text("another rank failed for a reason other than memory: see its output"), "E0564")
            if most == _TOO_LARGE:
                raise DoesNotFit(text("memory runs out even with one item at a time: {}", why), "E0562",
                                 text("use shorter sequences, less precision, checkpointed activations, or a GPU with more memory")) from lack
            parts = fitted if larger and tries == 1 else 2 * parts
            if report and step.together.rank == 0 and not (larger and tries == 1):
                print(text("berth: a batch of {} does not fit ({}); trying it in {} parts", length, why, min(parts, length)), file=sys.stderr)
    finally:  # tracebacks keep this frame alive, so the frame must not keep the exceptions alive
        lack = failed = result = None


def _try(step: Passes, pieces: List[Part]) -> Tuple[int, Any]:
    """Tries once. Returns (state, loss or exception). The state tells whether the gradients fitted into memory."""
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


def _check(step: Passes, parts: int, allowed: Tuple[str, str], known: EarlierSteps, lack: Optional[BaseException]) -> None:
    """Compares the batch with its parts. If there is a count, compares the first batch that is split, and the first batch whose parts have different
    counts. If there is none, compares each batch. If one rank refuses, all ranks refuse. The lack of memory is the cause of the exception, so that a
    surrounding `fit_batch` continues with a smaller batch."""
    before_split = step.before_split
    if before_split is not None:
        step.together.each(lambda: before_split(step))
    before, even = known.compared(step.loss_fn, step.count), _is_even(step, parts)
    each = step.count is None and step.reduction == "mean"
    done = before is not None and not each and (before.unequal or (even and before.covers(step.batch)))
    if not step.together.most(0 if done else 1):
        return
    problem: Optional[Exception] = None
    tells = False
    step.grads.clear()  # free the gradients, because the comparison needs the memory
    try:
        check_batch_norm(step.model, allowed[0])
        check_hooks(step.model, allowed[1])
        tells = check_loss(step.model, step.loss_fn if step.outputs is None else step.loss_of, step.batch, parts, step.count, step.reduction, allowed,
                           step, before is None or not each)
    except Exception as why:
        problem = why
    said = step.together.most(0 if problem is None else _REFUSED)
    try:
        if problem is not None:
            raise problem from lack
    finally:
        del problem, lack
    if said:
        raise RankFailed(text("another rank refused to split the batch: see its output"), "E0564")
    if tells:
        known.add(step.loss_fn, step.count, step.batch, even)


def _is_even(step: Passes, parts: int) -> bool:
    """Whether all parts have the same count. Such a batch does not show whether `count` is right, so a later batch has to be compared as
    well."""
    if step.count is None or step.reduction != "mean":
        return False
    return len({part.items / length_of(part.data) for part in divided(step.batch, parts, step.count)}) == 1


def agreement_of(model: Any) -> Agreement:
    """The agreement of the ranks that train this model together.

    Raises
    ------
    InvalidRequest
        The model is not a torch.nn.Module.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise InvalidRequest(text("model: a {} is not a torch.nn.Module", type(model).__name__))
    return agreement(model.process_group) if isinstance(model, torch.nn.parallel.DistributedDataParallel) else Agreement()


def check_choices(batch_norm: str, in_batch: str) -> None:
    for name, value in (("batch_norm", batch_norm), ("in_batch", in_batch)):
        if value not in _CHOICES:
            raise InvalidRequest(text("{}: {!r} is not one of {}", name, value, ', '.join(_CHOICES)), "E0003")


def check_model(model: Any, together: Agreement) -> None:
    """Refuses models whose passes wait for other ranks."""
    kinds = " ".join(kind.__name__ for kind in type(model).__mro__)
    if "FullyShardedDataParallel" in kinds or "FSDPModule" in kinds or "DeepSpeedEngine" in kinds:
        raise Unsupported(text("{} exchanges parameters within a pass, so a rank that has run out of memory cannot leave the pass", type(model).__name__), "E0565",
                          text("use parts=… in berth.accumulate, with a number that fits on every rank"))
    if together.ranks > 1 and any("SyncBatchNorm" in name for name in batch_norms(model)):
        raise Unsupported(text("SyncBatchNorm exchanges statistics within a pass, so a rank that has run out of memory cannot leave the pass"), "E0565",
                          text("use GroupNorm, or BatchNorm without synchronisation"))


def first_parts(model: Any, batch: Any, parts: Optional[int]) -> Tuple[EarlierSteps, Tuple[int, int]]:
    """What earlier steps of the model have shown, and the number of parts to try first with this batch."""
    known = _known.setdefault(inner(model), EarlierSteps())
    return known, (positive("parts", parts), 0) if parts is not None else known.parts(length_of(batch))


@dataclasses.dataclass(frozen=True)
class BackwardResult:
    """What `backward_in_parts` did.

    Attributes
    ----------
    loss : float
        The mean over the items of all ranks that count.
    items : int or float
        The number of this rank's items that count.
    parts : int
        The number of parts; 1 if the batch was not split.
    tries : int
        1 if memory did not run out.
    """

    loss: float
    items: float
    parts: int
    tries: int


def backward_in_parts(model: Any, loss_fn: Loss, batch: Any, *, backward: Optional[Callable[[Any], Any]] = None,
                      one: Optional[Callable[[Part, Passes], Any]] = None, before_split: Optional[Callable[[Passes], None]] = None, scaler: Any = None,
                      parts: Optional[int] = None, count: Optional[Count] = None, reduction: str = "mean", batch_norm: str = "refuse",
                      in_batch: str = "refuse", over: str = "all", report: bool = True) -> BackwardResult:
    """Runs the forward and backward pass of a batch. If memory runs out, splits the batch. The caller calls the optimizer's step.

    The gradients of the batch are added to existing ones, as `loss.backward()` does. If there are gradients of earlier batches, memory must hold them and
    the gradients of this batch. Ranks exchange the gradients of each batch.

    Parameters
    ----------
    backward : callable, optional
        Called with the loss of each part in place of `loss.backward()`.
    one : callable, optional
        Runs the passes of a part, and returns what the part adds to the loss. `loss_fn` is then used only to check whether the batch can be split.
    before_split : callable, optional
        Called before each comparison and each try in parts. It may set `reduction` and `count`.
    """
    together = agreement_of(model)

    def begun() -> Tuple[Passes, EarlierSteps, Tuple[int, int]]:
        check_over(over)
        check_reduction(reduction)
        check_choices(batch_norm, in_batch)
        check_model(model, together)
        for name, function in (("loss_fn", loss_fn), ("count", count), ("backward", backward)):
            if not callable(function) and (function is not None or name == "loss_fn"):
                raise InvalidRequest(text("{}: a {} cannot be called", name, type(function).__name__))
        passes = Passes(model, loss_fn, [], batch, count, reduction, scaler, over, together, StepGradients(model, []), Hooks(model, []), None, backward, one,
                        before_split)
        return (passes, *first_parts(model, batch, parts))
    passes, known, first = together.each(begun)
    try:
        loss, pieces, tries = until_it_fits(passes, first, (batch_norm, in_batch), known, report)
        loss = passes.exchange(loss)
    except BaseException:  # even for Ctrl-C, so that no incomplete gradients are left
        passes.grads.put_back()
        raise
    passes.grads.add_up()
    passes.hooks.after()
    return BackwardResult(loss, sum(part.items for part in pieces), len(pieces), tries)
