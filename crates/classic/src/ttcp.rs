//! ttcp: Teldat's `ttcp tx` and `ttcp rx` with their words, and the classic program with its letters.

mod args;
mod ask;
mod help;
mod print;
mod spec;

pub use args::read;
pub use ask::ask;
pub use help::PAGE;
pub use print::{Face, Usage, print};
pub use spec::{Asked, Dialect, Role, Spec, Unit};
