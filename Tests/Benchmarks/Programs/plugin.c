/*
 * A coprocess plugin that does nothing but read, check that the calls come in order, and answer.
 *
 *   plugin FILE    tells by stamps, in this named pipe, what it was given and when
 *
 * It knows the two places in a line that it needs, as a plugin written for speed would: the id behind its
 * beginning, and the key of the last object, behind the line's last "{".
 */
#define _GNU_SOURCE
#include "stamp.h"

#include <fcntl.h>
#include <string.h>

static char input[1 << 20], answers[1 << 20];

static int64_t lastObject(const char *line, const char *end) {
    const char *brace = memrchr(line, '{', (size_t)(end - line));
    const char *colon = brace ? memchr(brace, ':', (size_t)(end - brace)) : NULL;
    return colon ? strtoll(colon + 1, NULL, 10) : 0;
}

/* The id comes back as it came. */
static char *answer(char *to, const char *line, const char *end) {
    static const char label[] = "\"id\":", head[] = "{\"jsonrpc\":\"2.0\",\"id\":";
    static const char tail[] = ",\"result\":null}\n";
    const char *id = memmem(line, (size_t)(end - line), label, sizeof label - 1);
    if (id == NULL) return to;
    id += sizeof label - 1;
    to = mempcpy(to, head, sizeof head - 1);
    while (*id >= '0' && *id <= '9') *to++ = *id++;
    return mempcpy(to, tail, sizeof tail - 1);
}

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: plugin FILE\n"), 64;
    int stamps = open(arguments[1], O_WRONLY | O_CLOEXEC);
    if (stamps < 0) fail("open the pipe for the stamps");
    size_t held = 0;
    int64_t object = 0;
    while (1) {
        ssize_t got = read(STDIN_FILENO, input + held, sizeof input - held);
        int64_t time = now();
        if (got <= 0) return 0;
        char *line = input, *scanned = input + held, *bound = input + held + got, *end;
        int64_t transactions = 0;
        char *place = answers;
        while ((end = memchr(scanned, '\n', (size_t)(bound - scanned)))) {
            int64_t key = lastObject(line, end);
            if (key < object) return fprintf(stderr, "%ld came after %ld\n", (long)key, (long)object), 1;
            object = key;
            transactions++;
            place = answer(place, line, end);
            line = scanned = end + 1;
        }
        if (transactions > 0) {
            writeAll(STDOUT_FILENO, answers, (size_t)(place - answers));
            sendStamp(stamps, object, transactions, time);
        }
        held = (size_t)(bound - line);
        if (held == sizeof input) return fprintf(stderr, "a line is too long\n"), 1;
        memmove(input, line, held);
    }
}
