-- A small store to try historyd with.
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS person (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    email TEXT UNIQUE,
    created DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE IF NOT EXISTS item (
    id INTEGER PRIMARY KEY,
    person INTEGER REFERENCES person (id) ON DELETE CASCADE,
    title TEXT NOT NULL
);
