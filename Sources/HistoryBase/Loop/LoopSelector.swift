internal import CPlatform
internal import Glibc

/// What the loop's thread waits for: descriptors in epoll(7), a timer, and wake-ups by other threads.
struct LoopSelector: Sendable {
    /// The result of a wait.
    struct Events {
        fileprivate var buffer = [epoll_event](repeating: epoll_event(), count: 64)
        fileprivate var count = 0

        /// The keys of what is ready.
        var ready: some Sequence<UInt64> { buffer.prefix(count).lazy.map { $0.data.u64 } }
    }

    static let wakeUpKey: UInt64 = 0
    static let timerKey: UInt64 = 1
    /// Greater keys are for descriptors.
    static let lastOwnKey = timerKey

    private let epoll: Int32
    private let wakeUp: Int32
    private let timer: Int32

    /// - Throws: `SystemError` if the kernel has no descriptors left for it.
    init() throws(SystemError) {
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        if epoll < 0 { throw SystemError(call: "epoll_create1", number: errno) }
        wakeUp = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        if wakeUp < 0 { throw SystemError(call: "eventfd", number: errno) }
        timer = timerfd_create(CLOCK_BOOTTIME, Int32(TFD_CLOEXEC | TFD_NONBLOCK))
        if timer < 0 { throw SystemError(call: "timerfd_create", number: errno) }
        try add(wakeUp, for: .reading, as: Self.wakeUpKey)
        try add(timer, for: .reading, as: Self.timerKey)
    }

    func add(_ descriptor: Int32, for interest: HistoryLoop.Interest, as key: UInt64) throws(SystemError) {
        let events: EPOLL_EVENTS =
            switch interest {
            case .reading: EPOLLIN
            case .writing: EPOLLOUT
            case .exceptions: EPOLLPRI
            }
        // Edge-triggered: wake-ups need not be read, and descriptors without a waiter need not be
        // unregistered.
        var event = epoll_event(events: events.rawValue | EPOLLET.rawValue, data: epoll_data_t(u64: key))
        guard epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0 else {
            throw SystemError(call: "epoll_ctl", number: errno)
        }
    }

    /// Ends a wait. Any thread may call it.
    func wake() {
        var one: UInt64 = 1
        // It fails only after 2^64 calls without a read.
        _ = write(wakeUp, &one, 8)
    }

    /// Ends a wait at a deadline of the clock `now`.
    func arm(_ deadline: Int64) {
        var setting = itimerspec()
        setting.it_value.tv_sec = Int(deadline / 1_000_000_000)
        setting.it_value.tv_nsec = Int(deadline % 1_000_000_000)
        // It fails only for invalid times.
        timerfd_settime(timer, Int32(TFD_TIMER_ABSTIME), &setting, nil)
    }

    func wait(_ events: inout Events, sleeps: Bool) {
        // Negative if a signal interrupted the wait.
        events.count = max(
            0, Int(epoll_wait(epoll, &events.buffer, Int32(events.buffer.count), sleeps ? -1 : 0)))
    }

    static var now: Int64 {
        var time = timespec()
        // This clock continues while the machine is suspended.
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
