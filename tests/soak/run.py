"""A run: gateways side by side, each with its clients and its saboteur, then at rest, then gone."""

import pathlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from tests.soak.report import render
from tests.soak.site import Plan, Site
from tests.soak.watch import Watch, WatchingModel
from tests.support.gateway import SERVE_COUNTED, run_gateway, write_provider, write_stand_in

PLANS = (
    Plan("codex", warm=2, most=6),
    Plan("stand-in", warm=2, most=6, reloads=True),
    Plan("codex, two workers", warm=2, most=6, workers=2, reloads=True),
)
#: Parked turns and processes end within the run; all else has time enough.
ENVIRONMENT = {
    "PROXY_PARK_TTL_S": "2",
    "PROXY_PROCESS_MAX_TURNS": "25",
    "PROXY_MAX_QUEUE": "6",
    "PROXY_QUEUE_TIMEOUT_MS": "8000",
    "PROXY_FIRST_EVENT_TIMEOUT_MS": "20000",
    "PROXY_STREAM_IDLE_TIMEOUT_MS": "20000",
    "PROXY_GRACEFUL_TIMEOUT_MS": "20000",
}


def soak(plans: Sequence[Plan], traffic_s: float, seed: str, folder: pathlib.Path) -> tuple[str, list[str]]:
    """The report, and what was not as it must be."""
    watch = Watch()
    with ExitStack() as stack:
        model = stack.enter_context(WatchingModel(watch))
        sites = [stack.enter_context(run_site(plan, folder, model, seed)) for plan in plans]
        at_once(sites, Site.warm_up)
        with ExitStack() as load:
            for site in sites:
                load.enter_context(site.under_load())
            time.sleep(traffic_s)
        at_once(sites, Site.finish)
        report = render(sites)
    for site in sites:
        site.check_gone()
    violations = [f"{site.plan.name}: {each}" for site in sites for each in site.ledger.violations]
    return report, [*violations, *watch.violations]


@contextmanager
def run_site(plan: Plan, folder: pathlib.Path, model: WatchingModel, seed: str) -> Iterator[Site]:
    own = folder / plan.name
    own.mkdir()
    backend = (
        {"CODEX_BIN": write_stand_in(own)}
        if plan.name == "stand-in"
        else {"PROXY_CODEX_CONFIG_FILE": write_provider(own, model.base_url)}
    )
    numbers = {
        "WEB_CONCURRENCY": str(plan.workers),
        "PROXY_WARM_PROCESSES": str(plan.warm),
        "PROXY_MAX_PROCESSES": str(plan.most),
    }
    with run_gateway(own, command=SERVE_COUNTED, **(ENVIRONMENT | backend | numbers)) as gateway:
        yield Site(plan, gateway, model.watch, seed)


def at_once(sites: Sequence[Site], step: Callable[[Site], None]) -> None:
    with ThreadPoolExecutor(len(sites)) as executor:
        list(executor.map(step, sites))
