//! Golden pictures.
