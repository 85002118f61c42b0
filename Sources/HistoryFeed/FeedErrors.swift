public import HistoryBase
import HistoryControl

/// Why a feed has ended, or an acknowledgement was refused: failures that waiting cannot resolve, with the
/// daemon's code. A newer daemon may send codes that are not listed here.
///
/// A restart of the daemon, or a replaced store, is not an error: the feed waits and reconnects.
extension HistoryError.Code {
    /// No store of the daemon has this name.
    public static let unknownStore = Self("unknownStore")
    /// The store has no such consumer.
    public static let unknownConsumer = Self("unknownConsumer")
    /// Several stores have such a consumer: name one.
    public static let ambiguous = Self("ambiguous")
    /// This user may not use the daemon's socket.
    public static let notPermitted = Self("notPermitted")
}

extension HistoryError {
    init(_ error: ControlError) { self.init(Code(error.code.rawValue), error.description) }
}
