// `make run` builds its programs as what this target depends on: SwiftPM builds one product at a time, and plans
// again for each.
