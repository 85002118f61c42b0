#ifndef CMEMORY_H
#define CMEMORY_H

// Lets go of the pages of code and constants that the process has read of its own files. What is needed
// again is read again, most often from the page cache.
void cmemory_give_back_code(void);

#endif
