/*
 * The least that can carry a store's history over NATS JetStream into a copy of its table. No positions, no proofs, no
 * snapshots, no schema: it is what historyd-nats is compared to.
 *
 *   stream publish STORE URL STREAM AFTER    publishes what comes after a number of the history
 *   stream follow URL STREAM FILE            applies each message in one transaction
 *
 * A message has a line for each change: the row of the history, and the row of the table as it is now.
 */
#define _GNU_SOURCE
#include "watch.h"

#include <nats/nats.h>
#include <sqlite3.h>
#include <string.h>

static sqlite3 *db;
static jsCtx *stream;
static const char *subject;
static sqlite3_stmt *select_;
static int64_t last;

static void failSQL(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(db));
    exit(1);
}

static void check(natsStatus status, const char *what) {
    if (status == NATS_OK) return;
    fprintf(stderr, "%s: %s\n", what, natsStatus_GetText(status));
    exit(1);
}

static sqlite3_stmt *prepare(const char *sql) {
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL)) failSQL(sql);
    return statement;
}

static void execute(const char *sql) {
    if (sqlite3_exec(db, sql, NULL, NULL, NULL)) failSQL(sql);
}

static void join(const char *url) {
    natsOptions *options;
    natsConnection *connection;
    check(natsOptions_Create(&options), "options");
    check(natsOptions_SetURL(options, url), "url");
    check(natsOptions_SetSendAsap(options, true), "options");
    check(natsConnection_Connect(&connection, options), "connect");
    check(natsConnection_JetStream(&stream, connection, NULL), "JetStream");
}

/* Between the fields of a line: the origin of a change has tabs in it. */
#define SEPARATOR "\x1f"

static char buffer[1 << 19];
static size_t used;

static void publish(void) {
    if (used == 0) return;
    check(js_PublishAsync(stream, subject, buffer, (int)used, NULL), "publish");
    used = 0;
}

static const char *text(int column) { return (const char *)sqlite3_column_text(select_, column); }

static int64_t look(void) {
    int result;
    int64_t count = 0;
    sqlite3_bind_int64(select_, 1, last);
    while ((result = sqlite3_step(select_)) == SQLITE_ROW) {
        last = sqlite3_column_int64(select_, 0);
        used += (size_t)snprintf(
            buffer + used, sizeof buffer - used,
            "%lld" SEPARATOR "%s" SEPARATOR "%s" SEPARATOR "%s" SEPARATOR "%s" SEPARATOR "%s" SEPARATOR "%s\n",
            (long long)last, text(1), text(2), text(3), text(4), text(5), text(6));
        count++;
        if (used > sizeof buffer / 2) publish();
    }
    if (result != SQLITE_DONE && result != SQLITE_BUSY) failSQL("read");
    sqlite3_reset(select_);
    publish();
    return count;
}

static void begin(void) {
    sendStamp(STDOUT_FILENO, 0, 0, now());
    look();
}

static void publishStore(const char *store, const char *name, int64_t after) {
    jsStreamConfig configuration;
    jsStreamInfo *info = NULL;
    jsStreamConfig_Init(&configuration);
    configuration.Name = name;
    configuration.Subjects = &subject;
    configuration.SubjectsLen = 1;
    if (js_GetStreamInfo(&info, stream, name, NULL, NULL) != NATS_OK)
        check(js_AddStream(&info, stream, &configuration, NULL, NULL), "create the stream");
    jsStreamInfo_Destroy(info);
    if (sqlite3_open_v2(store, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL)) failSQL("open");
    select_ = prepare(
        "SELECT change.id, origin, kind, object, name, note, quantity FROM historyd_change AS change"
        " JOIN item ON item.id = object WHERE change.id > ?1 ORDER BY change.id");
    last = after;
    watchStore(store, 1, begin, look);
}

/* Numbers as texts become numbers by the columns' affinity. */
static void apply(sqlite3_stmt *change, sqlite3_stmt *item, char *line) {
    char *fields[7];
    for (int i = 0; i < 7; i++) fields[i] = strsep(&line, SEPARATOR);
    for (int i = 0; i < 4; i++) sqlite3_bind_text(change, i + 1, fields[i], -1, SQLITE_STATIC);
    for (int i = 0; i < 4; i++) sqlite3_bind_text(item, i + 1, fields[i + 3], -1, SQLITE_STATIC);
    if (sqlite3_step(change) != SQLITE_DONE || sqlite3_step(item) != SQLITE_DONE) failSQL("insert");
    sqlite3_reset(change), sqlite3_reset(item);
}

static void follow(const char *file) {
    natsSubscription *subscription;
    natsMsg *message;
    jsSubOptions options;
    jsSubOptions_Init(&options);
    options.Ordered = true;
    if (sqlite3_open(file, &db)) failSQL("open");
    execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
            "CREATE TABLE historyd_change (id INTEGER PRIMARY KEY, origin, kind INTEGER, object INTEGER, detail);"
            "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, note TEXT, quantity INTEGER NOT NULL)");
    sqlite3_stmt *change = prepare("INSERT INTO historyd_change (id, origin, kind, object) VALUES (?, ?, ?, ?)");
    sqlite3_stmt *item = prepare("INSERT INTO item VALUES (?, ?, ?, ?)");
    /* The publisher may not have made the stream yet, and a server that has just been given much answers late. */
    natsStatus status = NATS_TIMEOUT;
    for (int attempt = 0; attempt < 100 && status != NATS_OK; attempt++) {
        if (attempt > 0) nats_Sleep(100);
        status = js_SubscribeSync(&subscription, stream, subject, NULL, &options, NULL);
    }
    check(status, "subscribe");
    sendStamp(STDOUT_FILENO, 0, 0, now());
    while (natsSubscription_NextMsg(&message, subscription, 3600000) == NATS_OK) {
        static char body[sizeof buffer + 1];
        int count = natsMsg_GetDataLength(message);
        memcpy(body, natsMsg_GetData(message), (size_t)count);
        body[count] = 0;
        execute("BEGIN");
        char *rest = body, *line;
        while ((line = strsep(&rest, "\n")) != NULL && *line) apply(change, item, line);
        execute("COMMIT");
        natsMsg_Destroy(message);
    }
}

int main(int count, char **arguments) {
    if (count == 6 && strcmp(arguments[1], "publish") == 0) {
        subject = arguments[4];
        join(arguments[3]);
        publishStore(arguments[2], arguments[4], atoll(arguments[5]));
    } else if (count == 5 && strcmp(arguments[1], "follow") == 0) {
        subject = arguments[3];
        join(arguments[2]);
        follow(arguments[4]);
    } else {
        return fprintf(stderr, "usage: stream publish STORE URL STREAM AFTER | stream follow URL STREAM FILE\n"), 64;
    }
    return 1;
}
