"""Code that uses the package's types. `mypy --strict` checks it, and it is never run."""
import berth


@berth.fit_batch
def plain(batch_size: int) -> int:
    return batch_size


@berth.fit_batch(start=3)
def train(batch_size: int, model: str) -> str:
    return model


class Trainer:
    @berth.fit_batch(start=3)
    def train(self, batch_size: int, rate: float = 0.1) -> int:
        return batch_size


@berth.fit_batch(start=3)
def elsewhere(model: str, batch_size: int) -> int:
    return batch_size


@berth.retry(first=0.0)
def step(x: int) -> int:
    return x


number: int = plain() + Trainer().train() + step(1)
words: str = train(model="m")
number = Trainer().train(rate=0.2) + elsewhere("m")
train(3)  # type: ignore[arg-type]
train("m", 3)  # type: ignore[call-arg]
Trainer().train("fast")  # type: ignore[arg-type]
wrong: str = plain()  # type: ignore[assignment]
found = train.batch_size
if found is not None:
    number = found
berth.run(["true"], devices=0, memory=1.5e9)
berth.not_there()  # type: ignore[attr-defined]

twice: berth.Kernel = berth.kernel("KERNEL void twice(GLOBAL float* x, int n) { }")
x: berth.Array = berth.asarray([1, 2])
seconds: float = twice(x, 2, size=2).wait().seconds
twice(x, 2)  # type: ignore[call-arg]
