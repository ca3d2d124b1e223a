"""The tables of what was used, one script a version; a released script is never changed."""

MIGRATIONS = (
    """
    -- What a key had of a model in an hour; hours are counted since the epoch.
    CREATE TABLE hours (
        number INTEGER PRIMARY KEY,
        hour INTEGER NOT NULL,
        key TEXT NOT NULL,
        model TEXT NOT NULL,
        requests INTEGER NOT NULL,
        errors INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        reasoning_tokens INTEGER NOT NULL,
        tool_calls INTEGER NOT NULL,
        tool_buffer_started INTEGER NOT NULL,
        tool_buffer_flushed INTEGER NOT NULL,
        tool_buffer_aborted INTEGER NOT NULL,
        UNIQUE (hour, key, model)
    );

    -- The log lines of the newest requests.
    CREATE TABLE entries (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at_s REAL NOT NULL,
        key TEXT NOT NULL,
        entry BLOB NOT NULL
    );
    CREATE INDEX entries_by_time ON entries (at_s);
    CREATE INDEX entries_by_key ON entries (key, number);

    -- What codex told last of the account's allowance; one row.
    CREATE TABLE account (number INTEGER PRIMARY KEY, told_s REAL NOT NULL, limits BLOB NOT NULL);
    """,
)
