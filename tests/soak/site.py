"""One gateway under load: its clients, its saboteur, and what must be true of it then and at the end."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.soak.census import Census, Observer, count_greenlets, find_births, is_alive
from tests.soak.door import Door
from tests.soak.kinds import KINDS, ask_plainly, follow_up
from tests.soak.ledger import Deed, Ledger, Outcome
from tests.soak.saboteur import Saboteur
from tests.soak.talk import DroppedError, Talk
from tests.soak.watch import Watch
from tests.support.gateway import Gateway

WARM_UP_TALKS = 12
#: What a worker's memory may grow by, from a third of its work to its end.
MOST_GROWTH_MB = 5.0
GREENLETS_END_WITHIN_S = 10.0
#: Answers among which some must have gone on with a parked turn, even where two workers share them; a busy
#: machine has fewer in a few seconds.
ENOUGH_TO_PARK = 100


@dataclass(frozen=True, slots=True)
class Plan:
    """How one gateway is driven."""

    name: str
    #: Codex processes that a worker keeps, and may have.
    warm: int
    most: int
    workers: int = 1
    clients: int = 4
    reloads: bool = False
    #: What a crowd left idle is kept for a minute.
    rest_within_s: float = 80.0


class Site:
    def __init__(self, plan: Plan, gateway: Gateway, watch: Watch, seed: str) -> None:
        self.plan = plan
        self.gateway = gateway
        self.watch = watch
        self.ledger = Ledger()
        self.observer = Observer(gateway)
        self.door = Door(gateway.base_url)
        self._seed = f"{seed} {plan.name}"
        self._stopped = threading.Event()
        self.before = self.after = Census(0, (), 0)
        self.greenlets_before = self.greenlets_after = 0

    def warm_up(self) -> None:
        """What is opened once is open now, so that later numbers can be held to these."""
        for number in range(WARM_UP_TALKS):
            self._talk(random.Random(f"{self._seed} warm-up {number}"), "plain", number)
        self.greenlets_before = count_greenlets(self.gateway)
        self.before = self.observer.look()

    def _talk(self, rng: random.Random, kind: str, number: int) -> None:
        talk = Talk(self.door, self.ledger, self.watch, rng)
        talk.kind = kind
        with suppress(DroppedError):  # it is noted
            (ask_plainly if number % 2 else follow_up)(talk)

    @contextmanager
    def under_load(self) -> Iterator[None]:
        """Clients and saboteur at work; the observer stays until `finish`."""
        rng = random.Random(f"{self._seed} saboteur")
        saboteur = Saboteur(self.gateway, self.ledger, rng, self.plan.reloads)
        clients = [threading.Thread(target=self._serve, args=(each,)) for each in range(self.plan.clients)]
        self.observer.start()
        for client in clients:
            client.start()
        saboteur.start()
        try:
            yield
        finally:
            self._stopped.set()
            saboteur.stop()
            for client in clients:
                client.join()
            self.observer.note_end_of_load()

    def _serve(self, number: int) -> None:
        """One client after another, until it is over."""
        rng = random.Random(f"{self._seed} client {number}")
        while not self._stopped.wait(rng.uniform(0, 0.1)):
            [kind] = rng.choices(KINDS, [each.weight for each in KINDS])
            talk = Talk(self.door, self.ledger, self.watch, random.Random(rng.random()))
            talk.kind = kind.name
            try:
                kind.play(talk)
            except DroppedError:
                continue  # it is noted
            except Exception as error:  # noqa: BLE001  a client that breaks would leave the rest untried
                self.ledger.complain(f"the soak itself broke: {type(error).__name__}: {error} ({kind.name})")

    def finish(self) -> None:
        """Wait until it is at rest, count, and say what is not as it must be."""
        self.after = self._rest()
        self.greenlets_after = self._rest_of_greenlets()
        self.observer.stop()
        for violation in [*self._check_rest(), *self._check_run(), *self._check_log()]:
            self.ledger.complain(violation)

    def check_gone(self) -> None:
        """Behind the gateway's end."""
        left = [birth.pid for birth in self.observer.codex if is_alive(birth)]
        if left:
            self.ledger.complain(f"codex processes outlived the gateway: {left}")

    def _rest(self) -> Census:
        deadline_s = time.monotonic() + self.plan.rest_within_s
        while not self._is_at_rest(census := self.observer.look()) and time.monotonic() < deadline_s:
            time.sleep(0.2)
        return census

    def _rest_of_greenlets(self) -> int:
        """What is at rest for the kernel may still be about to end for the worker."""
        deadline_s = time.monotonic() + GREENLETS_END_WITHIN_S
        while (number := count_greenlets(self.gateway)) > self.greenlets_before:
            if time.monotonic() > deadline_s:
                break
            time.sleep(0.2)
        return number

    def _is_at_rest(self, census: Census) -> bool:
        warm = all(worker.codex == self.plan.warm for worker in census.workers)
        return (
            warm
            and len(census.workers) == self.plan.workers
            and census.folders == census.codex
            and census.files <= self.before.files
        )

    def _check_rest(self) -> Iterator[str]:
        after, warm = self.after, self.plan.workers * self.plan.warm
        if after.codex != warm:
            yield f"{after.codex} codex processes at rest, not {warm}"
        if after.folders != after.codex:
            yield f"{after.folders} process folders for {after.codex} processes"
        if after.zombies:
            yield f"{after.zombies} zombies"
        if after.files > self.before.files:
            yield f"{after.files} open files at rest, {self.before.files} before"
        if self.greenlets_after > self.greenlets_before:
            yield f"{self.greenlets_after} greenlets at rest, {self.greenlets_before} before"
        at_first_mb, at_last_mb = self.observer.find_memory()
        if at_last_mb > at_first_mb + MOST_GROWTH_MB:
            yield f"a worker grew from {at_first_mb:.1f} MB to {at_last_mb:.1f} MB"

    def _check_run(self) -> Iterator[str]:
        if self.observer.most_codex > self.plan.most:
            yield f"{self.observer.most_codex} codex processes of one worker, more than {self.plan.most}"
        hit, kills = self.ledger.count_outcomes()[Outcome.KILLED], self.ledger.count(Deed.KILL)
        if hit > kills:
            yield f"{hit} answers were hit by {kills} kills"
        tiers = [asked.tier for asked in self.ledger.asked if asked.tier]
        if len(tiers) >= ENOUGH_TO_PARK and "parked" not in tiers:
            yield f"no turn was ever parked, only {sorted(set(tiers))}"
        ours = find_births(self.gateway.codex_pids)
        lost = [birth.pid for birth in self.observer.codex - ours if is_alive(birth)]
        if lost:
            yield f"codex processes that nobody owns: {lost}"

    def _check_log(self) -> Iterator[str]:
        """No fault of the gateway's own, and one line for every request."""
        lines = self.gateway.lines()
        for line in lines:
            if "exception" in line or line["level"] == "error":
                yield f"the gateway logged a fault: {line}"
        if "Traceback" in "".join(line for line in self.gateway.log.splitlines() if line[:1] != "{"):
            yield f"a traceback in {self.gateway.log_path}"
        counts = Counter(line.get("request_id") for line in lines if line["logger"] == "access")
        for asked in self.ledger.asked:
            times = counts[asked.request_id]
            if times != 1 and (times or asked.outcome is not Outcome.LEFT):
                yield f"{times} lines in the log for {asked.request_id} ({asked.kind})"
