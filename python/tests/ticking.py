"""Shows that an event loop is not held up."""
import asyncio


def begin():
    """The task, which ticks fifty times a second, and its ticks."""
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.02)
    return asyncio.ensure_future(tick()), ticks
