#ifndef HISTORYD_VERSION_H
#define HISTORYD_VERSION_H

/* The version of the library, the daemon and its tools. */
const char *historyd_version(void);

#endif
