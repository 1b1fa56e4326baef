//! ttcp: Teldat's `ttcp tx` and `ttcp rx` with their words, and the classic program with its
//! letters.

mod args;
mod help;
mod print;
mod prompt;
mod run;
mod spec;

use args::read;
use common::Original;
use help::PAGE;
use print::{Printer, Usage, print};
use prompt::{prompt, words};
use spec::{Dialect, Request, Spec, TransferRole};

/// ttcp.
pub(crate) const ORIGINALS: &[Original] = &[Original {
    name: "ttcp",
    about: "Be ttcp: Teldat's tx and rx with their words, or the classic program's letters",
    run: run::run,
    print: |outcome, events| Ok(print(outcome, events)),
    tables: None,
}];
