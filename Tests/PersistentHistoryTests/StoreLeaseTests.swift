import Testing

@testable import PersistentHistory

#if canImport(Glibc)
    import Glibc
#endif

@Suite struct StoreLeaseTests {
    private func file(_ inode: UInt64) -> FileID {
        var status = stat()
        status.st_dev = 7
        status.st_ino = ino_t(inode)
        return FileID(status)
    }

    @Test func aPlaceTellsTheStateAndTheProcess() {
        for process in [1, 2, 4_194_303] as [pid_t] {
            for inode in [0, 1, .max] as [UInt64] {
                let lease = StoreLease(state: file(inode), process: process)
                #expect(StoreLease(offset: lease.offset) == lease)
                #expect(lease.offset >= StoreLease.start)
                #expect(lease.others.allSatisfy { !$0.contains(lease.offset) })
            }
        }
        #expect(StoreLease(offset: 0x4000_0001) == nil)
    }

    @Test func allOtherStatesAreLookedForAndTheOwnIsNot() {
        let own = StoreLease(state: file(1), process: 10)
        let colleague = StoreLease(state: file(1), process: 11)
        let stranger = StoreLease(state: file(2), process: 10)
        #expect(own.others.contains { $0.contains(stranger.offset) })
        #expect(!own.others.contains { $0.contains(colleague.offset) })
    }
}
