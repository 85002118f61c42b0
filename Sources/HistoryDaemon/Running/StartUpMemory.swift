import CLinux
import Glibc

/// The pages of code that only the start-up needed.
enum StartUpMemory {
    /// Lets go of them. Most of what a daemon has read of its own file by the time it is ready is never needed
    /// again; what is, is read again, most often from the page cache.
    ///
    /// Source: madvise(2), MADV_DONTNEED, of pages that were never written; dl_iterate_phdr(3).
    static func giveBack() {
        _ = dl_iterate_phdr(
            { object, _, _ in
                guard let object = object?.pointee else { return 0 }
                let page = UInt(sysconf(Int32(_SC_PAGESIZE)))
                for number in 0..<Int(object.dlpi_phnum) {
                    let segment = object.dlpi_phdr[number]
                    // What can be written may have been: the linker puts addresses in.
                    guard segment.p_type == PT_LOAD, segment.p_flags & UInt32(PF_W) == 0 else { continue }
                    let start = UInt(object.dlpi_addr + segment.p_vaddr)
                    let first = start / page * page
                    // What the kernel refuses stays where it is.
                    madvise(
                        UnsafeMutableRawPointer(bitPattern: first), Int(start + UInt(segment.p_memsz) - first),
                        MADV_DONTNEED)
                }
                return 0
            }, nil)
    }
}
