// The work of ClientWorkTests.swift in the manner of Node's own SQLite: STORE LIBRARY [AUTHOR]
import { DatabaseSync } from "node:sqlite";

const [store, library, author] = process.argv.slice(2);
const connection = new DatabaseSync(store, { allowExtension: true, timeout: 60_000 });
if (author) {
  connection.loadExtension(library);
  connection.prepare("SELECT history_author(?, 'client')").get(author);
}

function transaction(body) {
  connection.exec("BEGIN IMMEDIATE");
  try {
    body();
    connection.exec("COMMIT");
  } catch (error) {
    connection.exec("ROLLBACK");
    throw error;
  }
}

transaction(() => {
  const addAuthor = connection.prepare("INSERT INTO author VALUES (?, ?, ?)");
  for (const row of [[1, "Ann", 1.5], [2, "Bob", null]]) addAuthor.run(...row);
  const addBook = connection.prepare("INSERT INTO book (title, author_id) VALUES (?, ?)");
  for (const row of [["One", 1], ["Two", 2], ["Three", 1]]) addBook.run(...row);
});

transaction(() => {
  connection.exec("UPDATE author SET name = 'Anna', score = 1.5 WHERE id = 1");
  connection.exec("SAVEPOINT s");
  connection.exec("INSERT INTO tag VALUES ('x', 'undone')");
  connection.exec("ROLLBACK TO s");
  connection.exec("RELEASE s");
  connection.exec("INSERT INTO tag VALUES ('a', 'first')");
});

try {
  transaction(() => {
    connection.exec("DELETE FROM book");
    throw new Error("changed my mind");
  });
} catch (error) {
  if (error.message !== "changed my mind") throw error;
}

transaction(() => {
  const label = connection.prepare("INSERT INTO tag VALUES (?, ?) ON CONFLICT DO UPDATE SET label = excluded.label");
  label.run("a", "again");
  label.run("b", null);
});

transaction(() => {
  connection.exec("UPDATE book SET title = upper(title) WHERE id = 2");
  try {
    connection.exec("INSERT INTO author VALUES (3, 'Bob', NULL)");
    throw new Error("the name is taken");
  } catch (error) {
    if (!error.message.includes("UNIQUE")) throw error;
  }
  connection.exec("UPDATE author SET score = 2 WHERE id = 2");
});

transaction(() => connection.exec("DELETE FROM author WHERE id = 1"));
transaction(() => connection.exec("REPLACE INTO author VALUES (4, 'Bob', 4)"));
transaction(() => connection.exec("UPDATE author SET name = name"));
connection.close();
