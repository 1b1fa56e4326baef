//! ctsTraffic (Microsoft): wire-compatible with 2.0.1.x to 2.0.4.x, either end.
//!
//! Nothing is negotiated, so both ends need the same settings; what differs shows as an error or, in the original, as a
//! hang. `docs/protocols/ctstraffic.md` has the packets, the states and what mismatches look like.
//!
//! - [`codec`]: identifier and completion.
//! - [`Connection`]: one TCP connection, either end.
//! - [`Sender`], [`Receiver`]: the two ends of a media stream over UDP.
//! - [`connectors`], [`Answerer`]: what opens connections and streams, and what answers them.
#![forbid(unsafe_code)]

pub mod codec;
mod compat;
mod media;
mod open;
mod pacing;
mod tcp;

use common::{one_sided, payload, protocol, verdicts};

use crate::one_sided::OneSidedProtocol;
use crate::protocol::{Info, Legacy};
pub use media::{HZ, MediaParams, Receiver, Ring, Sender};
use model::{Kind, Payload, Phase};
pub use open::{Answerer, acceptors, connectors};
pub use tcp::{Connection, Role};

/// The default port, TCP and UDP.
pub const PORT: u16 = 4444;

/// That of Microsoft's ctsTraffic.
pub static PROTOCOL: OneSidedProtocol = OneSidedProtocol {
    info: Info {
        legacy: Some(Legacy {
            serves: "everybody; push, 1 GiB a connection, as usual",
            phase: compat::usual_phase,
            ..Legacy::PLAIN
        }),
        originals: compat::ORIGINALS,
        importers: compat::IMPORTERS,
        ..Info::new("ctstraffic", PORT)
    },
    carries,
    connectors,
    acceptors,
};

fn carries(phase: &Phase) -> Result<(), &'static str> {
    if let Some(media) = &phase.media {
        // A shorter last datagram takes from the one before, which must stay longer than a header.
        if media.datagram < 53 && media.frame_size > u64::from(media.datagram) {
            return Err("cannot split frames into datagrams of less than 53 bytes");
        }
    }
    if phase.kind == Kind::Stream && phase.pattern.sends_up() {
        return Err("streams media from the server only");
    }
    if phase.kind == Kind::Ping {
        return Err("sends nothing back: it carries no round trips");
    }
    if phase.kind.probes() {
        return Err("carries no delay; native does");
    }
    if phase.payload != Payload::Pattern {
        return Err("has one payload, the pattern: both ends compare with it");
    }
    if phase.total_bytes.is_some() {
        return Err(
            "cannot end after a number of bytes: the server would wait for the rest of a connection that was \
                    cut short; use a transfer and iterations",
        );
    }
    if phase.exclusive {
        return Err("cannot ask a server to exclude others");
    }
    Ok(())
}
