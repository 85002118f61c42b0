#!/bin/sh
# An observer in mode "oneshot": started for each call, which it reads as one line of JSON.
# It appends that line to the file AUDIT_LOG. Status 0 is success; anything else is tried again.
#
# A call may come twice (after a failure or a restart); its "delivery" is the same then.
set -eu
umask 077

exec 9>>"${AUDIT_LOG:?name a file in the manifest, under \"environment\"}"
flock 9     # calls for several consumers may run at once: one line at a time
cat >&9
