/// Commits that a consumer gathers before a pass.
struct BatchWindow {
    /// By the clock of the day, for those who ask.
    let end: HistoryTimestamp
    let timer: StoreTimer
}

/// A pass begins a batch window after the first commit that concerns the consumer, not after the last one: a steady stream
/// of commits does not put it off. While there is nothing to do, there is no timer.
extension ConsumerRunner {
    /// A single run works everything off.
    var hasWindow: Bool {
        consumer.batchWindow > .zero && !session.assumeIsolated { $0.isSingleRun }
    }

    /// Whether there are as many changes behind the consumer's position as a batch has.
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
        // It is not waited for as one at work is.
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
