//! Rows of single items: connections, frames, datagrams.

use crate::document::tagged_field;
use metrics::{Ending, Frames, Sample, Spread, TcpInfo};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use uuid::Uuid;

/// Traffic of one connection in the measured part of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portion {
    /// Which of the concurrent connections; 0 where the other end opened it.
    pub slot: u32,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Payload bytes sent.
    pub tx_bytes: u64,
    /// Payload bytes received.
    pub rx_bytes: u64,
    /// When it began, ns since the phase's start.
    pub from_ns: u64,
    /// When the last of them moved, or the end of the stream was read, ns since the phase's start.
    pub to_ns: u64,
    /// Send or receive calls, as the original counts them.
    pub calls: u64,
    /// True if the connection had no end of its own: it broke, or was still open when this end
    /// ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl Portion {
    /// A connection between these addresses that begins then, on which nothing has moved.
    pub fn new(local: SocketAddr, remote: SocketAddr, from_ns: u64) -> Self {
        let (to_ns, calls, cut) = (from_ns, 0, false);
        Portion { slot: 0, local, remote, tx_bytes: 0, rx_bytes: 0, from_ns, to_ns, calls, cut }
    }
}

/// The smoothed round trips of those connections whose kernel has measured one, ns; `None` without
/// any.
pub fn sampled_rtt_ns(samples: &[Sample]) -> Option<Spread> {
    let known = samples.iter().map(|sample| f64::from(sample.info.rtt_us) * 1e3);
    Spread::of(&known.filter(|ns| *ns > 0.0).collect::<Vec<f64>>())
}

/// One frame of a media stream, as its receiver judged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameRow {
    /// Its number, from 1.
    pub seq: u64,
    /// The judgement.
    pub verdict: FrameVerdict,
    /// Received bytes, headers included.
    pub bytes: u64,
    /// The sender's clock when it sent the last datagram that arrived; 0 without any.
    pub sender_ticks: i64,
    /// The sender's ticks per second; 0 when no datagram arrived.
    pub sender_hz: i64,
    /// Our clock when that datagram arrived; 0 without any.
    pub receiver_ticks: i64,
    /// Our ticks per second; 0 when no datagram arrived.
    pub receiver_hz: i64,
}

/// Verdict on a frame when it was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameVerdict {
    /// All bytes arrived.
    Completed,
    /// Bytes were missing.
    Dropped,
    /// More bytes arrived than it has.
    Repeated,
}

/// Cause of a connection's failure, apart from the words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(tag = "why"))]
#[serde(remote = "Self", rename_all = "snake_case")]
pub enum Failure {
    /// The system refused.
    System {
        /// The action: `open`, `bind`, `listen`, `connect`, `send` or `receive`.
        deed: String,
        /// The error as class and number, for programs.
        errno: i32,
    },
    /// Bytes differed from the sent ones.
    BadData,
    /// The stream ended early, or its end was not confirmed.
    TooFew,
    /// More bytes arrived than were agreed.
    TooMany,
    /// Nothing moved for too long.
    Stalled,
    /// Anything else that the peer did.
    Other,
}

tagged_field!(Failure, "why");

impl FrameVerdict {
    /// One frame of this verdict.
    pub fn counted(self) -> Frames {
        match self {
            FrameVerdict::Completed => Frames { completed: 1, ..Frames::default() },
            FrameVerdict::Dropped => Frames { dropped: 1, ..Frames::default() },
            FrameVerdict::Repeated => Frames { repeated: 1, ..Frames::default() },
        }
    }
}

/// One connection, from open to end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConnectionRecord {
    /// Identifier of the connection at both ends; nil when it failed before the identifier was
    /// exchanged.
    pub id: Uuid,
    /// Local address and port; `None` when there was none.
    pub local: Option<SocketAddr>,
    /// The peer's address and port.
    pub remote: SocketAddr,
    /// When it ended, ns since the phase's start.
    pub ended_ns: u64,
    /// Payload bytes sent.
    pub tx_bytes: u64,
    /// Payload bytes received.
    pub rx_bytes: u64,
    /// Time to connect, ns; `None` on the accepting side and when it never connected.
    pub connect_ns: Option<u64>,
    /// Time from established to end, ns.
    pub duration_ns: u64,
    /// Its ending.
    pub result: Ending,
    /// The error in words; `None` without one.
    pub error: Option<String>,
    /// The error as class and number, for programs; `None` without one.
    pub failure: Option<Failure>,
    /// TCP_INFO at its end.
    pub tcp: Option<TcpInfo>,
    /// Frames received; `None` when the connection is no media stream.
    pub frames: Option<Frames>,
}
