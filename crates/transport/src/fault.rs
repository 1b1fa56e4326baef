//! Failures of a link: a refusal of the kernel (a fault) and an act of the peer (a violation).

use metrics::Ending;
use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

/// The action that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Deed {
    /// Making a socket or setting its options.
    Open,
    /// Binding to a local address.
    Bind,
    /// Listening.
    Listen,
    /// Connecting.
    Connect,
    /// Sending.
    Send,
    /// Receiving.
    Receive,
}

/// A refusal by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fault {
    /// The action.
    pub deed: Deed,
    /// The system's error number.
    pub errno: i32,
}

/// An error's number on each system, of errors without a kind in std.
const fn number(linux: i32, bsd: i32, windows: i32) -> i32 {
    if cfg!(windows) {
        windows
    } else if cfg!(target_os = "linux") {
        linux
    } else {
        bsd
    }
}

/// No memory for a packet: `ENOBUFS`.
const NO_BUFFERS: i32 = number(105, 55, 10_055);
/// A datagram longer than the path or the socket takes: `EMSGSIZE`.
const TOO_LONG: i32 = number(90, 40, 10_040);

/// The likely cause of a connection that is not answered.
pub const FIREWALL: &str = "is a firewall in the way?";

impl Fault {
    /// True if another socket has the port.
    pub fn is_port_taken(&self) -> bool {
        std::io::Error::from_raw_os_error(self.errno).kind() == ErrorKind::AddrInUse
    }

    /// True if the kernel had no memory for the packet.
    pub fn is_without_buffers(&self) -> bool {
        self.errno == NO_BUFFERS
    }

    /// True if the datagram was longer than the path or the socket takes.
    pub fn is_too_long(&self) -> bool {
        self.errno == TOO_LONG
    }

    /// The likely cause and its remedy, where the system's words name neither.
    fn advice(&self) -> Option<&'static str> {
        match (self.deed, std::io::Error::from_raw_os_error(self.errno).kind()) {
            (Deed::Bind | Deed::Listen, ErrorKind::AddrInUse) => {
                Some("another server or program has the port")
            }
            (Deed::Bind | Deed::Listen, ErrorKind::PermissionDenied) => {
                Some("ports below 1024 need root or CAP_NET_BIND_SERVICE")
            }
            (Deed::Connect, ErrorKind::TimedOut) => Some(FIREWALL),
            (Deed::Connect, ErrorKind::HostUnreachable) => {
                Some("refused by a firewall, or there is no such host")
            }
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deed = match self.deed {
            Deed::Open => "opening a socket",
            Deed::Bind => "binding",
            Deed::Listen => "listening",
            Deed::Connect => "connecting",
            Deed::Send => "sending",
            Deed::Receive => "receiving",
        };
        write!(f, "{deed}: {}", std::io::Error::from_raw_os_error(self.errno))?;
        self.advice().map_or(Ok(()), |advice| write!(f, ": {advice}"))
    }
}

/// Something the peer, or the path, did that the protocol does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Payload that differs from the sent one. `want` and `got` hold the first `len` bytes from
    /// the first bad one.
    BadData {
        /// Offset of the first bad byte in its direction's payload.
        offset: u64,
        /// The expected bytes.
        want: [u8; 16],
        /// The received bytes.
        got: [u8; 16],
        /// Number of valid bytes in `want` and `got`.
        len: u8,
    },
    /// The stream ended before its payload was complete.
    TooFew {
        /// Payload bytes received.
        got: u64,
        /// Payload bytes expected.
        want: u64,
    },
    /// Bytes arrived after the payload was complete.
    TooMany {
        /// Payload bytes expected.
        want: u64,
    },
    /// The two ends counted differently.
    Disagree {
        /// Bytes sent.
        sent: u64,
        /// Bytes the other end says it received.
        received: u64,
    },
    /// The peer found our payload damaged.
    Reported {
        /// Offset of the first bad byte as the peer counted.
        offset: u64,
    },
    /// The framing around the payload was damaged, after this many payload bytes.
    BadFrame {
        /// Payload bytes received before it.
        offset: u64,
    },
    /// The peer hung up before it confirmed its received bytes.
    Unconfirmed {
        /// Payload bytes sent.
        sent: u64,
    },
    /// The session that the connection belongs to is gone, because its other end is.
    Vanished,
    /// Nothing moved for too long.
    Stalled(Duration),
    /// The peer spoke, but not our protocol; the text describes its bytes.
    Malformed(&'static str),
    /// The kernel's error about a datagram that ended the flow's present step.
    Refused(Fault),
    /// A violation with its likely cause, where two ends that agree on nothing were not set alike.
    Likely(Box<Violation>, String),
}

/// A flow's verdict on received bytes: it goes on, or its peer broke the protocol.
pub type Checked = Result<(), Violation>;

impl Violation {
    /// The same, with its likely cause in words.
    #[must_use]
    pub fn likely(self, why: impl Into<String>) -> Self {
        Violation::Likely(Box::new(self), why.into())
    }

    /// The class under which reports count it.
    pub fn ending(&self) -> Ending {
        match self {
            Violation::Stalled(_) | Violation::Vanished | Violation::Refused(_) => Ending::NetworkError,
            Violation::Malformed(_) => Ending::ProtocolError,
            Violation::Likely(what, _) => what.ending(),
            _ => Ending::DataError,
        }
    }

    /// The violation without particulars: failures with the same name are counted together.
    pub fn name(&self) -> &'static str {
        match self {
            Violation::BadData { .. } => model::ending::WRONG_DATA,
            Violation::TooFew { .. } => model::ending::TOO_FEW,
            Violation::TooMany { .. } => "too many bytes",
            Violation::Disagree { .. } => "the ends disagree on the byte count",
            Violation::Reported { .. } => "the peer received wrong data",
            Violation::BadFrame { .. } => "damaged framing",
            Violation::Unconfirmed { .. } => model::ending::UNCONFIRMED,
            Violation::Vanished => "the remote end vanished",
            Violation::Stalled(_) => "timed out: nothing moved",
            Violation::Malformed(what) => what,
            Violation::Refused(_) => "refused by the system",
            Violation::Likely(what, _) => what.name(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::BadData { offset, want, got, len } => {
                let n = usize::from(*len).min(16);
                write!(
                    f,
                    "wrong data at offset {offset}: expected {}, received {}",
                    Hex(&want[..n]),
                    Hex(&got[..n])
                )
            }
            Violation::TooFew { got, want } => write!(f, "too few bytes: {got} of {want} arrived"),
            Violation::TooMany { want } => write!(f, "too many bytes: more than the {want} expected"),
            Violation::Disagree { sent, received } => {
                write!(f, "the ends disagree: {sent} bytes sent, {received} received")
            }
            Violation::Reported { offset } => write!(f, "the peer received wrong data at offset {offset}"),
            Violation::BadFrame { offset } => write!(f, "damaged framing after {offset} bytes of payload"),
            Violation::Unconfirmed { sent } => {
                write!(f, "the peer closed the connection without confirming the {sent} bytes sent")
            }
            Violation::Vanished => f.write_str("aborted: the remote end vanished"),
            Violation::Stalled(after) => write!(f, "timed out: nothing moved for {after:?}"),
            Violation::Malformed(what) => write!(f, "protocol error: {what}"),
            Violation::Refused(fault) => fault.fmt(f),
            Violation::Likely(what, why) => write!(f, "{what}: {why}"),
        }
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Why a link failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The kernel's word.
    Fault(Fault),
    /// The peer's deed.
    Violation(Violation),
}

impl Cause {
    /// The class under which reports count it.
    pub fn ending(&self) -> Ending {
        match self {
            Cause::Fault(_) => Ending::NetworkError,
            Cause::Violation(violation) => violation.ending(),
        }
    }
}

impl From<Fault> for Cause {
    fn from(fault: Fault) -> Self {
        Cause::Fault(fault)
    }
}

impl From<Violation> for Cause {
    fn from(violation: Violation) -> Self {
        Cause::Violation(violation)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Fault(fault) => fault.fmt(f),
            Cause::Violation(violation) => violation.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_refusal_names_its_likely_cause() {
        let text = |deed, errno| Fault { deed, errno }.to_string();
        for (deed, errno, advice) in [
            (Deed::Bind, 98, "binding: Address already in use (os error 98): another server or program has"),
            (Deed::Bind, 13, "ports below 1024 need root"),
            (Deed::Connect, 110, "Connection timed out (os error 110): is a firewall in the way?"),
            (
                Deed::Connect,
                113,
                "No route to host (os error 113): refused by a firewall, or there is no such",
            ),
        ] {
            assert!(text(deed, errno).contains(advice), "{}", text(deed, errno));
        }
        assert_eq!(text(Deed::Receive, 113), "receiving: No route to host (os error 113)");
    }
}
