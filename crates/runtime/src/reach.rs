//! Single tries to reach a server: which of TCP and UDP pass, whatever answers.

use crate::client::probe;
use common::protocol::Hello;
use model::Connecting;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Tries one TCP connection to `address`, which is closed at once, for at most `limit`.
pub fn connecting(address: SocketAddr, limit: Duration) -> Connecting {
    outcome_of(&TcpStream::connect_timeout(&address, limit).map(drop))
}

fn outcome_of(tried: &io::Result<()>) -> Connecting {
    let Err(error) = tried else { return Connecting::Connected };
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Connecting::Refused,
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Connecting::Silent,
        ErrorKind::PermissionDenied => Connecting::Forbidden,
        _ => Connecting::Unreachable,
    }
}

/// Round trip of a datagram that a server answers without a connection, ns; `None`
/// when none of three is answered.
pub fn hello(hello: &Hello, address: SocketAddr) -> Option<u64> {
    probe(address, hello)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_a_connect_are_told_apart() {
        let of = |kind: ErrorKind| outcome_of(&Err(kind.into()));
        assert_eq!(outcome_of(&Ok(())), Connecting::Connected);
        assert_eq!(of(ErrorKind::ConnectionRefused), Connecting::Refused);
        assert_eq!(of(ErrorKind::TimedOut), Connecting::Silent);
        assert_eq!(of(ErrorKind::HostUnreachable), Connecting::Unreachable);
        assert_eq!(of(ErrorKind::NetworkUnreachable), Connecting::Unreachable);
        assert_eq!(of(ErrorKind::PermissionDenied), Connecting::Forbidden);
    }
}
