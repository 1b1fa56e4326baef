//! The surroundings of the program's process, the same for every command and every original.
//!
//! | module | about |
//! |---|---|
//! | [`stderr`] | sentences for the user, and the properties of the terminal |
//! | [`error`] | the sentence and the exit code of a command that fails |
//! | [`stdout`] | results, with text in the reader's character set |
//! | [`mod@file`] | outputs that appear under their name when they are whole |
//! | [`terminal`] | the screen, restored on every way out |
//! | [`signals`] | the first request to end, and the second |
#![forbid(unsafe_code)]

pub mod error;
pub mod file;
pub mod signals;
pub mod stderr;
pub mod stdout;
pub mod terminal;
