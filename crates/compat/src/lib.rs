//! Common parts of the originals' command lines, printouts and files: tables of options and their
//! parser ([`mod@options`]), numbers as C prints them ([`number`]), and other programs' files as
//! outcomes ([`import`]).
//!
//! An original's own table, printer and files stand in the folder `compat` of its protocol's crate.
//! Programs without a protocol here, flent and irtt, have only a reader, which stands in this
//! crate.
#![forbid(unsafe_code)]

pub mod file;
mod flent;
pub mod import;
mod irtt;
pub mod number;
pub mod options;
mod text;

pub use import::{Importer, NamedFile};
pub use options::Request;
pub use text::{Printed, Text};

/// Importers of programs without a protocol here.
pub const IMPORTERS: &[Importer] = &[
    Importer { name: "irtt -o", read: irtt::read, begins: import::NOWHERE },
    Importer { name: "flent", read: flent::read, begins: import::NOWHERE },
];
