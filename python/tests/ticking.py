"""Shows that an event loop is not blocked."""
import asyncio


def begin():
    """Starts a task that ticks fifty times a second. Returns the task and its list of ticks."""
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.02)
    return asyncio.ensure_future(tick()), ticks
