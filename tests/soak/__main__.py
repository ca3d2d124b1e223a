"""`make soak`: mixed traffic while codex processes are killed and workers replaced, as a report."""

import argparse
import pathlib
import random
import shutil
import sys
import tempfile
import time

from tests.bench.__main__ import describe_run
from tests.bench.table import replace_section
from tests.soak.run import PLANS, soak

#: What breaks, breaks a hundred times.
MOST_SHOWN = 30


def main() -> None:
    options = read_options()
    seed = options.seed or f"{random.SystemRandom().randrange(1 << 32):08x}"
    print(f"seed {seed}: {options.minutes:g} minutes of traffic, then about one of rest", flush=True)
    began_s = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="soak-"))
    report, violations = soak(PLANS, options.minutes * 60, seed, folder)
    about = describe_run(time.monotonic() - began_s, quick=False)
    text = f"{report}\n\nSeed `{seed}`, {options.minutes:g} minutes of traffic; {about}"
    print(text)
    if violations:
        print(*violations[:MOST_SHOWN], sep="\n")
        sys.exit(f"{len(violations)} times not as it must be; seed {seed}, logs in {folder}")
    shutil.rmtree(folder)
    if options.write:
        replace_section(options.write, text, "make soak")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2, help="how long there is traffic (2)")
    parser.add_argument("--seed", default="", help="ask and kill in the order of a run before")
    parser.add_argument(
        "--write", type=pathlib.Path, metavar="FILE", help="put the report into this document"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
