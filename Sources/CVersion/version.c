#include "version.h"

/* `make build` gives the tag and the commit. */
#ifndef HISTORYD_VERSION
#define HISTORYD_VERSION "0.1.0"
#endif

const char *historyd_version(void) { return HISTORYD_VERSION; }
