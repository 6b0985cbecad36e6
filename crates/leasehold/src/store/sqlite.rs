//! The embedded store: one SQLite file shared by the processes of one host.
