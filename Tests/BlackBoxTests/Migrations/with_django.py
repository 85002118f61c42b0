"""A project of Django's that renames a model, removes a field and alters one: FOLDER STORE make | upgrade

make writes the project and runs its first migration, which makes the tables; upgrade runs the second one.
"""
import pathlib
import subprocess
import sys

folder, store, task = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]

MANAGE = f"""
import sys
from django.conf import settings
settings.configure(
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": {store!r}, "OPTIONS": {{"timeout": 60}}}}}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField", INSTALLED_APPS=["shop"], USE_TZ=True)
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""

FIRST = """
from django.db import migrations, models

class Migration(migrations.Migration):
    operations = [
        migrations.CreateModel("Person", [
            ("id", models.AutoField(primary_key=True)), ("name", models.TextField()),
            ("age", models.IntegerField(null=True))]),
        migrations.CreateModel("Item", [
            ("id", models.AutoField(primary_key=True)), ("price", models.FloatField()),
            ("owner", models.ForeignKey("Person", models.CASCADE))]),
    ]
"""

SECOND = """
from django.db import migrations, models

class Migration(migrations.Migration):
    dependencies = [("shop", "0001_first")]
    operations = [
        migrations.RenameModel("Person", "Customer"),
        migrations.RemoveField("Customer", "age"),
        migrations.AlterField("Item", "price", models.DecimalField(max_digits=9, decimal_places=2, null=True)),
    ]
"""


def manage(*arguments):
    subprocess.run([sys.executable, "manage.py", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE)


if task == "make":
    migrations = folder / "shop" / "migrations"
    migrations.mkdir(parents=True)
    (folder / "manage.py").write_text(MANAGE)
    for package in folder / "shop", migrations:
        (package / "__init__.py").write_text("")
    (migrations / "0001_first.py").write_text(FIRST)
    manage("migrate")
    (migrations / "0002_second.py").write_text(SECOND)
else:
    manage("migrate")
