"""The run as tables: what was asked, what was done to each gateway, and what it is like after it."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.soak.kinds import KINDS
from tests.soak.ledger import Asked, Deed, Outcome
from tests.soak.site import MOST_GROWTH_MB, Site

SHOWN = (Outcome.ANSWERED, Outcome.LEFT, Outcome.BUSY, Outcome.KILLED, Outcome.STOPPED, Outcome.WRONG)


def render(sites: Sequence[Site]) -> str:
    return f"{render_kinds(sites)}\n\n{render_sites(sites)}"


def render_kinds(sites: Sequence[Site]) -> str:
    asked = [each for site in sites for each in site.ledger.asked]
    rows = [build_row(kind.name, [each for each in asked if each.kind == kind.name]) for kind in KINDS]
    headings = ["requests", "asked", *(outcome.value for outcome in SHOWN), "slowest"]
    return render_table(headings, [*rows, build_row("**all**", asked)])


def build_row(name: str, asked: Sequence[Asked]) -> list[str]:
    outcomes = Counter(each.outcome for each in asked)
    slowest_s = max((each.ended_s - each.began_s for each in asked), default=0.0)
    counts = [f"{outcomes[outcome]:,}" for outcome in SHOWN]
    return [name, f"{len(asked):,}", *counts, f"{slowest_s:.1f} s"]


def render_sites(sites: Sequence[Site]) -> str:
    columns = [describe(site) for site in sites]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return render_table(["gateway", *(site.plan.name for site in sites)], rows)


def describe(site: Site) -> dict[str, str]:
    ledger, observer, before, after = site.ledger, site.observer, site.before, site.after
    at_first_mb, at_last_mb = observer.find_memory()
    return {
        "requests": f"{len(ledger.asked):,}",
        "codex processes killed, stopped for a moment; reloads": ", ".join(
            f"{ledger.count(deed)}" for deed in (Deed.KILL, Deed.PAUSE, Deed.RELOAD)
        ),
        "answers hit by a kill": f"{ledger.count_outcomes()[Outcome.KILLED]}",
        "errors, by code": list_counts(each.code for each in ledger.asked),
        "what requests found": list_counts(each.tier for each in ledger.asked),
        "codex processes, kept ready, at the end": f"{site.plan.workers * site.plan.warm}, {after.codex}",
        "most codex processes of a worker, allowed": f"{observer.most_codex}, {site.plan.most}",
        "process folders, zombies at the end": f"{after.folders}, {after.zombies}",
        "open files of a worker but for pipes, before, at the end": f"{before.files}, {after.files}",
        "greenlets of a worker, before, at the end": f"{site.greenlets_before}, {site.greenlets_after}",
        "memory of a worker, after a third of its work, at the end": f"{at_first_mb:.1f} MB, "
        f"{at_last_mb:.1f} MB (at most +{MOST_GROWTH_MB:.0f} MB)",
    }


def list_counts(values: Iterable[str | None]) -> str:
    counts = Counter(value for value in values if value)
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items())) or "-"


def render_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(each) + " |" for each in cells)
