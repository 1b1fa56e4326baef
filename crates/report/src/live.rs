//! The run on a screen, while it lasts: rates, latency, errors, connections, caveats.
//!
//! Three parts that know nothing of each other's troubles. A [`Feed`] takes the events, which costs next to nothing and keeps no
//! more than so many, however long nobody asks for them. A [`View`] takes what was fed, and keys; it knows what is to be seen. And
//! it draws that into a [`Grid`] of cells, which the caller takes to a terminal, a test or a [picture](svg). None of them reads a
//! clock: the time is an argument.

mod connections;
mod draw;
mod feed;
mod figures;
mod grid;
mod keys;
mod pages;
mod progress;
mod svg;
mod track;
mod view;

#[cfg(test)]
mod tests;

pub use feed::Feed;
pub use grid::{Cell, CellStyle, Color, Grid};
pub use keys::{Press, Presses};
pub use progress::Planned;
pub use svg::write_svg;
pub use view::{Look, View, Wish};
