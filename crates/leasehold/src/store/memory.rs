//! The reference store, within one process.
