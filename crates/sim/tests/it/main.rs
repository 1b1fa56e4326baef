//! Tests of the platform in virtual time, one module per file.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod conformance;
mod path;
mod platform;
