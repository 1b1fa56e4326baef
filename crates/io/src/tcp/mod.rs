//! TCP sockets: listening, connecting, options, the kernel's figures of a connection, and the
//! contract's `Net`.

#[cfg(unix)]
mod info;
mod listener;
mod net;
mod settings;
mod stream;

pub use listener::Listener;
pub use net::TcpNet;
pub(crate) use settings::{Options, class_octet, effective_options, set_tos, set_ttl};
pub use settings::{Refusal, check, keep_alive};
pub use stream::Stream;

#[cfg(test)]
mod tests;
