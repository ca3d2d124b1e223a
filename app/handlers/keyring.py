"""Whose key a request brings: the keys of the settings and of the keys file, as it stands now."""

from __future__ import annotations

import hmac
import logging

from app.lib.keys import AccessKey, KeysFault, Role, find_key, name_keys, parse_keys
from app.settings import Settings, SettingsError
from app.watched_file import WatchedFile

log = logging.getLogger(__name__)

Keys = tuple[AccessKey, ...]


class Keyring:
    def __init__(self, settings: Settings) -> None:
        self.is_open = settings.is_open
        self._fixed = name_keys(settings.admin_keys, "admin", Role.ADMIN) + name_keys(
            settings.api_keys, "env", Role.CLIENT
        )
        path = settings.api_keys_file
        self._token = settings.page_token.encode()
        self._file = WatchedFile[Keys](path, read_keys, (), complain) if path else None

    def is_token(self, given: bytes) -> bool:
        """Whether this is what the start printed; without one nothing is."""
        return bool(self._token) and hmac.compare_digest(given, self._token)

    def find(self, given: bytes) -> AccessKey | None:
        return find_key(self._keys, given)

    def holds(self, key: AccessKey) -> bool:
        """Whether a key that was found is still what it was."""
        return self.is_open or key in self._keys

    @property
    def _keys(self) -> Keys:
        return self._fixed + (self._file.read() if self._file else ())


def read_keys(data: bytes) -> Keys:
    return parse_keys(data.decode())


def complain(error: Exception) -> None:
    log.error("the keys file cannot be read, and the keys stay as they were: %s", error)


def check_keys_file(settings: Settings) -> None:
    """Stop a start with a keys file that says nothing."""
    path = settings.api_keys_file
    if path is None:
        return
    try:
        read_keys(path.read_bytes())
    except (OSError, KeysFault, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"PROXY_API_KEYS_FILE={path}: {reason}") from error
