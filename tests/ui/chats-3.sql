-- SPDX-License-Identifier: Apache-2.0
-- The file of chats as version 3 of its schema wrote it: one chat with a branch, one that is deleted, one message in words, and files of a
-- question, of the draft and of the deleted chat.
PRAGMA application_id = 1095844680;
PRAGMA user_version = 3;
CREATE TABLE chats(
  id INTEGER PRIMARY KEY, title TEXT, created_us INTEGER NOT NULL, changed_us INTEGER NOT NULL,
  leaf INTEGER NOT NULL, folder TEXT, draft TEXT, settings TEXT,
  deleted INTEGER NOT NULL DEFAULT 0);
CREATE TABLE messages(
  id INTEGER PRIMARY KEY, chat INTEGER NOT NULL, parent INTEGER NOT NULL,
  role INTEGER NOT NULL, state INTEGER NOT NULL, text TEXT NOT NULL, thinking TEXT,
  model TEXT, created_us INTEGER NOT NULL, error_code INTEGER NOT NULL DEFAULT 0,
  error TEXT, prompt_tok INTEGER, cached_tok INTEGER, gen_tok INTEGER, prompt_us INTEGER,
  first_us INTEGER, gen_us INTEGER);
CREATE INDEX messages_chat ON messages(chat);
CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1, tokenize='trigram remove_diacritics 1');
CREATE TABLE files(
  owner INTEGER NOT NULL, pos INTEGER NOT NULL, chat INTEGER NOT NULL, name TEXT NOT NULL,
  text TEXT NOT NULL, PRIMARY KEY(owner, pos));
CREATE INDEX files_chat ON files(chat);
INSERT INTO chats VALUES(1000, 'Rivers', 1700000000000000, 1700000000000001, 1003, NULL, 'and the', NULL, 0);
INSERT INTO chats VALUES(2000, 'Gone', 1700000000000000, 1700000000000002, 2001, NULL, NULL, NULL, 1);
INSERT INTO messages VALUES(1001, 1000, 0, 0, 0, 'Which river is longest?', NULL, NULL, 1700000000000000, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO messages VALUES(1002, 1000, 1001, 1, 0, 'The Nile.', 'Nile or Amazon?', 'Guide', 1700000000000000, 0, NULL, 12, 0, 4, 1000, 2000, 3000);
INSERT INTO messages VALUES(1003, 1000, 1001, 1, 2, 'The Ama', NULL, 'Guide', 1700000000000000, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO messages VALUES(2001, 2000, 0, 0, 0, 'Deleted words', NULL, NULL, 1700000000000000, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO words(rowid, text) SELECT id, text FROM messages WHERE state = 0;
INSERT INTO files VALUES(1001, 0, 1000, 'rivers.txt', 'Nile 6650');
INSERT INTO files VALUES(1001, 1, 1000, 'more.csv', 'Amazon,6400');
INSERT INTO files VALUES(1000, 0, 1000, 'draft.txt', 'to come');
INSERT INTO files VALUES(2001, 0, 2000, 'gone.txt', 'gone');
CREATE TABLE folders(name TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;
INSERT INTO folders VALUES('Empty'), ('Water');
UPDATE chats SET folder = 'Water' WHERE id = 1000;
