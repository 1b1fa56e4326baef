//! Measures the pairs of many hosts: the choice of pairs, an order without conflicts, and the
//! matrix of results.
//!
//! [`inventory`], [`plan`], [`schedule`] and [`result`] are pure: they open no socket, and time is
//! an argument. A controller reads an inventory, makes a [`Plan`](plan::Plan), asks
//! [`schedule::next`] which tests may start, starts them by some transport, and passes each event
//! to the [`ScheduleState`](schedule::ScheduleState).
//!
//! [`controller`] and [`agent`] do that: they exchange [`message`]s over a [`transport`], and each
//! result is on a disk at every moment, in the agent's [`spool`] or in the run's [`record`]. With
//! the feature `nats`, several controllers can share a run (`standby`).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod agent;
pub mod controller;
pub mod inventory;
pub mod matrix;
// For what damages messages from outside: nothing else needs them.
#[doc(hidden)]
pub mod message;
pub mod plan;
pub mod record;
pub mod result;
mod schedule;
pub mod spool;
#[cfg(feature = "nats")]
pub mod standby;
mod threads;
pub mod transport;
mod verdict;
