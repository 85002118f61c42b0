/*
 * Declares an SQLite connection to the history of the stores to which it writes.
 *
 *   SELECT history_author('WidgetExtension');          declares the connection's author
 *   SELECT history_author('WidgetExtension', 'sync');  and a context name
 *   SELECT history_author();                           returns the author
 *   SELECT history_author(NULL);                       clears it
 *   SELECT history_token();                            the token of the last committed transaction
 *   SELECT history_token('main');                      the same, in one of several attached stores
 *
 * The triggers in a tracked store call sqlite_compileoption_get(1212765012) for the origin of each
 * change. On a plain connection that built-in function returns NULL, as for every number out of
 * range. This file overrides it, so that on a declared connection it returns
 *
 *   key TAB process id TAB milliseconds since 1970 TAB author [TAB context]
 *
 * where the key differs for each SQL transaction. Any binding that can register a function can
 * declare itself in the same way. Every other number is passed on to SQLite.
 *
 * It needs only libc and the SQLite of the host process. SQLite's commit, rollback and update hooks
 * stay free for the application.
 */
#ifndef SQLITE_CORE
#include <sqlite3ext.h>
/* A process may have several SQLite libraries: each connection uses its own. Every function that calls SQLite
 * has the connection in `c`, and sqlite3ext.h expands sqlite3_step(s) to sqlite3_api->step(s). */
#define sqlite3_api (c->library)
#else
#include <sqlite3.h>
#include "CSQLiteHistory.h"
#pragma GCC diagnostic ignored "-Wunused-parameter" /* linked in, there is one SQLite */
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ORIGIN_REQUEST 1212765012 /* "HIST" */
#define MAX_NAME 255
#define MAX_SCHEMAS 128
#define MAX_STORES 16

/* A schema to which the current transaction writes. */
typedef struct Written {
    char *name; /* an index changes when another schema is detached */
    unsigned version;
    sqlite3_int64 newest; /* the number of the newest change before this transaction's, if undeclared */
} Written;

/* What history_token() has found in a store. Numbers belong to a store: another store may be attached under the
 * same schema name, and a backup may be restored into it. */
typedef struct Seen {
    char store[40];
    sqlite3_int64 answered, lookedUpTo;     /* the connection's last change, and how far it was looked for */
    uint64_t answeredOrigin, lookedUpToOrigin; /* hashes */
    unsigned long long serial;              /* of the key of the last change */
} Seen;

typedef struct Connection {
#ifndef SQLITE_CORE
    const sqlite3_api_routines *library;
#endif
    sqlite3 *db;
    int references; /* one for each function registered */
    char author[MAX_NAME + 1];
    char context[MAX_NAME + 1];
    /* A connection must not be used after a fork. Checking that each time would take a system call. */
    int process;
    unsigned session;           /* random; tells this connection's keys from all others' */
    unsigned long long serial;  /* counts the keys given out */
    char origin[2 * MAX_NAME + 96];
    int originLength;
    long long verified; /* when the origin was last known to be the current transaction's */
    /* The schemas that were being written when the key was made, with their data versions at that time; if
     * undeclared, also schemas that were added later. */
    Written written[MAX_SCHEMAS];
    int writtenCount;
    int wasInMemory; /* whether main had no file then */
    int isAlone; /* undeclared: whether that was a statement by itself, and the newest changes were not asked for */
    Seen seen[MAX_STORES];
    unsigned seenCount;
} Connection;

/* An iteration over a connection's schemas; it ends with NULL. */
typedef struct Schemas {
    int index;
    sqlite3_stmt *list;
} Schemas;

static const char *nextSchema(Connection *c, Schemas *schemas) {
    /* sqlite3_db_name() came with 3.39. */
    if (sqlite3_libversion_number() >= 3039000) return sqlite3_db_name(c->db, schemas->index++);
    if (schemas->index++ == 0
        && sqlite3_prepare_v2(c->db, "PRAGMA database_list", -1, &schemas->list, NULL) != SQLITE_OK)
        return NULL;
    if (sqlite3_step(schemas->list) == SQLITE_ROW)
        return (const char *)sqlite3_column_text(schemas->list, 1);
    sqlite3_finalize(schemas->list);
    schemas->list = NULL;
    return NULL;
}

/* "The data version changes whenever any change occurs to the corresponding database file, either through SQL
 * statements on the same database connection or through transactions committed by separate database
 * connections" (https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html). While a connection writes, no
 * other can: the number does not change until it has committed. */
static unsigned dataVersion(Connection *c, const char *schema) {
    unsigned version = 0;
    sqlite3_file_control(c->db, schema, SQLITE_FCNTL_DATA_VERSION, &version);
    return version;
}

/* Whether main is not a file: sqlite3_deserialize() may then replace it with another database at any time,
 * whose data version starts over. A file's name is absolute. */
static int isInMemory(Connection *c) {
    const char *name = sqlite3_db_filename(c->db, "main");
    return name == NULL || name[0] != '/';
}

/* Whether no transaction has ended since the last key was made: what was written then is still uncommitted. A
 * complete rollback may go unnoticed. */
static int isUncommitted(Connection *c) {
    if (isInMemory(c) != c->wasInMemory) return 0;
    for (int i = 0; i < c->writtenCount; i++) {
        const Written *w = &c->written[i];
        if (dataVersion(c, w->name) != w->version || sqlite3_txn_state(c->db, w->name) != SQLITE_TXN_WRITE)
            return 0;
    }
    return c->writtenCount > 0;
}

/* NULL on failure; sqlite3_errcode() gives the reason. */
static sqlite3_stmt *prepare(Connection *c, const char *format, const char *schema) {
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf(format, schema, schema, schema, schema);
    if (sql == NULL) return NULL;
    sqlite3_prepare_v2(c->db, sql, -1, &statement, NULL);
    sqlite3_free(sql);
    return statement;
}

/* The number of a store's newest change; 0 if there is none, or no history. */
static sqlite3_int64 newestChange(Connection *c, const char *schema) {
    sqlite3_int64 newest = 0;
    sqlite3_stmt *statement = prepare(c, "SELECT max(id) FROM \"%w\".historyd_change", schema);
    if (statement == NULL) return 0;
    if (sqlite3_step(statement) == SQLITE_ROW) newest = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return newest;
}

/* Whether a store being written has changes that it did not have when this transaction began to record:
 * a rollback to a savepoint may have removed them. */
static int hasNewChanges(Connection *c) {
    if (c->isAlone) return sqlite3_get_autocommit(c->db);
    for (int i = 0; i < c->writtenCount; i++)
        if (newestChange(c, c->written[i].name) > c->written[i].newest) return 1;
    return 0;
}

/* Whether the newest change of a store being written carries the last key. It does not if a rollback, which
 * leaves the data version unchanged, has removed the change. */
static int isNewestOurs(Connection *c) {
    int ours = 0;
    const char *schema;
    Schemas schemas = {0};
    while ((schema = nextSchema(c, &schemas)) != NULL) {
        sqlite3_stmt *statement;
        if (ours || sqlite3_txn_state(c->db, schema) != SQLITE_TXN_WRITE) continue;
        statement = prepare(
            c, "SELECT origin FROM \"%w\".historyd_change ORDER BY id DESC LIMIT 1", schema);
        if (statement == NULL) continue;
        if (sqlite3_step(statement) == SQLITE_ROW) {
            const char *origin = (const char *)sqlite3_column_text(statement, 0);
            ours = origin != NULL && strcmp(origin, c->origin) == 0;
        }
        sqlite3_finalize(statement);
    }
    return ours;
}

/* Adds a schema that is being written, unless it is known. */
static void rememberSchema(Connection *c, const char *schema) {
    Written *w = &c->written[c->writtenCount];
    for (int i = 0; i < c->writtenCount; i++)
        if (strcmp(c->written[i].name, schema) == 0) return;
    if (c->writtenCount == MAX_SCHEMAS || sqlite3_txn_state(c->db, schema) != SQLITE_TXN_WRITE) return;
    if (w->name == NULL || strcmp(w->name, schema) != 0) {
        free(w->name);
        if ((w->name = strdup(schema)) == NULL) return;
    }
    w->version = dataVersion(c, schema);
    w->newest = c->author[0] || c->isAlone ? 0 : newestChange(c, schema);
    c->writtenCount++;
}

/* The data version of an attached store starts over when the store is attached again, and that of an in-memory
 * store when another one replaces it: two transactions could not be told apart. The temporary schema is always
 * there, so it is made part of a transaction that does not write to a file as main. Most statements that write
 * to it would expire running statements. This one does not, and there is nothing to vacuum. */
static void joinTemporarySchema(Connection *c) {
    int isToldByMain = !isInMemory(c) && sqlite3_txn_state(c->db, "main") == SQLITE_TXN_WRITE;
    if (!isToldByMain && sqlite3_txn_state(c->db, "temp") != SQLITE_TXN_WRITE)
        sqlite3_exec(c->db, "PRAGMA temp.incremental_vacuum(1)", NULL, NULL, NULL);
}

static void rememberSchemas(Connection *c) {
    const char *schema;
    Schemas schemas = {0};
    c->wasInMemory = isInMemory(c);
    while ((schema = nextSchema(c, &schemas)) != NULL) rememberSchema(c, schema);
}

static long long millisecondsSince1970(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static char *appendText(char *end, const char *text) {
    size_t length = strlen(text);
    memcpy(end, text, length + 1);
    return end + length;
}

static char *appendNumber(char *end, unsigned long long number, unsigned base) {
    char digits[24];
    int count = 0;
    do digits[count++] = "0123456789abcdef"[number % base]; while ((number /= base) != 0);
    while (count > 0) *end++ = digits[--count];
    *end = 0;
    return end;
}

/* Runs for each transaction of a writer; printf would take several times as long. */
static void makeOrigin(Connection *c) {
    long long now = millisecondsSince1970(CLOCK_REALTIME);
    char *end = appendNumber(c->origin, c->session, 16);
    end = appendNumber(appendText(end, "."), ++c->serial, 16);
    end = appendNumber(appendText(end, "\t"), (unsigned)c->process, 10);
    end = appendNumber(appendText(end, "\t"), now < 0 ? 0 : (unsigned long long)now, 10);
    end = appendText(appendText(end, "\t"), c->author);
    if (c->context[0]) end = appendText(appendText(end, "\t"), c->context);
    c->originLength = (int)(end - c->origin);
}

/* Whether the last key belongs to the running transaction. After a rollback the key may be used again (its
 * changes are gone), but not with an outdated time: hence the occasional check of the store. */
static int isCurrent(Connection *c) {
    if (!isUncommitted(c)) return 0;
    /* Accurate to some milliseconds, at a fraction of the cost. */
    long long now = millisecondsSince1970(CLOCK_REALTIME_COARSE);
    if (now - c->verified > -1000 && now - c->verified < 1000) return 1;
    c->verified = now;
    return isNewestOurs(c);
}

/* sqlite_compileoption_get(N) */
static void compileOption(Connection *c, sqlite3_context *call, int count, sqlite3_value **values) {
    (void)count;
    if (sqlite3_value_int64(values[0]) != ORIGIN_REQUEST) {
        sqlite3_result_text(
            call, sqlite3_compileoption_get(sqlite3_value_int(values[0])), -1, SQLITE_STATIC);
        return;
    }
    if (c->author[0] == 0) {
        /* Undeclared: no author can be declared later for what was written so far. A check is slower than
         * recording, and no savepoint ends within a single statement. */
        if (!isUncommitted(c) || (c->isAlone && !sqlite3_get_autocommit(c->db))) {
            c->writtenCount = 0;
            c->isAlone = sqlite3_get_autocommit(c->db);
        }
        if (!c->isAlone || c->writtenCount == 0) rememberSchemas(c);
        return;
    }
    if (!isCurrent(c)) {
        c->writtenCount = 0;
        joinTemporarySchema(c);
        rememberSchemas(c);
        makeOrigin(c);
        c->verified = millisecondsSince1970(CLOCK_REALTIME_COARSE);
    }
    /* It lives as long as the function, and changes at the earliest with the next transaction. */
    sqlite3_result_text(call, c->origin, c->originLength, SQLITE_STATIC);
}

/* Whether an open transaction has already recorded changes, under the declared author or under none. */
static int isRecording(Connection *c) {
    /* Without a write nothing is read: that would lock the store for others. */
    if (sqlite3_txn_state(c->db, NULL) != SQLITE_TXN_WRITE || !isUncommitted(c)) return 0;
    return c->author[0] ? isNewestOurs(c) : hasNewChanges(c);
}

/* Copies a name; returns what is wrong with it, or NULL. */
static const char *readName(Connection *c, sqlite3_value *value, char *name) {
    if (sqlite3_value_type(value) != SQLITE_TEXT) return "must be text";
    const char *text = (const char *)sqlite3_value_text(value);
    int length = sqlite3_value_bytes(value);
    if (text == NULL) return "could not be read";
    if (length == 0) return "must not be empty";
    if (length > MAX_NAME) return "must not be longer than 255 bytes";
    for (int i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20) return "must not contain control characters";
    memcpy(name, text, (size_t)length);
    name[length] = 0;
    return NULL;
}

static void fail(Connection *c, sqlite3_context *call, const char *what, const char *problem) {
    char *message = sqlite3_mprintf("history_author: the %s %s", what, problem);
    sqlite3_result_error(call, message ? message : problem, -1);
    sqlite3_free(message);
}

/* history_author(), history_author(AUTHOR), history_author(AUTHOR, CONTEXT) */
static void historyAuthor(Connection *c, sqlite3_context *call, int count, sqlite3_value **values) {
    char author[MAX_NAME + 1] = "", context[MAX_NAME + 1] = "";
    const char *problem;

    if (count > 0 && sqlite3_value_type(values[0]) != SQLITE_NULL
        && (problem = readName(c, values[0], author)) != NULL) {
        fail(c, call, "author", problem);
        return;
    }
    if (count > 1 && sqlite3_value_type(values[1]) != SQLITE_NULL
        && (problem = readName(c, values[1], context)) != NULL) {
        fail(c, call, "context", problem);
        return;
    }
    if (count > 0 && (strcmp(author, c->author) != 0 || strcmp(context, c->context) != 0)) {
        /* One SQL transaction is one history transaction, so it can have only one author. */
        if (isRecording(c)) {
            fail(c, call, "author", "cannot change within a transaction that has recorded changes");
            return;
        }
        memcpy(c->author, author, sizeof author);
        memcpy(c->context, context, sizeof context);
        c->writtenCount = 0;
    }
    if (c->author[0]) sqlite3_result_text(call, c->author, -1, SQLITE_TRANSIENT);
}

static uint64_t hashOf(Connection *c, sqlite3_stmt *statement, int column) {
    const unsigned char *text = sqlite3_column_text(statement, column);
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    while (text != NULL && *text != 0) hash = (hash ^ *text++) * 1099511628211u;
    return hash;
}

/* Whether a change that was found earlier is still in a store's history: a backup may have been restored into
 * the store. Numbers that were cleaned stay valid. */
static int isStill(Connection *c, sqlite3_stmt *change, sqlite3_int64 number, uint64_t origin, sqlite3_int64 newest) {
    int is = number <= newest;
    sqlite3_bind_int64(change, 1, number);
    if (is && number > 0 && sqlite3_step(change) == SQLITE_ROW)
        is = sqlite3_column_int(change, 1) || hashOf(c, change, 0) == origin;
    sqlite3_reset(change);
    return is;
}

/* Forgets what is no longer in a store's history. */
static int verify(Connection *c, const char *schema, Seen *seen, sqlite3_int64 newest) {
    sqlite3_stmt *change = prepare(
        c, "SELECT origin, kind & 3 = 3 FROM \"%w\".historyd_change WHERE id = ?1", schema);
    if (change == NULL) return sqlite3_errcode(c->db);
    if (!isStill(c, change, seen->answered, seen->answeredOrigin, newest))
        seen->answered = seen->lookedUpTo = 0;
    if (!isStill(c, change, seen->lookedUpTo, seen->lookedUpToOrigin, newest)) seen->lookedUpTo = seen->answered;
    return sqlite3_finalize(change);
}

/* Searches for the newest committed change that carries one of this connection's keys. */
static int findLastChange(Connection *c, const char *schema, Seen *seen, int isOpen) {
    char session[16], current[48];
    int rc, sessionLength, currentLength;
    sqlite3_int64 from = seen->lookedUpTo;
    sqlite3_stmt *statement = prepare(
        c, "SELECT id, origin FROM \"%w\".historyd_change WHERE id > ?1 ORDER BY id DESC", schema);
    if (statement == NULL) return sqlite3_errcode(c->db);
    sessionLength = snprintf(session, sizeof session, "%x.", c->session);
    currentLength = snprintf(current, sizeof current, "%x.%llx\t", c->session, c->serial);
    sqlite3_bind_int64(statement, 1, from);
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *origin = (const char *)sqlite3_column_text(statement, 1);
        sqlite3_int64 number = sqlite3_column_int64(statement, 0);
        /* An uncommitted change is not a result, and must be checked again. */
        if (isOpen && origin && strncmp(origin, current, (size_t)currentLength) == 0) continue;
        if (seen->lookedUpTo == from) {
            seen->lookedUpTo = number;
            seen->lookedUpToOrigin = hashOf(c, statement, 1);
        }
        if (origin && strncmp(origin, session, (size_t)sessionLength) == 0) {
            seen->answered = number;
            seen->answeredOrigin = hashOf(c, statement, 1);
            seen->serial = strtoull(origin + sessionLength, NULL, 16);
            break;
        }
    }
    sqlite3_finalize(statement);
    if (rc == SQLITE_ROW || rc == SQLITE_DONE) return SQLITE_OK;
    seen->lookedUpTo = from;
    return rc;
}

/* What is known of a store, by its id; empty for one that was not used recently. */
static Seen *seenOf(Connection *c, const char *store) {
    unsigned count = c->seenCount < MAX_STORES ? c->seenCount : MAX_STORES;
    Seen *seen;
    for (unsigned i = 0; i < count; i++)
        if (strcmp(c->seen[i].store, store) == 0) return &c->seen[i];
    seen = &c->seen[c->seenCount++ % MAX_STORES];
    memset(seen, 0, sizeof *seen);
    memcpy(seen->store, store, strlen(store) + 1);
    return seen;
}

/* Searches for the connection's last committed change in a schema. Returns a copy, because there may be more
 * stores than are remembered; SQLITE_NOTFOUND if there is none. */
static int look(Connection *c, const char *schema, int isOpen, Seen *result) {
    int rc = SQLITE_NOTFOUND;
    sqlite3_stmt *store = prepare(
        c,
        "SELECT (SELECT value FROM \"%w\".historyd_store WHERE key = 'id'),"
        " max(ifnull((SELECT max(id) FROM \"%w\".historyd_change), 0),"
        " ifnull((SELECT value FROM \"%w\".historyd_store WHERE key = 'floor'), 0)),"
        " (SELECT value FROM \"%w\".historyd_store WHERE key = 'floor')", schema);
    if (store == NULL) {
        rc = sqlite3_errcode(c->db);
        return rc == SQLITE_ERROR ? SQLITE_NOTFOUND : rc; /* there are no such tables */
    }
    if (sqlite3_step(store) == SQLITE_ROW && sqlite3_column_type(store, 0) == SQLITE_TEXT
        && sqlite3_column_bytes(store, 0) < (int)sizeof result->store) {
        Seen *seen = seenOf(c, (const char *)sqlite3_column_text(store, 0));
        rc = verify(c, schema, seen, sqlite3_column_int64(store, 1));
        if (rc == SQLITE_OK) {
            sqlite3_int64 from = seen->lookedUpTo, floor = sqlite3_column_int64(store, 2);
            rc = findLastChange(c, schema, seen, isOpen);
            *result = *seen;
            /* The connection's later commits may have been cleaned: all consumers have received everything up
             * to the floor. */
            if (rc == SQLITE_OK && result->serial + (isOpen ? 1 : 0) < c->serial && floor > from
                && floor > result->answered)
                result->answered = floor;
        }
    }
    if (sqlite3_finalize(store) != SQLITE_OK) return sqlite3_errcode(c->db);
    return rc == SQLITE_OK && result->answered == 0 ? SQLITE_NOTFOUND : rc;
}

/* history_token(), history_token(SCHEMA) */
static void historyToken(Connection *c, sqlite3_context *call, int count, sqlite3_value **values) {
    const char *wanted = count > 0 ? (const char *)sqlite3_value_text(values[0]) : NULL, *schema;
    int rc = SQLITE_OK, isKnown = 0, isOpen;
    Seen last = {0}, found;
    Schemas schemas = {0};
    if (count > 0 && wanted == NULL) return;
    isOpen = c->author[0] != 0 && isRecording(c);
    while ((schema = nextSchema(c, &schemas)) != NULL) {
        if (rc != SQLITE_OK || (wanted != NULL && sqlite3_stricmp(schema, wanted) != 0)) continue;
        isKnown = 1;
        if (c->serial == 0) continue; /* this connection never recorded anything */
        rc = look(c, schema, isOpen, &found);
        /* After a transaction on several stores: the first one's. */
        if (rc == SQLITE_OK && (last.answered == 0 || found.serial > last.serial)) last = found;
        if (rc == SQLITE_NOTFOUND) rc = SQLITE_OK;
    }
    if (rc != SQLITE_OK) {
        sqlite3_result_error_code(call, rc);
    } else if (wanted != NULL && !isKnown) {
        char *message = sqlite3_mprintf("history_token: unknown database %s", wanted);
        sqlite3_result_error(call, message ? message : "history_token: unknown database", -1);
        sqlite3_free(message);
    } else if (last.answered > 0) {
        sqlite3_result_text(call, sqlite3_mprintf("%s:%lld", last.store, last.answered), -1, sqlite3_free);
    }
}

static void release(void *connection) {
    Connection *c = connection;
    if (--c->references > 0) return;
    for (int i = 0; i < MAX_SCHEMAS; i++) free(c->written[i].name);
    free(c);
}

/* SQLite calls a function with pointers that only the same SQLite library can read, and through which the
 * connection is found. Each library therefore has its own functions. */
typedef struct Functions {
    void (*compileOption)(sqlite3_context *, int, sqlite3_value **);
    void (*author)(sqlite3_context *, int, sqlite3_value **);
    void (*token)(sqlite3_context *, int, sqlite3_value **);
} Functions;

#ifndef SQLITE_CORE
static const sqlite3_api_routines *libraries[8];
#define USER_DATA(call, n) libraries[n]->user_data(call)
#else
#define USER_DATA(call, n) sqlite3_user_data(call)
#endif
#define FUNCTION(name, n) \
    static void name##n(sqlite3_context *call, int count, sqlite3_value **values) { \
        name(USER_DATA(call, n), call, count, values); \
    }
#define LIBRARY(n) FUNCTION(compileOption, n) FUNCTION(historyAuthor, n) FUNCTION(historyToken, n)
#define FUNCTIONS(n) {compileOption##n, historyAuthor##n, historyToken##n}
LIBRARY(0)
#ifndef SQLITE_CORE
LIBRARY(1) LIBRARY(2) LIBRARY(3) LIBRARY(4) LIBRARY(5) LIBRARY(6) LIBRARY(7)
static const Functions functionsOf[] = {FUNCTIONS(0), FUNCTIONS(1), FUNCTIONS(2), FUNCTIONS(3),
                                        FUNCTIONS(4), FUNCTIONS(5), FUNCTIONS(6), FUNCTIONS(7)};

static const Functions *findFunctions(const sqlite3_api_routines *library) {
    for (unsigned i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        const sqlite3_api_routines *known = NULL;
        if (__atomic_compare_exchange_n(&libraries[i], &known, library, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
            || known == library)
            return &functionsOf[i];
    }
    return NULL;
}
#else
static const Functions functionsOf[] = {FUNCTIONS(0)};
#endif

/* Overrides the built-in sqlite_compileoption_get().
 *
 * While a statement runs (SELECT load_extension(…) is one), SQLite does not replace a function of the same
 * text encoding. It does add one of another encoding, and prefers that to its own. Earlier prepared
 * statements must then resolve their functions again, which any change of a connection's settings causes. */
static int overrideCompileOption(Connection *c, const Functions *functions) {
    int rc, setting = 0;
    c->references++; /* SQLite calls the destructor also if the registration fails */
    rc = sqlite3_create_function_v2(
        c->db, "sqlite_compileoption_get", 1, SQLITE_UTF8 | SQLITE_INNOCUOUS, c, functions->compileOption, NULL,
        NULL, release);
    if (rc != SQLITE_BUSY) return rc;
    c->references++;
    rc = sqlite3_create_function_v2(
        c->db, "sqlite_compileoption_get", 1, SQLITE_UTF16LE | SQLITE_INNOCUOUS, c, functions->compileOption,
        NULL, NULL, release);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_ENABLE_QPSG, -1, &setting);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_ENABLE_QPSG, !setting, NULL);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_ENABLE_QPSG, setting, NULL);
    return rc;
}

/* Whether the functions are registered, by this file or by another copy of it: declarations are kept. */
static int isLoaded(Connection *c) {
    sqlite3_stmt *statement = prepare(c, "SELECT history_token()", NULL);
    if (statement == NULL) {
        /* Clears the error: inside sqlite3_auto_extension(), it would make the open fail. */
        sqlite3_exec(c->db, "", NULL, NULL, NULL);
        return 0;
    }
    sqlite3_finalize(statement);
    return 1;
}

static int initialize(Connection *c, char **error, const Functions *functions) {
    const struct {
        const char *name;
        int arguments;
        void (*function)(sqlite3_context *, int, sqlite3_value **);
    } named[] = {
        {"history_author", 0, functions->author}, {"history_author", 1, functions->author},
        {"history_author", 2, functions->author}, {"history_token", 1, functions->token},
        {"history_token", 0, functions->token}, /* the last one: see isLoaded() */
    };
    int rc;
    if (sqlite3_libversion_number() < 3035000) {
        if (error) *error = sqlite3_mprintf("history: SQLite 3.35 or later is needed");
        return SQLITE_ERROR;
    }
    if (isLoaded(c)) return SQLITE_OK;
    sqlite3_randomness(sizeof c->session, &c->session);
    rc = overrideCompileOption(c, functions);
    for (unsigned i = 0; i < sizeof named / sizeof *named && rc == SQLITE_OK; i++) {
        c->references++;
        rc = sqlite3_create_function_v2(
            c->db, named[i].name, named[i].arguments, SQLITE_UTF8 | SQLITE_DIRECTONLY, c, named[i].function, NULL,
            NULL, release);
    }
    return rc;
}

int sqlite3_history_init(sqlite3 *db, char **error, const struct sqlite3_api_routines *api) {
    int rc;
    const Functions *functions;
    Connection *c = calloc(1, sizeof *c);
    if (c == NULL) return SQLITE_NOMEM;
    c->db = db;
    c->references = 1;
    c->process = (int)getpid();
#ifndef SQLITE_CORE
    c->library = api;
    functions = findFunctions(api);
    if (functions == NULL) {
        if (error) *error = sqlite3_mprintf("history: this process has more than 8 SQLite libraries");
        release(c);
        return SQLITE_ERROR;
    }
#else
    (void)api;
    functions = functionsOf;
#endif
    rc = initialize(c, error, functions);
    release(c);
    return rc;
}
