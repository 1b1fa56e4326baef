//! Our own protocol: one port, TCP control, TCP data.
//!
//! Every connection opens with a 64-byte [`preamble`]. A control connection goes on with length-prefixed JSON
//! ([`message`]); a data connection with payload in spans, framed by 16-byte [`mark`]s ([`data`]).

mod auth;
mod client;
mod data;
mod dial;
mod grants;
mod handshake;
mod hello;
mod inside;
mod mark;
mod message;
mod ping;
mod preamble;
mod server;
pub mod udp;

pub use auth::Psk;
pub use client::{Client, ClientPlan, Peer};
pub use data::{Data, Params, Role};
pub use dial::{Dialer, Site};
pub use grants::{Grant, Grants};
pub use handshake::{Acl, Handshake, Listener, Stranger};
pub use hello::{answer_hello, hello, is_answer};
pub use mark::{Kind as MarkKind, MARK, Mark};
pub use message::{Frames, MAX_MESSAGE, Message, MessageError, encode};
pub use preamble::{Guess, PREAMBLE, Preamble, Purpose, guess};
pub use server::{Limits, Server, ServerPlan};

/// The default port, TCP and UDP.
pub const PORT: u16 = 7411;
/// Version of the wire format; both ends must have the same.
pub const WIRE_VERSION: u16 = 1;
