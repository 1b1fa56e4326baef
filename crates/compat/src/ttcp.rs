//! ttcp: Teldat's `ttcp tx` and `ttcp rx` with their words, and the classic program with its letters.

mod args;
mod help;
mod print;
mod prompt;
mod spec;

pub use args::read;
pub use help::PAGE;
pub use print::{Printer, Usage, print};
pub use prompt::prompt;
pub use spec::{Dialect, Request, Role, Spec, Unit};
