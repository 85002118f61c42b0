"""The work of ClientWorkTests.swift in the manner of SQLAlchemy's ORM: STORE LIBRARY [AUTHOR]"""
import pathlib
import sys

from sqlalchemy import ForeignKey, create_engine, delete, event, func, text, update
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "config/python"))
sys.dont_write_bytecode = True
import historyd

store, library, *author = sys.argv[1:]
engine = create_engine(f"sqlite:///{store}", connect_args={"timeout": 60})


@event.listens_for(engine, "connect")
def prepare(connection, _):
    # The driver begins transactions late, and not for a SAVEPOINT: SQLAlchemy begins them instead.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")


if author:
    historyd.declare_sqlalchemy(engine, *author, "client", extension=library)


@event.listens_for(engine, "begin")
def begin(connection):
    connection.exec_driver_sql("BEGIN")


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    score: Mapped[float | None]
    books: Mapped[list["Book"]] = relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "book"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    author_id: Mapped[int] = mapped_column(ForeignKey("author.id"))
    author: Mapped[Author] = relationship(back_populates="books")


class Tag(Base):
    __tablename__ = "tag"
    code: Mapped[str] = mapped_column(primary_key=True)
    label: Mapped[str | None]


with Session(engine) as session, session.begin():
    ann, bob = Author(id=1, name="Ann", score=1.5), Author(id=2, name="Bob")
    session.add_all([ann, bob])
    session.flush()
    session.add_all([
        Book(title="One", author=ann), Book(title="Two", author=bob), Book(title="Three", author=ann)])

with Session(engine) as session, session.begin():
    ann = session.get_one(Author, 1)
    ann.name, ann.score = "Anna", 1.5
    try:
        with session.begin_nested():
            session.add(Tag(code="x", label="undone"))
            session.flush()
            raise KeyError("changed my mind")
    except KeyError:
        pass
    session.add(Tag(code="a", label="first"))

try:
    with Session(engine) as session, session.begin():
        session.execute(delete(Book))
        raise KeyError("changed my mind")
except KeyError:
    pass

with Session(engine) as session, session.begin():
    upsert = insert(Tag).values([{"code": "a", "label": "again"}, {"code": "b", "label": None}])
    session.execute(upsert.on_conflict_do_update(set_={"label": upsert.excluded.label}))

with Session(engine) as session, session.begin():
    session.execute(update(Book).where(Book.id == 2).values(title=func.upper(Book.title)))
    try:
        with session.begin_nested():
            session.add(Author(id=3, name="Bob"))
        raise SystemExit("the name is taken")
    except IntegrityError:
        pass
    session.get_one(Author, 2).score = 2

with Session(engine) as session, session.begin():
    session.delete(session.get_one(Author, 1))

with Session(engine) as session, session.begin():
    session.execute(text("REPLACE INTO author VALUES (4, 'Bob', 4)"))

with Session(engine) as session, session.begin():
    session.execute(update(Author).values(name=Author.name))
engine.dispose()
