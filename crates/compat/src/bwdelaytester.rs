//! bwdelaytester: its command line, its lines on stdout, and its two tables on stderr.
//!
//! [`Printer`] prints what is right: what the original means. With `--as-original` it prints what the original would have
//! printed of the same datagrams.

mod args;
mod help;
pub(crate) mod import;
mod original;
mod print;
mod slots;
mod table;
#[cfg(test)]
mod tests;

pub use args::{Asked, Client, Server, read};
pub use help::USAGE;
pub use print::{Printer, print};
