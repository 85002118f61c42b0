import Testing

/// Packages that are clients of SQLite: Python's, and a Node that has its own.
enum ClientPackages {
    private static let environment = PythonEnvironment("client-packages")
    static let python = environment.python
    static let node = environment.program("node")
    static let missing: Comment = """
        needs SQLAlchemy, Django, Alembic, sqlite-utils, apsw, mypy, pytest and Node: .build/client-packages.log says why they could not be \
        installed (python3-venv, or the network)
        """

    /// Whether they are there: installed now where they were not.
    static let areThere: Bool = environment.installs()
}

/// Python packages that are clients of NATS and PostgreSQL.
enum StreamPackages {
    private static let environment = PythonEnvironment("stream-packages")
    static let python = environment.python
    static let missing: Comment = """
        needs nats-py and psycopg: .build/stream-packages.log says why they could not be installed (python3-venv, or the \
        network)
        """
    static let areThere: Bool = environment.installs()
}
