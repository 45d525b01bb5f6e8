"""`berth plan fit` for programs: the memory of a model by name, by file, or as a torch.nn.Module, also on the meta device."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from . import _library
from .errors import InvalidRequest
from .language import text
from .machine import _size, _table

__all__ = ["Estimate", "plan"]

# For each type of PyTorch: its name in safetensors files, and its size in bytes.
_TYPES = {"float64": ("F64", 8), "float32": ("F32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2), "float8_e4m3fn": ("F8_E4M3", 1),
          "float8_e5m2": ("F8_E5M2", 1), "complex64": ("C64", 8), "int64": ("I64", 8), "int32": ("I32", 4), "int16": ("I16", 2),
          "int8": ("I8", 1), "uint8": ("U8", 1), "bool": ("BOOL", 1)}
_PART_TITLES = ("part", "memory")


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The memory of a model on each GPU. What is not known is None.

    `parts` has the bytes of weights, gradients, optimizer, activations, kv_cache, workspace, fragmentation and context. `least_bytes` is the sum of the
    known parts. `fits` is None if it is unknown, or if `gpu=` was not given. `ways` are options with which the model fits, and the bytes to reserve for
    each. `data` is the complete JSON document.
    """

    params: int
    parts: Mapping[str, Optional[int]]
    peak_bytes: Optional[int]
    safe_bytes: Optional[int]
    least_bytes: int
    gpu: Optional[str]
    fits: Optional[bool]
    ways: Tuple[Tuple[str, int], ...]
    data: Mapping[str, Any] = dataclasses.field(repr=False, compare=False, default_factory=dict)

    def __repr__(self) -> str:
        rows: List[Tuple[str, str]] = [(name, _size(count)) for name, count in self.parts.items() if count != 0]
        rows += [("peak", _size(self.peak_bytes)), ("to reserve", _size(self.safe_bytes))]
        lines = [_table(rows, _PART_TITLES)]
        if self.gpu is not None:
            verdict = text("it is not known whether it fits") if self.fits is None else text("it fits") if self.fits else text("it does not fit")
            lines.append(f"{self.gpu}: {verdict}")
            lines += [f"    {options}  {_size(count)}" for options, count in self.ways]
        return "\n".join(lines)


def _is_module(model: Any) -> bool:
    torch = sys.modules.get("torch")  # if PyTorch is not loaded, the object cannot be a torch.nn.Module
    return torch is not None and isinstance(model, torch.nn.Module)


def _tensors(module: Any) -> Dict[str, Any]:
    """Parameters and buffers by name, each once, even if layers share a parameter."""
    found = dict(module.named_parameters())
    found.update(module.named_buffers())
    return found


def _write_shapes(module: Any, folder: str) -> str:
    """Writes a safetensors file with the module's shapes. It has the full size but contains no data, because the file is sparse."""
    header: Dict[str, Any] = {}
    end = 0
    for name, tensor in _tensors(module).items():
        kind = str(tensor.dtype).rpartition(".")[2]
        if kind not in _TYPES:
            raise InvalidRequest(text("plan: {} has the type {}, which is not known", name, tensor.dtype), "E1047", "berth.plan('Llama-3.1-8B')")
        word, size = _TYPES[kind]
        begin, end = end, end + size * tensor.numel()
        header[name] = {"dtype": word, "shape": list(tensor.shape), "data_offsets": [begin, end]}
    if not header:
        raise InvalidRequest(text("plan: the module has no parameters"), "E1047", "berth.plan('Llama-3.1-8B')")
    path = os.path.join(folder, f"{type(module).__name__}.safetensors")
    said = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(said).to_bytes(8, "little") + said)
        file.truncate(8 + len(said) + end)
    # For a model of transformers, `config` has the number of experts that each token uses.
    config: Any = getattr(module, "config", None)
    if hasattr(config, "to_json_string"):
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            file.write(config.to_json_string())
    return path


def plan(model: Union[str, "os.PathLike[str]", Any], *, task: str = "inference", batch: int = 1, seq: int = 2048, gpu: Optional[str] = None,
         precision: Optional[str] = None, optimizer: Optional[str] = None, rank: Optional[int] = None, checkpointing: bool = False, gpus: int = 1,
         zero: Optional[int] = None, kv: Optional[str] = None, torch: Optional[str] = None) -> Estimate:
    """Estimates the GPU memory of a model, as `berth plan fit`. Nothing is loaded or run.

    Parameters
    ----------
    model : str, path or torch.nn.Module
        A name from Berth's catalogue, a model file, a number of parameters such as "7B", or a module. The module may be on the meta device.
    task : str
        "inference", "train", "finetune", "lora" or "qlora".
    gpu : str, optional
        A GPU's name or PCI id, or "here" for the GPU of this machine. Sets `fits` in the result.
    precision, optimizer, rank, checkpointing, gpus, zero, kv
        The options of `berth plan fit` with these names. If `precision` is not given, inference uses the types of the file or module.
    torch : str, optional
        The version of PyTorch ("2.0"). AdamW's temporary memory depends on it. If the model is a module, it is the version that is loaded.

    Raises
    ------
    InvalidRequest, NotFound
        InvalidRequest: an option does not exist, or the module has no parameters. NotFound: the catalogue does not contain the model or GPU.

    Examples
    --------
    >>> berth.plan("Llama-3.1-8B", gpu="RTX 4090").fits                                 # doctest: +SKIP
    True
    """
    if torch is None and _is_module(model):
        torch = str(sys.modules["torch"].__version__)
    words: List[str] = ["--task", task, "--batch", str(batch), "--seq", str(seq), "--gpus", str(gpus)]
    for option, value in (("--gpu", gpu), ("--precision", precision), ("--optimizer", optimizer), ("--rank", rank), ("--zero", zero), ("--kv", kv),
                          ("--torch", torch)):
        if value is not None:
            words += [option, str(value)]
    if checkpointing:
        words.append("--checkpointing")
    if _is_module(model):
        with tempfile.TemporaryDirectory(prefix="berth-plan-") as folder:
            said = _library.document("plan", "fit", _write_shapes(model, folder), *words)
        return _estimate(said)
    if not isinstance(model, (str, os.PathLike)):
        raise InvalidRequest(text("plan: {!r} is not a name, a file or a torch.nn.Module", type(model)), "E1047", "berth.plan('Llama-3.1-8B')")
    name = os.fspath(model)
    is_size = name[:1].isdigit() and name[-1:] in "KMBT" and name[:-1].replace(".", "", 1).isdigit()
    return _estimate(_library.document("plan", "fit", *(["--params", name] if is_size else [name]), *words))


def _estimate(said: Mapping[str, Any]) -> Estimate:
    card = said["gpu"] or {}
    return Estimate(said["params"], {key[:-len("_bytes")]: count for key, count in said["parts"].items()}, said["peak_bytes"], said["safe_bytes"],
                    said["least_bytes"], card.get("name"), card.get("fits"),
                    tuple((one["options"], one["safe_bytes"]) for one in card.get("ways", ())), said)
