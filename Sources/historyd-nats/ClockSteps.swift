internal import CPlatform
import Glibc
import PersistentHistory

/// Detects steps of the system's clock, by which libnats measures time: after a step back by an hour, it would
/// notice a silent server an hour late.
enum ClockSteps {
    /// Calls `body` after each step, on its own thread, which sleeps in the kernel until then.
    static func watch(_ body: @escaping @Sendable () -> Void) {
        let timer = timerfd_create(CLOCK_REALTIME, Int32(TFD_CLOEXEC))
        guard timer >= 0 else { return }
        _ = startThread {
            var never = itimerspec()
            never.it_value.tv_sec = Int.max >> 8
            let flags = Int32(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET)
            while true {
                var count: UInt64 = 0
                // Either call may report the step (timerfd_create(2)).
                if timerfd_settime(timer, flags, &never, nil) < 0 || read(timer, &count, 8) < 0 {
                    if errno == ECANCELED { body() } else if errno != EINTR { return }
                }
            }
        }
    }
}
