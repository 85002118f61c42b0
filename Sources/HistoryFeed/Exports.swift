// Whoever imports the module sees the values that it delivers.
@_exported public import HistoryBase
