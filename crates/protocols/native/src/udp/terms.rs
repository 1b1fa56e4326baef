//! Settings that the flows of a session share, and the cookies that their peers return.

use crate::auth::keyed;
use crate::budget::Budget;
use crate::opening::Opener;
use metrics::{Clamped, ClockKind, Group, Mono, SECOND};
use model::{Phase, Spacing};
use std::net::IpAddr;
use std::ops::Deref;
use transport::Path;
use uuid::Uuid;

/// Settings that a session's flows share, in addition to its phase.
#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) phase: Phase,
    pub(crate) group: Group,
    /// The client's openings.
    pub(crate) opener: Option<Opener>,
    pub(crate) probe: model::Probe,
    /// The client wants to know each frame that it receives.
    pub(crate) tells: bool,
    pub(crate) duration_ns: u64,
    /// When data begins; the client's to say.
    pub(crate) start: Option<Mono>,
    /// Limits the exchanges that compare the clocks.
    pub(crate) budget: Budget,
}

impl Deref for Terms {
    type Target = Phase;

    fn deref(&self) -> &Phase {
        &self.phase
    }
}

impl Terms {
    /// The terms of `phase`; `None` when it does not send datagrams.
    pub(crate) fn of(phase: &Phase, group: Group, opener: Option<Opener>) -> Option<Self> {
        let (probe, duration_ns) = (phase.probe?, phase.ends_after()?);
        let budget = Budget::of(phase);
        let phase = phase.clone();
        Some(Terms { phase, group, opener, probe, tells: false, duration_ns, start: None, budget })
    }

    /// The method of comparing the clocks, which the client chose before its proposal.
    pub(crate) fn clock(&self) -> ClockKind {
        self.probe.clock.unwrap_or(ClockKind::InBand)
    }

    /// The time that a schedule takes, ns: to one gap after its last datagram.
    pub(crate) fn schedule_ns(&self) -> u64 {
        let duration = self.duration_ns;
        match (&self.media, self.probe.gap_ps(self.rate)) {
            (Some(media), _) => {
                let frames = u128::from(duration) * u128::from(media.frame_rate);
                let frames = u64::clamped(frames.div_ceil(u128::from(SECOND)));
                media.due_ns(frames.min(media.frames))
            }
            (None, gap @ 1..) if self.probe.spacing == Spacing::Fixed && self.train.is_none() => {
                let gap = u128::from(gap);
                u64::clamped((u128::from(duration) * 1_000).div_ceil(gap) * gap / 1_000)
            }
            _ => duration,
        }
    }

    /// True if the server returns packets.
    pub(crate) fn echo(&self) -> bool {
        self.train.as_ref().is_some_and(|train| train.echo)
    }
}

/// The cookie that proves an address: only a receiver at that address knows it.
pub(crate) fn cookie(secret: &[u8; 32], path: &Path, id: Uuid) -> [u8; 16] {
    let ip = match path.peer.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    keyed(secret, &[b"netcaliper udp", &ip, &path.peer.port().to_be_bytes(), id.as_bytes()])
}
