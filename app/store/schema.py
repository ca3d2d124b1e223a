"""The tables of the stored responses, one script a version; a released script is never changed."""

MIGRATIONS = (
    """
    -- Part of an input, as a list of items, and the part before it: what follow-ups share is kept once.
    CREATE TABLE segments (
        -- Given once and never again: whoever recalled one that is gone must not come upon another's items.
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        earlier INTEGER REFERENCES segments,
        items BLOB NOT NULL
    );
    CREATE INDEX segments_by_earlier ON segments (earlier) WHERE earlier IS NOT NULL;
    -- Nor does a file that replaces this one give its numbers again.
    INSERT INTO sqlite_sequence VALUES ('segments', abs(random() / 2));

    CREATE TABLE responses (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        created_s REAL NOT NULL,
        status TEXT NOT NULL,
        worker TEXT, -- who makes it, while it is under way
        is_background INTEGER NOT NULL,
        is_cancel_asked INTEGER NOT NULL DEFAULT 0,
        segment INTEGER REFERENCES segments, -- the last of its input, which holds its own items if it has any
        body BLOB NOT NULL
    );
    CREATE INDEX responses_by_age ON responses (created_s);
    CREATE INDEX responses_by_segment ON responses (segment) WHERE segment IS NOT NULL;
    CREATE INDEX responses_under_way ON responses (worker) WHERE worker IS NOT NULL;

    -- Where an item stands that a client may name: by its id, or a call by its call_id.
    CREATE TABLE item_keys (
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        response INTEGER NOT NULL REFERENCES responses ON DELETE CASCADE,
        PRIMARY KEY (kind, key, response)
    ) WITHOUT ROWID;
    CREATE INDEX item_keys_by_response ON item_keys (response);

    -- With numbers of its own: to find a row by a key of two, SQLite would read whole frames on its way.
    CREATE TABLE events (
        number INTEGER PRIMARY KEY,
        response INTEGER NOT NULL REFERENCES responses ON DELETE CASCADE,
        sequence INTEGER NOT NULL,
        frame BLOB NOT NULL,
        UNIQUE (response, sequence)
    );
    """,
)
