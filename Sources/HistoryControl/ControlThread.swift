import NIOPosix

/// The one thread on which all of a process's clients wait for their daemons. It is started with the first
/// request, and sleeps in the kernel while there is none.
enum ControlThread {
    static let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
}
