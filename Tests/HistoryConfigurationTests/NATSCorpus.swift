/// Configurations of historyd-nats. The keys under test are on line 2.
private func top(_ keys: String) -> String {
    "{\"version\": 1, \"servers\": [\"nats://h\"], \"follow\": [],\n\(keys)\n}"
}

private func publication(_ keys: String) -> String {
    "{\"version\": 1, \"servers\": [\"nats://h\"], \"publish\": [{\"store\": \"/s\", \"name\": \"s\",\n\(keys)\n}]}"
}

private func following(_ followings: String) -> String {
    "{\"version\": 1, \"servers\": [\"nats://h\"], \"follow\": [\n\(followings)\n]}"
}

private let in0 = "publish[0]"
private let nkey = "UC5G6CMEQBTN5ILSWUUMAUPONG5XKOWXQRHGPGK7Y33EPWGNA2DSTUOL"
private let keys =
    "Allowed: $schema, version, servers, credentials, nkey, nkeySeed, tls, jetStreamDomain, jetStreamPrefix, publish, follow, logLevel, healthyLag"

let natsCorpus: [CorpusCase] = [
    .good("smallest", following("{\"name\": \"a\", \"path\": \"/m\"}")),
    .good(
        "every key",
        top(
            """
            "$schema": "x", "nkey": "\(nkey)", "nkeySeed": "/n", "logLevel": "debug", "healthyLag": "10m", \
            "tls": {"ca": "/a", "certificate": "/c", "key": "/k"}
            """)),
    .good("a domain", top("\"jetStreamDomain\": \"hub\"")),
    .good("a prefix", top("\"jetStreamPrefix\": \"hub.js.api\"")),
    .bad(
        "a domain of two words", top("\"jetStreamDomain\": \"hub.a\""),
        "2:20: jetStreamDomain: expected a JetStream domain, a word without dots, blanks and wildcards, found \"hub.a\""
    ),
    .bad(
        "a prefix that ends with a dot", top("\"jetStreamPrefix\": \"hub.\""),
        "2:20: jetStreamPrefix: expected a subject such as hub.js.api, without wildcards, found \"hub.\""),
    .bad(
        "a prefix with a wildcard", top("\"jetStreamPrefix\": \"hub.*.api\""),
        "2:20: jetStreamPrefix: expected a subject such as hub.js.api, without wildcards, found \"hub.*.api\""),
    .bad(
        "a domain and a prefix", top("\"jetStreamDomain\": \"hub\", \"jetStreamPrefix\": \"a\""),
        "2:27: jetStreamPrefix: either a domain or a prefix is given, not both"),
    .good("credentials", top("\"credentials\": \"c.creds\", \"tls\": {}")),
    .good(
        "every key of a publication",
        publication(
            """
            "feed": {"consumer": "nats", "context": "stream", "socket": "/c.sock"}, "window": 10000, "hold": "1ms", "beat": "10s", \
            "entities": ["person", "note"], \
            "stream": {"create": false, "replicas": 3, "maxAge": "7d", "maxBytes": "4GiB"}, \
            "snapshot": {"every": 3600, "keep": 1}
            """)),
    .good("bytes", publication("\"stream\": {\"maxBytes\": 1048576}")),
    .good("log level off", top("\"logLevel\": \"off\"")),

    .bad("list", "[]", "1:1: expected an object, found a list"),
    .badBeyondSchema(
        "nothing to do", "{\"version\": 1, \"servers\": [\"nats://h\"],\n\"publish\": [], \"publish\": []}",
        "2:16: key \"publish\" is given twice, first at 2:1"),
    .bad(
        "neither", "{\"version\": 1, \"servers\": [\"nats://h\"]}",
        "1:1: expected \"publish\" or \"follow\", found neither: there is nothing to do"),
    .bad("unknown key", top("\"pubish\": []"), "2:1: pubish: unknown key; did you mean \"publish\"? \(keys)"),
    .bad(
        "servers", "{\"version\": 1, \"follow\": [],\n\"servers\": [\"http://h\", \"nats://\", 1]}",
        "2:13: servers[0]: expected a URL that begins with nats:// or tls://, found \"http://h\"",
        "2:25: servers[1]: expected a URL that begins with nats:// or tls://, found \"nats://\"",
        "2:36: servers[2]: expected a server's URL, found 1"),
    .bad(
        "no server", "{\"version\": 1, \"follow\": [],\n\"servers\": []}",
        "2:12: servers: expected at least one server, found an empty list"),
    .bad(
        "two identities", top("\"credentials\": \"c\", \"nkey\": \"\(nkey)\", \"nkeySeed\": \"n\""),
        "2:89: nkeySeed: either credentials or an nkey's seed is given, not both"),
    .bad(
        "seed alone", top("\"nkeySeed\": \"n\""),
        "1:1: nkey: missing, expected the nkey's public part beside its seed"),
    .bad(
        "nkey alone", top("\"nkey\": \"\(nkey)\""), "2:1: nkey: an nkey belongs to its seed, which is missing"),
    .bad(
        "certificate alone", top("\"tls\": {\"certificate\": \"/c\"}"),
        "2:8: tls: expected \"key\" beside \"certificate\""),
    .bad(
        "key alone", top("\"tls\": {\"key\": \"/c\"}"),
        "2:9: tls.key: a key belongs to a certificate, which is missing"),
    .bad(
        "empty publication", "{\"version\": 1, \"servers\": [\"nats://h\"], \"publish\": [\n{}]}",
        "2:1: \(in0).store: missing, expected the store's path",
        "2:1: \(in0).name: missing, expected the stream's name"),
    .bad(
        "limits",
        publication("\"stream\": {\"maxBytes\": \"4GB\", \"replicas\": 6, \"maxAge\": 0}, \"window\": 0"),
        "2:24: \(in0).stream.maxBytes: expected a number of bytes, or text such as \"512MiB\" or \"4GiB\", found \"4GB\"",
        "2:43: \(in0).stream.replicas: expected a whole number from 1 through 5, found 6",
        "2:56: \(in0).stream.maxAge: expected a duration from 1ms through 36500d, found 0",
        "2:70: \(in0).window: expected a whole number from 1 through 10000, found 0"),
    .bad(
        "feed", publication("\"feed\": {}"), "2:9: \(in0).feed.consumer: missing, expected the feed's consumer",
        "2:9: \(in0).feed.context: missing, expected the feed's context"),
    .good("a follower's tables", following("{\"name\": \"a\", \"path\": \"/m\", \"entities\": [\"person\"]}")),
    .bad(
        "no tables", publication("\"entities\": []"),
        "2:13: \(in0).entities: expected at least one table, found an empty list"),
    .bad(
        "tables that are none", publication("\"entities\": [1, \"\", \"historyd_change\"]"),
        "2:14: \(in0).entities[0]: expected a table's name, found 1",
        "2:17: \(in0).entities[1]: expected a table's name, found an empty string",
        "2:21: \(in0).entities[2]: expected a table that can be tracked, found \"historyd_change\""),
    .badBeyondSchema(
        "a table twice", following("{\"name\": \"a\", \"path\": \"/m\", \"entities\": [\"p\", \"P\"]}"),
        "2:47: follow[0].entities[1]: table \"p\" is already given at FILE:2:42"),
    .bad(
        "name of a stream", following("{\"name\": \"a.b\", \"path\": \"/m\"}"),
        "2:10: follow[0].name: expected at most 200 letters, digits, - and _, found \"a.b\""),
    .bad(
        "an nkey that is none", top("\"nkey\": \"abc\", \"nkeySeed\": \"n\""),
        "2:9: nkey: expected the public part of a user's nkey, 56 letters and digits that begin with U, found \"abc\""
    ),
    .badBeyondSchema(
        "an nkey with a letter changed", top("\"nkey\": \"\(nkey.dropLast())A\", \"nkeySeed\": \"n\""),
        "2:9: nkey: expected the public part of a user's nkey, 56 letters and digits that begin with U, found \"\(nkey.dropLast())A\""
    ),
    .bad(
        "a stream of snapshots", following("{\"name\": \"a_SNAPSHOT\", \"path\": \"/m\"}"),
        "2:10: follow[0].name: expected a name that does not end with _SNAPSHOT, as a stream of snapshots does, found \"a_SNAPSHOT\""
    ),
    .badBeyondSchema(
        "a store that is its own mirror",
        "{\"version\": 1, \"servers\": [\"nats://h\"], \"publish\": [{\"store\": \"/s\", \"name\": \"s\"}],\n"
            + "\"follow\": [{\"name\": \"t\", \"path\": \"/x/../s\"}]}",
        "2:34: follow[0].path: expected a file of the mirror's own, found the store that is published as \"s\""),
    .badBeyondSchema(
        "one file for two mirrors",
        following("{\"name\": \"a\", \"path\": \"/m\"},\n{\"name\": \"a\", \"path\": \"/m\"}"),
        "3:10: follow[1].name: stream \"a\" is already given at FILE:2:10",
        "3:23: follow[1].path: the mirror's file \"/m\" is already given at FILE:2:23"),
]
