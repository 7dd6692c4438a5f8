"""Run a pod monitor's event loop for a while."""

from __future__ import annotations

from ociruntime.pods.loop.event_loop import Loop


def run_for(loop: Loop, seconds: float) -> None:
    """Run the loop, and stop it after ``seconds``."""

    def stop() -> None:
        loop.stopped = True

    loop.stopped = False
    loop.after(seconds, stop)
    loop.run()
