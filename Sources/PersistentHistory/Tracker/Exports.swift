// Whoever imports the library sees the values that its interface speaks of.
@_exported public import HistoryBase
