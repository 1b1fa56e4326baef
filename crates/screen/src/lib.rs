//! The run on a screen, while it lasts: rates, latency, errors, connections, caveats.
//!
//! Three independent parts. A [`Feed`] queues events, cheaply and up to a limit. A [`View`] takes
//! the queued events and keys, and decides the content of the screen. The view draws into a
//! [`Grid`] of cells, which the caller writes to a terminal, a test or a [picture](write_svg). None
//! of them reads a clock: the time is an argument.
#![forbid(unsafe_code)]

mod draw;
mod figures;
mod grid;
mod keys;
mod pages;
mod plot;
mod stages;
mod track;
mod view;

#[cfg(test)]
mod tests;

pub use grid::{Cell, CellStyle, Color, Grid, write_svg};
pub use keys::{Press, Presses};
pub use track::Planned;
pub use view::{Feed, Look, View, Wish};
