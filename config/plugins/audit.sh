#!/bin/sh
# An observer in mode "oneshot": it is started for each call, and reads the call as one line of JSON.
# It appends that line to the file AUDIT_LOG. Status 0 is success. After another status, the call is repeated.
#
# A call may be repeated (after a failure or a restart). It then has the same "delivery".
set -eu
umask 077

exec 9>>"${AUDIT_LOG:?name a file in the manifest, under \"environment\"}"
flock 9     # calls for several consumers may run at once: one line at a time
cat >&9
