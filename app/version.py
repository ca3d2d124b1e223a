"""The gateway's version; it stands in setup.cfg."""

from __future__ import annotations

import importlib.metadata

VERSION = importlib.metadata.version("codex-gateway")
