-- Whether resources can have labels and a document: files of the first versions came without.
SELECT EXISTS (SELECT 1 FROM pragma_table_info('resources') WHERE name = 'document');
