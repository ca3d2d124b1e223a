"""Spares and borrowed processes, on a pool that nobody keeps."""

import os
import pathlib

from app.backend.home import CodexHome
from app.backend.lending import start_spare
from app.backend.pool import Pool
from app.pipeline import Census
from app.settings import Settings
from tests.support.gateway import write_stand_in


def test_a_pool_that_was_closed_starts_no_spare(tmp_path: pathlib.Path) -> None:
    """Its keeper may be about to start one just then; nobody would end it."""
    environ = {
        "PATH": os.environ["PATH"],
        "PROXY_STATE_DIR": str(tmp_path / "state"),
        "PROXY_WARM_PROCESSES": "2",
    }
    settings = Settings.from_env(environ | {"CODEX_BIN": write_stand_in(tmp_path)})
    home = CodexHome(settings)
    home.prepare()
    pool = Pool(home, settings)
    assert start_spare(pool)
    pool.close()
    assert not start_spare(pool)
    assert pool.census() == Census(process_starts=1)
