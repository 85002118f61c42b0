#!/bin/bash
# The consumer as it is written in a shell: inotifywait and sqlite3. Prints each new row of the history; first
# of all a line of zeros, when it listens.
#
#   consumer.sh STORE
store=$1
files=()
for file in "$store" "$store-wal"; do [ -e "$file" ] && files+=("$file"); done
last=$(sqlite3 -readonly -cmd ".timeout 1000" "$store" "SELECT coalesce(max(id), 0) FROM historyd_change")
# Its standard error says when the watches are there.
inotifywait -m -e modify "${files[@]}" 2>&1 | {
    while read -r line; do [ "$line" = "Watches established." ] && break; done
    echo "0|0"
    while read -r; do
        # What has come meanwhile is seen by the same look.
        while read -r -t 0; do read -r; done
        rows=$(sqlite3 -readonly -cmd ".timeout 1000" "$store" \
            "SELECT id, object, kind, origin FROM historyd_change WHERE id > $last ORDER BY id")
        [ -n "$rows" ] || continue
        echo "$rows"
        rows=${rows##*$'\n'}
        last=${rows%%|*}
    done
}
