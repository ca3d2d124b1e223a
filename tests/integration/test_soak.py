"""`make soak`, for a few seconds: that it runs, and finds nothing."""

import pathlib

import pytest

from tests.soak.kinds import KINDS
from tests.soak.run import soak
from tests.soak.site import Plan

pytestmark = pytest.mark.real

#: As many processes ready as there may be: none is left over that would be kept for a minute.
PLANS = (
    Plan("codex", warm=3, most=3, clients=2, rest_within_s=10),
    Plan("stand-in", warm=3, most=3, workers=2, clients=2, reloads=True, rest_within_s=10),
)


def test_a_short_soak(tmp_path: pathlib.Path) -> None:
    report, violations = soak(PLANS, traffic_s=3, seed="short", folder=tmp_path)
    assert violations == []
    assert all(f"| {kind.name} |" in report for kind in KINDS)
