//! The same rule inside the things that people write to.
