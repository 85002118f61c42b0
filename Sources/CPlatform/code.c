#define _GNU_SOURCE
#include "CPlatform.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

static int give_back(struct dl_phdr_info *object, size_t size, void *context) {
    (void)size;
    (void)context;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        // Writable pages may have been written: the linker stores addresses there.
        if (segment->p_type != PT_LOAD || segment->p_flags & PF_W) continue;
        uintptr_t start = object->dlpi_addr + segment->p_vaddr;
        uintptr_t first = start / page * page;
        // MADV_DONTNEED (madvise(2)) is safe for pages that were never written. Pages that the kernel refuses
        // stay.
        madvise((void *)first, start + segment->p_memsz - first, MADV_DONTNEED);
    }
    return 0;
}

void cplatform_give_back_code(void) { dl_iterate_phdr(give_back, 0); }
