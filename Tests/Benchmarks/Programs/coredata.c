/*
 * The least that can read a Core Data history: every column of every transaction and change, in the order of the
 * transactions. No model, no names, no JSON. It is what `historyctl history` is compared to.
 *
 *   coredata STORE      prints how many changes there are
 */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static sqlite3 *db;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(db));
    exit(1);
}

static sqlite3_stmt *prepare(const char *sql) {
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL)) fail(sql);
    return statement;
}

/* Looks at each column, as whoever reads it has to. */
static uint64_t touch(sqlite3_stmt *row) {
    uint64_t sum = 0;
    for (int column = 0; column < sqlite3_column_count(row); column++) {
        switch (sqlite3_column_type(row, column)) {
        case SQLITE_INTEGER: sum += (uint64_t)sqlite3_column_int64(row, column); break;
        case SQLITE_FLOAT: sum += (uint64_t)sqlite3_column_double(row, column); break;
        case SQLITE_NULL: break;
        default: {
            const unsigned char *bytes = sqlite3_column_blob(row, column);
            for (int i = 0; i < sqlite3_column_bytes(row, column); i++) sum += bytes[i];
        }
        }
    }
    return sum;
}

int main(int count, char **arguments) {
    if (count != 2) return 64;
    if (sqlite3_open_v2(arguments[1], &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL)) fail("open");
    sqlite3_stmt *transactions = prepare("SELECT * FROM ATRANSACTION ORDER BY Z_PK");
    sqlite3_stmt *changes = prepare("SELECT * FROM ACHANGE WHERE ZTRANSACTIONID = ?1 ORDER BY Z_PK");
    uint64_t sum = 0, number = 0;
    while (sqlite3_step(transactions) == SQLITE_ROW) {
        sum += touch(transactions);
        sqlite3_bind_int64(changes, 1, sqlite3_column_int64(transactions, 0));
        while (sqlite3_step(changes) == SQLITE_ROW) {
            sum += touch(changes);
            number++;
        }
        sqlite3_reset(changes);
    }
    printf("%llu %llx\n", (unsigned long long)number, (unsigned long long)sum);
    return 0;
}
