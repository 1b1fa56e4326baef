//! Proof of a client's address, where the client has no key.
//!
//! A forged Setup and a forged Activation must not start a stream to their supposed sender. Until
//! the address is proven
//!
//! - a sender of load sends a few short datagrams of random sizes, together no longer than the
//!   PDUs that were received. The first report has their number and their sum, which only their
//!   receiver knows;
//! - a receiver of load answers with reports no longer than the load that it has received. The
//!   next load has the time of one of them.

use super::{Load, Moment, Status};
use metrics::{Clamped, Mono, SECOND};

/// Sizes of the datagrams that prove an address, UDP payload, bytes: two of them are no longer than
/// the two PDUs of a set-up.
const SIZES: (u64, u64) = (52, 80);
/// Their number.
const DATAGRAMS: usize = 2;
/// Time between two of them, ns.
const APART: u64 = SECOND / 20;
/// Times of reports that are remembered.
const REPORTS: usize = 64;

/// Octets and datagrams exchanged with an address that is not proven.
#[derive(Debug)]
pub struct Proof {
    /// Bytes that may still be sent.
    credit: u64,
    /// Sizes of sent datagrams of load.
    sizes: Vec<u64>,
    /// When the next one is due.
    due: Mono,
    /// Reported datagrams and bytes.
    reported: (u64, u64),
    /// Times in sent reports.
    times: Vec<Moment>,
}

impl Proof {
    /// Of an address from which this many bytes were received, and to which as many were sent in
    /// answers. The first datagram of load leaves after `due`.
    pub fn new(received: usize, due: Mono) -> Self {
        Proof { credit: u64::clamped(received), sizes: Vec::new(), due, reported: (0, 0), times: Vec::new() }
    }

    /// When the next datagram of load may leave; `None` when all have.
    pub(crate) fn due(&self) -> Option<Mono> {
        (self.sizes.len() < DATAGRAMS && self.credit >= SIZES.1).then_some(self.due)
    }

    /// Size of the next datagram of load.
    pub(crate) fn draw(rng: &mut transport::Rng) -> u64 {
        rng.between(SIZES.0, SIZES.1)
    }

    /// A datagram of load has left.
    pub(crate) fn sent(&mut self, now: Mono, bytes: u64) {
        self.credit = self.credit.saturating_sub(bytes);
        self.sizes.push(bytes);
        self.due = now.plus(APART);
    }

    /// True if a report shows that its sender received datagrams of load.
    pub(crate) fn hears_status(&mut self, status: &Status) -> bool {
        self.reported.0 += u64::from(status.trial.datagrams);
        self.reported.1 += u64::from(status.trial.bytes);
        let mut known = self.sizes.iter().map(|size| (1, *size)).collect::<Vec<(u64, u64)>>();
        known.push((u64::clamped(self.sizes.len()), self.sizes.iter().sum()));
        self.reported.0 > 0 && known.contains(&self.reported)
    }

    /// True if the received load, of `bytes`, has the time of a report.
    pub(crate) fn hears_load(&mut self, load: &Load, bytes: usize) -> bool {
        self.credit = self.credit.saturating_add(u64::clamped(bytes));
        self.times.contains(&load.echoed)
    }

    /// True if a report of this length may leave.
    pub(crate) fn pays_for(&self, bytes: usize) -> bool {
        self.credit >= u64::clamped(bytes)
    }

    /// A report with this time is to leave.
    pub(crate) fn reports(&mut self, at: Moment) {
        if self.times.len() >= REPORTS {
            self.times.remove(0);
        }
        self.times.push(at);
    }

    /// Bytes have left.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.credit = self.credit.saturating_sub(u64::clamped(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Trial;

    fn status(datagrams: u32, bytes: u32) -> Status {
        Status { trial: Trial { datagrams, bytes, ..Trial::default() }, ..Status::default() }
    }

    #[test]
    fn only_the_receiver_of_the_first_datagrams_knows_their_sizes() {
        let proof = || {
            let mut proof = Proof::new(160, Mono(0));
            for size in [60, 71] {
                assert!(proof.due().is_some());
                proof.sent(Mono(5), size);
            }
            proof
        };
        assert_eq!(proof().due(), None, "no more than was received");
        for (datagrams, bytes, proves) in
            [(1, 60, true), (1, 71, true), (2, 131, true), (1, 61, false), (2, 130, false), (0, 0, false)]
        {
            assert_eq!(proof().hears_status(&status(datagrams, bytes)), proves, "{datagrams} {bytes}");
        }
        let mut two = proof();
        assert!(!two.hears_status(&status(0, 0)) && two.hears_status(&status(2, 131)));
    }

    #[test]
    fn reports_are_paid_for_by_load_and_proven_by_their_time() {
        let mut proof = Proof::new(0, Mono(0));
        assert!(!proof.pays_for(204));
        let at = Moment { s: 7, ns: 123_456_789 };
        assert!(!proof.hears_load(&Load::default(), 300));
        assert!(proof.pays_for(204));
        proof.reports(at);
        proof.spend(204);
        assert!(!proof.pays_for(204));
        assert!(!proof.hears_load(&Load { echoed: Moment { s: 7, ns: 1 }, ..Load::default() }, 10));
        assert!(proof.hears_load(&Load { echoed: at, ..Load::default() }, 10));
    }
}
