public import ArgumentParser
public import PersistentHistory

/// `--operation`: a conformance of a public type is public.
extension ChangeOperation: ExpressibleByArgument {}
