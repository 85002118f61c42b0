// HistoryDaemon
