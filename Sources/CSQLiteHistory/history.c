/*
 * Makes an SQLite connection known to the history of the stores it writes to.
 *
 *   SELECT history_author('WidgetExtension');          declares the connection's author
 *   SELECT history_author('WidgetExtension', 'sync');  and a context name
 *   SELECT history_author();                           gives the author back
 *   SELECT history_author(NULL);                       clears it
 *   SELECT history_token();                            the token of the last committed transaction
 *
 * The triggers in a tracked store ask sqlite_compileoption_get(1212765012) for the origin of each
 * change. On a plain connection that built-in function answers NULL, as it does for every number
 * out of range; this file overrides it, so that on a declared connection it answers
 *
 *   key TAB process id TAB milliseconds since 1970 TAB author [TAB context]
 *
 * where the key is another for each SQL transaction. Any binding that can register a function can
 * declare itself the same way. Every other number is passed on to SQLite.
 *
 * Nothing is needed but libc and the SQLite of the host process; its commit, rollback and update
 * hooks are left to the application.
 */
#ifndef SQLITE_CORE
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1
#else
#include <sqlite3.h>
#include "CSQLiteHistory.h"
#endif

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ORIGIN_REQUEST 1212765012 /* "HIST" */
#define MAX_NAME 255
#define MAX_SCHEMAS 128

typedef struct Connection {
    int references; /* one for each function registered */
    char author[MAX_NAME + 1];
    char context[MAX_NAME + 1];
    /* SQLite forbids to carry a connection across a fork, and asking each time is a system call. */
    int process;
    unsigned session;           /* random; tells this connection's keys from all others' */
    unsigned long long serial;  /* counts the keys given out */
    char origin[2 * MAX_NAME + 96];
    int originLength;
    long long verified; /* when the origin was last known to be the current transaction's */
    /* Schemas that were being written when the key was made, and their data versions then. */
    int writing[MAX_SCHEMAS];
    unsigned versions[MAX_SCHEMAS];
    sqlite3_int64 newest[MAX_SCHEMAS]; /* the number of the newest change then, if undeclared */
    int writingCount;
    int isAlone; /* whether that was a statement by itself, and the number was not asked for */
    /* The last answer of history_token(), and how far it has looked. */
    sqlite3_int64 answered;
    sqlite3_int64 lookedUpTo;
} Connection;

static const char *schemaName(sqlite3 *db, int index) {
    /* sqlite3_db_name() came with 3.39; before it, only the main schema is distinguished. */
    if (sqlite3_libversion_number() >= 3039000) return sqlite3_db_name(db, index);
    return index == 0 ? "main" : NULL;
}

/* "The data version changes whenever any change occurs to the corresponding database file, either
 * through SQL statements on the same database connection or through transactions committed by
 * separate database connections" (https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html).
 * While a connection writes, no other can: the number does not change until it has committed. */
static unsigned dataVersion(sqlite3 *db, const char *schema) {
    unsigned version = 0;
    sqlite3_file_control(db, schema, SQLITE_FCNTL_DATA_VERSION, &version);
    return version;
}

/* Whether nothing was committed since the last key was made. */
static int isUncommitted(sqlite3 *db, Connection *c) {
    for (int i = 0; i < c->writingCount; i++) {
        const char *schema = schemaName(db, c->writing[i]);
        if (schema == NULL || dataVersion(db, schema) != c->versions[i]) return 0;
    }
    return c->writingCount > 0;
}

/* The number of a store's newest change; 0 if there is none, or no history. */
static sqlite3_int64 newestChange(sqlite3 *db, const char *schema) {
    sqlite3_int64 newest = 0;
    sqlite3_stmt *statement;
    char *sql = sqlite3_mprintf("SELECT max(id) FROM \"%w\".historyd_change", schema);
    if (sql == NULL) return 0;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK) {
        if (sqlite3_step(statement) == SQLITE_ROW) newest = sqlite3_column_int64(statement, 0);
        sqlite3_finalize(statement);
    }
    sqlite3_free(sql);
    return newest;
}

/* Whether a store being written has changes that it had not when this transaction began to record:
 * a rollback to a savepoint may have taken them away. */
static int hasNewChanges(sqlite3 *db, Connection *c) {
    if (c->isAlone) return sqlite3_get_autocommit(db);
    for (int i = 0; i < c->writingCount; i++)
        if (newestChange(db, schemaName(db, c->writing[i])) > c->newest[i]) return 1;
    return 0;
}

/* Whether the newest change of a store being written carries the last key: a rollback, which
 * leaves the data version alone, has taken it away. */
static int isNewestOurs(sqlite3 *db, Connection *c) {
    int ours = 0;
    for (int i = 0; i < c->writingCount && !ours; i++) {
        sqlite3_stmt *statement;
        char *sql = sqlite3_mprintf(
            "SELECT origin FROM \"%w\".historyd_change ORDER BY id DESC LIMIT 1",
            schemaName(db, c->writing[i]));
        if (sql == NULL) return 0;
        if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK) {
            if (sqlite3_step(statement) == SQLITE_ROW) {
                const char *origin = (const char *)sqlite3_column_text(statement, 0);
                ours = origin != NULL && strcmp(origin, c->origin) == 0;
            }
            sqlite3_finalize(statement);
        }
        sqlite3_free(sql);
    }
    return ours;
}

static void rememberTransaction(sqlite3 *db, Connection *c) {
    const char *schema;
    c->writingCount = 0;
    for (int i = 0; i < MAX_SCHEMAS && (schema = schemaName(db, i)) != NULL; i++) {
        if (sqlite3_txn_state(db, schema) != SQLITE_TXN_WRITE) continue;
        c->writing[c->writingCount] = i;
        c->versions[c->writingCount++] = dataVersion(db, schema);
    }
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

/* Each transaction of a writer pays for this, and printf would take several times as long. */
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

/* Whether the last key is the running transaction's. After a rollback it may serve once more (its
 * changes are gone), but not with a time long past: hence a look at the store now and then. */
static int isCurrent(sqlite3 *db, Connection *c) {
    if (!isUncommitted(db, c)) return 0;
    /* To some milliseconds, but for a fraction of the price. */
    long long now = millisecondsSince1970(CLOCK_REALTIME_COARSE);
    if (now - c->verified > -1000 && now - c->verified < 1000) return 1;
    c->verified = now;
    return isNewestOurs(db, c);
}

/* sqlite_compileoption_get(N) */
static void compileOption(sqlite3_context *call, int count, sqlite3_value **values) {
    Connection *c = sqlite3_user_data(call);
    sqlite3 *db = sqlite3_context_db_handle(call);
    (void)count;
    if (sqlite3_value_int64(values[0]) != ORIGIN_REQUEST) {
        sqlite3_result_text(
            call, sqlite3_compileoption_get(sqlite3_value_int(values[0])), -1, SQLITE_STATIC);
        return;
    }
    if (c->author[0] == 0) {
        /* Undeclared; what was written so far, none can be declared for later. Looking costs more than
         * recording does, and no savepoint ends within a statement by itself. */
        if (!isUncommitted(db, c) || (c->isAlone && !sqlite3_get_autocommit(db))) {
            rememberTransaction(db, c);
            c->isAlone = sqlite3_get_autocommit(db);
            for (int i = 0; i < c->writingCount && !c->isAlone; i++)
                c->newest[i] = newestChange(db, schemaName(db, c->writing[i]));
        }
        return;
    }
    if (!isCurrent(db, c)) {
        rememberTransaction(db, c);
        makeOrigin(c);
        c->verified = millisecondsSince1970(CLOCK_REALTIME_COARSE);
    }
    /* It lives as long as the function, and changes with the next transaction at the earliest. */
    sqlite3_result_text(call, c->origin, c->originLength, SQLITE_STATIC);
}

/* Whether a transaction is open that has already recorded changes, under the author declared or
 * under none. */
static int isRecording(sqlite3 *db, Connection *c) {
    /* Where nothing is being written nothing is read: that would lock the store for others. */
    if (sqlite3_txn_state(db, NULL) != SQLITE_TXN_WRITE || !isUncommitted(db, c)) return 0;
    return c->author[0] ? isNewestOurs(db, c) : hasNewChanges(db, c);
}

/* Copies a name; answers what is wrong with it, or NULL. */
static const char *readName(sqlite3_value *value, char *name) {
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

static void fail(sqlite3_context *call, const char *what, const char *problem) {
    char *message = sqlite3_mprintf("history_author: the %s %s", what, problem);
    sqlite3_result_error(call, message ? message : problem, -1);
    sqlite3_free(message);
}

/* history_author(), history_author(AUTHOR), history_author(AUTHOR, CONTEXT) */
static void historyAuthor(sqlite3_context *call, int count, sqlite3_value **values) {
    Connection *c = sqlite3_user_data(call);
    sqlite3 *db = sqlite3_context_db_handle(call);
    char author[MAX_NAME + 1] = "", context[MAX_NAME + 1] = "";
    const char *problem;

    if (count > 0 && sqlite3_value_type(values[0]) != SQLITE_NULL
        && (problem = readName(values[0], author)) != NULL) {
        fail(call, "author", problem);
        return;
    }
    if (count > 1 && sqlite3_value_type(values[1]) != SQLITE_NULL
        && (problem = readName(values[1], context)) != NULL) {
        fail(call, "context", problem);
        return;
    }
    if (count > 0 && (strcmp(author, c->author) != 0 || strcmp(context, c->context) != 0)) {
        /* One SQL transaction is one history transaction, so it can have but one author. */
        if (isRecording(db, c)) {
            fail(call, "author", "cannot change within a transaction that has recorded changes");
            return;
        }
        memcpy(c->author, author, sizeof author);
        memcpy(c->context, context, sizeof context);
        c->writingCount = 0;
    }
    if (c->author[0]) sqlite3_result_text(call, c->author, -1, SQLITE_TRANSIENT);
}

/* The newest change in a schema that carries one of this connection's keys, or 0. */
static int findLastChange(sqlite3 *db, Connection *c, const char *schema, sqlite3_int64 *found) {
    sqlite3_stmt *statement;
    char session[16], current[48];
    int rc;
    int open = isRecording(db, c);
    sqlite3_int64 newest = 0;
    int sessionLength = snprintf(session, sizeof session, "%x.", c->session);
    int currentLength = snprintf(current, sizeof current, "%x.%llx\t", c->session, c->serial);
    char *sql = sqlite3_mprintf(
        "SELECT id, origin FROM \"%w\".historyd_change WHERE id > ?1 ORDER BY id DESC", schema);
    if (sql == NULL) return SQLITE_NOMEM;
    rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    sqlite3_free(sql);
    if (rc != SQLITE_OK) return rc;
    sqlite3_bind_int64(statement, 1, c->lookedUpTo);
    *found = 0;
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *origin = (const char *)sqlite3_column_text(statement, 1);
        /* What is not committed yet is no answer, and must be looked at again. */
        if (open && origin && strncmp(origin, current, (size_t)currentLength) == 0) continue;
        if (newest == 0) newest = sqlite3_column_int64(statement, 0);
        if (origin && strncmp(origin, session, (size_t)sessionLength) == 0) {
            *found = sqlite3_column_int64(statement, 0);
            break;
        }
    }
    sqlite3_finalize(statement);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) return rc;
    if (newest > c->lookedUpTo) c->lookedUpTo = newest;
    return SQLITE_OK;
}

/* history_token() */
static void historyToken(sqlite3_context *call, int count, sqlite3_value **values) {
    Connection *c = sqlite3_user_data(call);
    sqlite3 *db = sqlite3_context_db_handle(call);
    const char *schema;
    (void)count;
    (void)values;
    if (c->serial == 0) return; /* this connection never recorded anything */

    for (int i = 0; (schema = schemaName(db, i)) != NULL; i++) {
        sqlite3_stmt *statement;
        sqlite3_int64 found = 0;
        int rc;
        char *sql = sqlite3_mprintf(
            "SELECT value FROM \"%w\".historyd_store WHERE key = 'id'", schema);
        if (sql == NULL) { sqlite3_result_error_nomem(call); return; }
        rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
        sqlite3_free(sql);
        if (rc != SQLITE_OK) continue; /* this schema has no history */
        if (sqlite3_step(statement) == SQLITE_ROW) {
            rc = findLastChange(db, c, schema, &found);
            if (rc == SQLITE_OK && found > 0) c->answered = found;
            if (rc == SQLITE_OK && c->answered > 0) {
                char *token = sqlite3_mprintf(
                    "%s:%lld", sqlite3_column_text(statement, 0), c->answered);
                sqlite3_result_text(call, token, -1, sqlite3_free);
            }
            if (rc != SQLITE_OK) sqlite3_result_error_code(call, rc);
        }
        sqlite3_finalize(statement);
        return;
    }
}

static void release(void *connection) {
    Connection *c = connection;
    if (--c->references == 0) sqlite3_free(c);
}

/* Takes the place of the built-in sqlite_compileoption_get().
 *
 * While a statement runs (SELECT load_extension(…) is one), SQLite replaces no function of the same
 * text encoding; one of another encoding it adds, and prefers to its own. Statements prepared
 * before must then be made to look again, which any change of a connection's settings does. */
static int overrideCompileOption(sqlite3 *db, Connection *c) {
    int rc, setting = 0;
    c->references++; /* SQLite calls the destructor also if the registration fails */
    rc = sqlite3_create_function_v2(
        db, "sqlite_compileoption_get", 1, SQLITE_UTF8 | SQLITE_INNOCUOUS, c, compileOption, NULL,
        NULL, release);
    if (rc != SQLITE_BUSY) return rc;
    c->references++;
    rc = sqlite3_create_function_v2(
        db, "sqlite_compileoption_get", 1, SQLITE_UTF16LE | SQLITE_INNOCUOUS, c, compileOption,
        NULL, NULL, release);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_QPSG, -1, &setting);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_QPSG, !setting, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_QPSG, setting, NULL);
    return rc;
}

int sqlite3_history_init(sqlite3 *db, char **error, const struct sqlite3_api_routines *api) {
    static const struct {
        const char *name;
        int arguments;
        void (*function)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {
        {"history_author", 0, historyAuthor},
        {"history_author", 1, historyAuthor},
        {"history_author", 2, historyAuthor},
        {"history_token", 0, historyToken},
    };
    int rc;
    Connection *c;
#ifndef SQLITE_CORE
    SQLITE_EXTENSION_INIT2(api);
#else
    (void)api;
#endif
    if (sqlite3_libversion_number() < 3035000) {
        if (error) *error = sqlite3_mprintf("history: SQLite 3.35 or later is needed");
        return SQLITE_ERROR;
    }
    c = sqlite3_malloc(sizeof *c);
    if (c == NULL) return SQLITE_NOMEM;
    memset(c, 0, sizeof *c);
    c->references = 1;
    c->process = (int)getpid();
    sqlite3_randomness(sizeof c->session, &c->session);
    rc = overrideCompileOption(db, c);
    for (unsigned i = 0; i < sizeof functions / sizeof functions[0] && rc == SQLITE_OK; i++) {
        c->references++;
        rc = sqlite3_create_function_v2(
            db, functions[i].name, functions[i].arguments, SQLITE_UTF8 | SQLITE_DIRECTONLY, c,
            functions[i].function, NULL, NULL, release);
    }
    if (rc == SQLITE_BUSY && error)
        *error = sqlite3_mprintf("history: already loaded, and statements are running");
    release(c);
    return rc;
}
