// HistoryConfiguration
