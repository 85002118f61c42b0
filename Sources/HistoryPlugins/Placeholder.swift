// HistoryPlugins
