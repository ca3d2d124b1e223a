"""What is done to a gateway while it serves: its codex processes killed and stopped, its workers replaced."""

import contextlib
import os
import random
import signal
import threading

from tests.soak.ledger import Deed, Ledger
from tests.support.gateway import Gateway, wait_until

HARM_EVERY_S = (0.3, 3.0)
RELOAD_EVERY_S = (2.0, 15.0)
RELOADED_WITHIN_S = 30.0


class Saboteur:
    def __init__(self, gateway: Gateway, ledger: Ledger, rng: random.Random, reloads: bool) -> None:
        self._gateway = gateway
        self._ledger = ledger
        self._rng = rng
        self._reload_rng = random.Random(rng.random())
        self._stopped = threading.Event()
        tasks = [self._harm, self._reload] if reloads else [self._harm]
        self._threads = [threading.Thread(target=task, daemon=True) for task in tasks]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _harm(self) -> None:
        while not self._stopped.wait(self._rng.uniform(*HARM_EVERY_S)):
            if self._rng.random() < 0.2:
                self._pause()
            else:
                self._kill()

    def _kill(self) -> None:
        """Whatever it does: idle, owned by a request, or parked."""
        for pid in self._pick(1 if self._rng.random() < 0.8 else 3):
            with self._ledger.doing(Deed.KILL):
                send(pid, signal.SIGKILL)

    def _pause(self) -> None:
        """It answers nobody for a moment: that is no reason to give up on it."""
        with self._ledger.doing(Deed.PAUSE):
            pids = self._pick(1)
            for pid in pids:
                send(pid, signal.SIGSTOP)
            self._stopped.wait(self._rng.uniform(0.2, 1.5))
            for pid in pids:
                send(pid, signal.SIGCONT)

    def _reload(self) -> None:
        """As an operator does it: new workers, and the old ones end when their answers did."""
        while not self._stopped.wait(self._reload_rng.uniform(*RELOAD_EVERY_S)):
            with self._ledger.doing(Deed.RELOAD):
                old = self._gateway.worker_pids
                self._gateway.process.send_signal(signal.SIGHUP)
                self._wait_for_the_end_of(old)

    def _wait_for_the_end_of(self, workers: set[int]) -> None:
        try:
            wait_until(lambda: not workers & self._gateway.worker_pids, RELOADED_WITHIN_S)
        except AssertionError:
            self._ledger.complain(f"of the workers {workers} some did not end after a reload")

    def _pick(self, number: int) -> list[int]:
        pids = sorted(self._gateway.codex_pids)
        return self._rng.sample(pids, min(number, len(pids)))


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.kill(pid, number)
