#include "CSQLiteHistory.h"

#include <sqlite3.h>

#include <stdint.h>
#include <string.h>

/* The SQLite version that last wrote to a database: a number such as 3040001 in bytes 96 to 99 of its first
 * page (https://www.sqlite.org/fileformat.html), which may still be in the write-ahead log
 * (https://www.sqlite.org/walformat.html). The files are read through the connection: closing a separate
 * descriptor would release the connection's locks. */

static uint32_t number(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int readAt(sqlite3_file *file, sqlite3_int64 place, void *bytes, int size) {
    return file->pMethods->xRead(file, bytes, size, place) == SQLITE_OK;
}

static sqlite3_file *fileOf(sqlite3 *db, int which) {
    sqlite3_file *file = 0;
    if (sqlite3_file_control(db, "main", which, &file) != SQLITE_OK || !file || !file->pMethods) return 0;
    return file;
}

/* A log of a gigabyte has a quarter of a million frames. */
enum { HEADER = 32, FRAME = 24, VERSION = 96, MOST_FRAMES = 1 << 18 };

static uint32_t versionInLog(sqlite3_file *log) {
    unsigned char header[HEADER], frame[FRAME], version[4];
    if (!readAt(log, 0, header, HEADER) || (number(header) & ~1u) != 0x377f0682) return 0;
    uint32_t page = number(header + 8), found = 0;
    if (page < 512 || page > 65536) return 0;
    for (sqlite3_int64 i = 0; i < MOST_FRAMES; i++) {
        sqlite3_int64 place = HEADER + i * (FRAME + (sqlite3_int64)page);
        /* Frames of an earlier log, with other salts, may follow the last frame. */
        if (!readAt(log, place, frame, FRAME) || memcmp(frame + 8, header + 16, 8) != 0) break;
        if (number(frame) == 1 && readAt(log, place + FRAME + VERSION, version, 4)) found = number(version);
    }
    return found;
}

int history_writer_version(sqlite3 *db) {
    unsigned char version[4];
    sqlite3_file *log = fileOf(db, SQLITE_FCNTL_JOURNAL_POINTER);
    uint32_t found = log ? versionInLog(log) : 0;
    if (found) return (int)found;
    sqlite3_file *file = fileOf(db, SQLITE_FCNTL_FILE_POINTER);
    return file && readAt(file, VERSION, version, 4) ? (int)number(version) : 0;
}
