//! The originals' faces: their arguments, printouts, files and exit codes.
//!
//! One folder per original (`ctstraffic/`, `ttcp/`, …), each with `args.rs` (argv to a phase), `print.rs` and `files.rs`
//! (events and outcome to the original's bytes) and `help.rs`. A face knows no socket and no protocol: it turns words into
//! the same phases that the native command line makes, and the same events into other bytes.
//!
//! There is none yet; the first one brings the table by which the binary finds it, under its name or by the name the
//! binary is called by.
#![forbid(unsafe_code)]
