//! The commands that measure, serve or prepare either.

pub(crate) mod baseline;
pub(crate) mod delay;
pub(crate) mod demo;
pub(crate) mod lab;
pub(crate) mod legacy;
pub(crate) mod lines;
pub(crate) mod load;
pub(crate) mod loopback;
pub(crate) mod measure;
pub(crate) mod monitor;
pub(crate) mod ping;
pub(crate) mod plan;
pub(crate) mod processes;
pub(crate) mod serve;
pub(crate) mod stream;
pub(crate) mod train;
