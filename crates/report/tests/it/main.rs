//! What a run looks like in each form: one executable, so that what the tests share is built and
//! linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod common;
mod console;
mod csv;
mod json;
mod schema;
mod units;
