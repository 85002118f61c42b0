#!/bin/sh
# The work of ClientWorkTests.swift in the manner of SQLite's shell: STORE LIBRARY [AUTHOR]
{
    [ $# -lt 3 ] || printf ".load %s\nSELECT history_author('%s', 'client');\n" "$2" "$3"
    cat <<'END'
.timeout 60000
PRAGMA foreign_keys = ON;

BEGIN;
INSERT INTO author VALUES (1, 'Ann', 1.5), (2, 'Bob', NULL);
INSERT INTO book (title, author_id) VALUES ('One', 1), ('Two', 2), ('Three', 1);
COMMIT;

BEGIN;
UPDATE author SET name = 'Anna', score = 1.5 WHERE id = 1;
SAVEPOINT s;
INSERT INTO tag VALUES ('x', 'undone');
ROLLBACK TO s;
RELEASE s;
INSERT INTO tag VALUES ('a', 'first');
END;

BEGIN;
DELETE FROM book;
ROLLBACK;

INSERT INTO tag VALUES ('a', 'again'), ('b', NULL) ON CONFLICT DO UPDATE SET label = excluded.label;

BEGIN;
UPDATE book SET title = upper(title) WHERE id = 2;
INSERT OR IGNORE INTO author VALUES (3, 'Bob', NULL);
UPDATE author SET score = 2 WHERE id = 2;
COMMIT;

DELETE FROM author WHERE id = 1;
REPLACE INTO author VALUES (4, 'Bob', 4);
UPDATE author SET name = name;
END
} | sqlite3 -bail "$1"
