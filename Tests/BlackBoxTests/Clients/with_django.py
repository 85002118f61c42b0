"""The work of ClientWorkTests.swift in the manner of Django's ORM: STORE LIBRARY [AUTHOR]"""
import pathlib
import sys

import django
from django.conf import settings
from django.db import IntegrityError, connection, models, transaction
from django.db.models.functions import Upper

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "config/python"))
sys.dont_write_bytecode = True
import historyd

store, library, *author = sys.argv[1:]
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": store, "OPTIONS": {"timeout": 60}}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField")
django.setup()


if author:
    historyd.declare_django(*author, "client", extension=library)


class Author(models.Model):
    name = models.TextField(unique=True)
    score = models.FloatField(null=True)

    class Meta:
        app_label, db_table = "clients", "author"


class Book(models.Model):
    title = models.TextField()
    author = models.ForeignKey(Author, models.CASCADE)

    class Meta:
        app_label, db_table = "clients", "book"


class Tag(models.Model):
    code = models.TextField(primary_key=True)
    label = models.TextField(null=True)

    class Meta:
        app_label, db_table = "clients", "tag"


with transaction.atomic():
    ann, bob = Author.objects.bulk_create([Author(id=1, name="Ann", score=1.5), Author(id=2, name="Bob")])
    Book.objects.create(title="One", author=ann)
    Book.objects.bulk_create([Book(title="Two", author=bob), Book(title="Three", author=ann)])

with transaction.atomic():
    ann = Author.objects.get(id=1)
    ann.name = "Anna"
    ann.save()  # writes all columns
    try:
        with transaction.atomic():
            Tag.objects.create(code="x", label="undone")
            raise KeyError("changed my mind")
    except KeyError:
        pass
    Tag.objects.create(code="a", label="first")

try:
    with transaction.atomic():
        Book.objects.all().delete()
        raise KeyError("changed my mind")
except KeyError:
    pass

Tag.objects.bulk_create(
    [Tag(code="a", label="again"), Tag(code="b")],
    update_conflicts=True, unique_fields=["code"], update_fields=["label"])

with transaction.atomic():
    Book.objects.filter(id=2).update(title=Upper("title"))
    try:
        with transaction.atomic():
            Author.objects.create(id=3, name="Bob")
        raise SystemExit("the name is taken")
    except IntegrityError:
        pass
    Author.objects.filter(id=2).update(score=2)

Author.objects.get(id=1).delete()

with connection.cursor() as cursor:
    cursor.execute("REPLACE INTO author VALUES (4, 'Bob', 4)")

Author.objects.update(name=models.F("name"))
connection.close()
