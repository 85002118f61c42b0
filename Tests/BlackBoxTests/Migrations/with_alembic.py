"""A project of Alembic's: FOLDER STORE make | plain | upgrade

make writes the project, and has Alembic write a migration that removes a column and changes another one's type. plain
does so without the filter that keeps historyd's tables, and leaves only what it proposes for these in the migration.
Both print the migration; upgrade runs it.
"""
import pathlib
import re
import subprocess
import sys

folder, store, task = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]

MODELS = """
from sqlalchemy import Column, Float, Integer, MetaData, String, Table, Text

metadata = MetaData()
person = Table(
    "person", metadata, Column("id", Integer, primary_key=True), Column("name", Text),
    Column("email", Text, unique=True))
item = Table("item", metadata, Column("code", Text, primary_key=True), Column("price", Integer))
"""

ENV = """
from alembic import context
from sqlalchemy import create_engine
from models import metadata

def include_name(name, type_, parent_names):
    return not (type_ == "table" and name.startswith("historyd_"))

engine = create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(
        connection=connection, target_metadata=metadata, render_as_batch=True, compare_type=True, {})
    with context.begin_transaction():
        context.run_migrations()
"""


def alembic(*arguments):
    subprocess.run([sys.executable, "-m", "alembic", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE)


def make(option):
    folder.mkdir()
    alembic("init", "migrations")
    (folder / "models.py").write_text(MODELS)
    (folder / "migrations" / "env.py").write_text(ENV.format(option))
    ini = (folder / "alembic.ini").read_text()
    lines = [f"sqlalchemy.url = sqlite:///{store}" if line.startswith("sqlalchemy.url") else line
             for line in ini.split("\n")]
    (folder / "alembic.ini").write_text("\n".join(lines))
    alembic("revision", "--autogenerate", "-m", "change")
    migration = next((folder / "migrations" / "versions").glob("*.py"))
    if not option:
        others = r"    with op.batch_alter_table.*?(?=    # ### end)"
        migration.write_text(re.sub(others, "", migration.read_text(), count=1, flags=re.DOTALL))
    print(migration.read_text())


if task == "make":
    make("include_name=include_name")
elif task == "plain":
    make("")
else:
    alembic("upgrade", "head")
