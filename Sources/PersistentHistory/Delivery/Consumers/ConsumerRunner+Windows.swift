/// The window in which a consumer gathers commits before a pass.
struct BatchWindow {
    /// In wall-clock time, for reports.
    let end: HistoryTimestamp
    let timer: StoreTimer
}

/// A pass begins a batch window after the first commit that concerns the consumer, not after the last
/// one, so a steady stream of commits does not delay it. While there is nothing to do, there is no timer.
extension ConsumerRunner {
    /// A single run processes everything at once.
    var hasWindow: Bool {
        consumer.batchWindow > .zero && !session.assumeIsolated { $0.isSingleRun }
    }

    /// Whether at least a batch of changes is waiting after the consumer's position.
    var isBatchFull: Bool {
        let position = store.state.cursors.idle.checkpoint(of: consumer.author)?.position ?? machine.cursor
        return store.fetcher.end.number - position >= HistoryReader.batchSize
    }

    func beginPassOrWindow() {
        guard hasWindow, !isBatchFull else { return beginPass() }
        phase = .gathering
        let end = store.state.clock.wall().milliseconds + consumer.batchWindow.milliseconds
        window = BatchWindow(
            end: HistoryTimestamp(milliseconds: end),
            timer: session.schedule(after: consumer.batchWindow, for: consumer.author) { $0.endWindow() })
        // Cleaning does not wait for it as for a consumer at work.
        session.assumeIsolated { [author = consumer.author] in $0.stoppedWorking(author) }
    }

    func endWindow() {
        guard phase == .gathering else { return }
        closeWindow()
        phase = .idle
        session.assumeIsolated { [author = consumer.author] in $0.noteAtWork(author) }
        beginPass()
    }

    func closeWindow() { window.take()?.timer.cancel() }
}
