//! Each end's report of a flow that is over: its sums, and every datagram on request.

use super::log::Log;
use super::terms::Terms;
use crate::message::{FlowReport, Message};
use metrics::{
    Clamped, FlowSums, Group, PacketOutcome, Packets, ReceivedPacket, SentPacket, StampKind, packet_outcomes,
};
use model::{FlowRow, FlowWay, MOST_SAMPLES, PacketRow};
use std::collections::BTreeMap;
use transport::Path;

/// Entries of one message: far below the longest one.
const PIECE: usize = 8_000;

/// One end's memory of a flow. The flow posts it as a note when it is over.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Track {
    /// The session's group, once posted.
    pub(crate) group: Option<Group>,
    pub(crate) path: Option<Path>,
    /// Of a server's: which of the run's servers it is.
    pub(crate) server: usize,
    pub(crate) report: FlowReport,
    /// Datagrams sent and received, where every one of them is remembered.
    pub(crate) sent: Vec<SentPacket>,
    pub(crate) got: Vec<ReceivedPacket>,
    /// Record of packet trains.
    pub(crate) log: Option<Box<Log>>,
}

/// Room for the datagrams of one flow and direction.
#[derive(Debug)]
pub(super) struct Memory<T> {
    all: Vec<T>,
    left_out: u64,
    most: usize,
}

impl<T> Memory<T> {
    /// Room for one flow of `terms`, when datagrams are to be remembered.
    pub(super) fn of(terms: &Terms) -> Option<Box<Self>> {
        let most = MOST_SAMPLES / terms.connections.max(1) as usize;
        terms.probe.samples.then(|| Box::new(Memory { all: Vec::new(), left_out: 0, most }))
    }

    /// The remembered ones, and the number of further ones.
    pub(super) fn into_parts(memory: Option<Box<Self>>) -> (Vec<T>, u64) {
        memory.map_or_else(|| (Vec::new(), 0), |memory| (memory.all, memory.left_out))
    }

    /// Number `number` from 0, if there was room for it.
    pub(super) fn at(&mut self, number: u64) -> Option<&mut T> {
        self.all.get_mut(usize::try_from(number).ok()?)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.all.iter_mut()
    }

    pub(super) fn push(&mut self, one: T) {
        if self.all.len() < self.most {
            self.all.push(one);
        } else {
            self.left_out += 1;
        }
    }
}

impl Track {
    /// True if `got` holds every arrival that the report counts: messages about some may be lost.
    fn has_all_arrivals(&self) -> bool {
        let Packets { received, duplicated, corrupt, .. } = self.report.sums.counts;
        let arrivals = received.saturating_add(duplicated).saturating_add(corrupt);
        self.report.got_left_out == 0 && u64::clamped(self.got.len()) >= arrivals
    }

    /// The messages of the track, packet trains first. Times are relative to the start, offsets to
    /// the last one.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Message> + '_ {
        let FlowReport { slot, start_ns, offset_ns, .. } = self.report;
        let message = move |sent: &[SentPacket], got: &[ReceivedPacket]| Message::Samples {
            slot,
            sent: sent
                .iter()
                .map(|left| {
                    let intended = left.intended_ns.wrapping_sub(start_ns);
                    (intended, left.sent_ns.wrapping_sub(left.intended_ns), number(left.stamp))
                })
                .collect(),
            got: got
                .iter()
                .map(|came| {
                    let at = came.received_ns.wrapping_sub(start_ns);
                    let offset = came.offset_ns.wrapping_sub(offset_ns);
                    (came.sequence, at, offset, number(came.stamp), came.damaged)
                })
                .collect(),
        };
        let sent = self.sent.chunks(PIECE).map(move |piece| message(piece, &[]));
        let got = self.got.chunks(PIECE).map(move |piece| message(&[], piece));
        let trains = self.log.iter().flat_map(|log| log.messages());
        trains.chain([Message::Flow(self.report)]).chain(sent).chain(got)
    }
}

/// Number for the source of a stamp in messages.
pub(super) fn number(stamp: StampKind) -> u8 {
    match stamp {
        StampKind::User => 0,
        StampKind::KernelRx | StampKind::KernelTx => 1,
        StampKind::Hardware => 2,
    }
}

/// The stamp kind of a message; `kernel` is the kernel's stamp in that direction.
pub(super) fn stamp(number: u8, kernel: StampKind) -> StampKind {
    match number {
        0 => StampKind::User,
        1 => kernel,
        _ => StampKind::Hardware,
    }
}

/// Both ends' reports of the flows of a run.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    local: BTreeMap<u32, Track>,
    remote: BTreeMap<u32, Track>,
    /// Rows from the remote ends, within their possible number.
    rows: usize,
}

impl Tracks {
    /// A flow of ours is over.
    pub(crate) fn local(&mut self, track: Track) {
        self.local.insert(track.report.slot, track);
    }

    /// Server number `server` sends all its reports again.
    pub(crate) fn forget(&mut self, server: usize) {
        let rows = |track: &Track| track.sent.len() + track.got.len();
        let gone = self.remote.extract_if(.., |_, track| track.server == server);
        self.rows = self.rows.saturating_sub(gone.map(|(_, track)| rows(&track)).sum());
    }

    /// Takes in a report of one of `flows` from server number `server`.
    pub(crate) fn remote(&mut self, message: Message, flows: u32, server: usize) {
        match message {
            Message::Flow(report) if report.slot < flows => {
                let track = Track { report, server, ..Track::default() };
                self.remote.entry(report.slot).or_insert(track);
            }
            Message::Samples { slot, sent, got } => {
                let Some(track) = self.remote.get_mut(&slot) else { return };
                let room = (2 * MOST_SAMPLES).saturating_sub(self.rows);
                if sent.len() + got.len() > room {
                    return;
                }
                self.rows += sent.len() + got.len();
                let (zero, last) = (track.report.start_ns, track.report.offset_ns);
                track.sent.extend(sent.into_iter().map(|(intended, late, kind)| {
                    let intended_ns = intended.wrapping_add(zero);
                    let sent_ns = intended_ns.wrapping_add(late);
                    SentPacket { intended_ns, sent_ns, stamp: stamp(kind, StampKind::KernelTx) }
                }));
                track.got.extend(got.into_iter().map(|(sequence, at, offset, kind, damaged)| {
                    ReceivedPacket {
                        sequence,
                        received_ns: at.wrapping_add(zero),
                        offset_ns: offset.wrapping_add(last),
                        stamp: stamp(kind, StampKind::KernelRx),
                        damaged,
                    }
                }));
            }
            _ => {}
        }
    }

    /// Counts the last datagrams of each flow as lost that its receiver could not know of, because
    /// the messages about them were lost, too. Calls `add_lost` with the receiving end (`None` for
    /// this one, else a server's place) and their number.
    pub(crate) fn settle(&mut self, mut add_lost: impl FnMut(Option<usize>, i64)) {
        for (slot, local) in &mut self.local {
            let Some(remote) = self.remote.get_mut(slot) else { continue };
            let (up, down, server) = (local.report.out, remote.report.out, remote.server);
            for (sent, got, end) in [(up, &mut remote.report, Some(server)), (down, &mut local.report, None)]
            {
                let Some(known) = got.known.replace(sent).filter(|&known| known != sent) else { continue };
                // Returned packets: a packet lost on the way there is not lost on the way back.
                let lost = i64::try_from(i128::from(sent) - i128::from(known)).unwrap_or(i64::MAX);
                got.sums.counts.lost = got.sums.counts.lost.saturating_add(lost);
                add_lost(end, lost);
            }
        }
    }

    /// A row per flow, with both ends' reports of it.
    pub(crate) fn flows(&self, up: bool, down: bool) -> Vec<FlowRow> {
        let row = |local: &Track| {
            let remote = self.remote.get(&local.report.slot).map(|remote| remote.report);
            let way = |sent: Option<u64>, got: FlowSums| FlowWay { sent, got, ..FlowWay::default() };
            FlowRow {
                flow: local.report.slot,
                local: local.path.map(|path| path.local),
                remote: local.path.map(|path| path.peer),
                up: remote.filter(|_| up).map(|remote| way(Some(local.report.out), remote.sums)),
                down: down.then(|| way(remote.map(|remote| remote.out), local.report.sums)),
            }
        };
        let mut rows: Vec<FlowRow> = self.local.values().map(row).collect();
        model::mark_flows(&mut rows);
        rows
    }

    /// The datagrams of one flow after the other, upwards before downwards; each list is one
    /// flow's.
    pub(crate) fn rows(&self, late_ns: u64) -> impl Iterator<Item = Vec<PacketRow>> + '_ {
        self.local.values().flat_map(move |local| {
            let none = Track::default();
            let FlowReport { slot, start_ns, offset_ns, .. } = local.report;
            let told = self.remote.get(&slot);
            let remote = told.unwrap_or(&none);
            // Upwards, the sender's clock is ours.
            let whole = told.is_some() && remote.has_all_arrivals();
            let up = packet_outcomes(&local.sent, &remote.got, whole, late_ns);
            // Downwards, the sender is the server: our time is the server's, minus its lead.
            let down = packet_outcomes(&remote.sent, &local.got, local.has_all_arrivals(), late_ns);
            [rows(slot, true, &up, 0, start_ns), rows(slot, false, &down, offset_ns, start_ns)]
        })
    }
}

/// The rows of `outcomes`; `offset_ns` is the sender's clock minus the client's where no arrival
/// has it, `start_ns` the start by the client's.
fn rows(flow: u32, up: bool, outcomes: &[PacketOutcome], offset_ns: i64, start_ns: i64) -> Vec<PacketRow> {
    let row = |(sequence, outcome): (usize, &PacketOutcome)| {
        let left = outcome.left?;
        let ahead = match outcome.came {
            // The receiver's clock is the client's, and it knew this of the sender's.
            Some(came) if !up => came.offset_ns.wrapping_neg(),
            _ => offset_ns,
        };
        let ours = |at: i64| at.wrapping_sub(ahead).wrapping_sub(start_ns);
        let sent_ns = ours(left.sent_ns);
        let delay_ns = outcome.delay_ns();
        Some(PacketRow {
            flow,
            up,
            sequence: sequence as u64,
            intended_ns: ours(left.intended_ns),
            sent_ns,
            sent_stamp: left.stamp,
            received_ns: delay_ns.map(|delay| sent_ns.wrapping_add(delay)),
            delay_ns,
            stamp: outcome.came.map(|came| came.stamp),
            verdict: outcome.verdict,
            repeats: outcome.repeats,
        })
    };
    outcomes.iter().enumerate().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Frames, MAX_MESSAGE, encode};
    use metrics::Verdict;

    fn track() -> Track {
        let left = |n: i64| SentPacket {
            intended_ns: (1 << 60) + n * 100,
            sent_ns: (1 << 60) + n * 100 + 7,
            stamp: StampKind::KernelTx,
        };
        let came = |n: i64| ReceivedPacket {
            sequence: n as u64,
            received_ns: (1 << 60) + n * 100 + 5_000,
            offset_ns: n % 3,
            stamp: if n % 2 == 0 { StampKind::KernelRx } else { StampKind::User },
            damaged: n == 5,
        };
        Track {
            report: FlowReport {
                slot: 3,
                start_ns: 1 << 60,
                offset_ns: -40,
                out: 20_000,
                known: Some(19_000),
                sums: FlowSums {
                    counts: Packets { received: 9, ..Packets::default() },
                    ..FlowSums::default()
                },
                ..FlowReport::default()
            },
            sent: (0..20_000).map(left).collect(),
            got: (0..20_000).filter(|n| n % 100 != 1).map(came).collect(),
            ..Track::default()
        }
    }

    #[test]
    fn arrivals_without_their_messages_are_unknown_and_not_lost() {
        let mut tracks = Tracks::default();
        let track = track();
        tracks.remote(Message::Flow(track.report), 9, 0);
        tracks.local(track);
        let verdicts = |tracks: &Tracks| {
            let up = tracks.rows(1_000_000).flatten().filter(|row| row.up);
            up.map(|row| row.verdict).collect::<Vec<_>>()
        };
        let all = verdicts(&tracks);
        assert!(all.len() == 20_000 && all.iter().all(|of| *of == Verdict::Unknown), "{:?}", all[0]);
        // A receiver that got nothing reports nothing else.
        tracks.forget(0);
        tracks.remote(Message::Flow(FlowReport { slot: 3, ..FlowReport::default() }), 9, 0);
        assert!(verdicts(&tracks).iter().all(|of| *of == Verdict::Lost));
    }

    #[test]
    fn a_track_comes_whole_through_bounded_messages() {
        let (mut frames, mut tracks) = (Frames::new(MAX_MESSAGE), Tracks::default());
        let track = track();
        for message in track.messages() {
            let bytes = encode(&message);
            assert!(bytes.len() < MAX_MESSAGE / 2, "{}", bytes.len());
            frames.push(&bytes).unwrap();
            tracks.remote(frames.pop().unwrap().unwrap(), 4, 0);
        }
        assert_eq!(tracks.remote[&3], track);
        // Reports beyond the limits, or of flows that do not exist, are ignored. 26 rounds would
        // already reach the limit.
        for _ in 0..30 {
            track.messages().for_each(|message| tracks.remote(message, 4, 0));
        }
        assert!(tracks.rows <= 2 * MOST_SAMPLES, "{}", tracks.rows);
        let other = Track { report: FlowReport { slot: 9, ..track.report }, ..track };
        other.messages().for_each(|message| tracks.remote(message, 4, 0));
        assert_eq!(tracks.remote.len(), 1);
    }

    #[test]
    fn rows_are_by_the_clients_clock_in_both_directions() {
        // The server's clock is 1 s ahead; 5 µs each way.
        let second = 1_000_000_000;
        let came = |at, offset_ns| ReceivedPacket {
            sequence: 0,
            received_ns: at,
            offset_ns,
            stamp: StampKind::KernelRx,
            damaged: false,
        };
        let left = |intended_ns, sent_ns| SentPacket { intended_ns, sent_ns, stamp: StampKind::User };
        let local = Track {
            report: FlowReport { start_ns: 100, offset_ns: second, ..FlowReport::default() },
            sent: vec![left(110, 120)],
            got: vec![came(5_230, -second)],
            ..Track::default()
        };
        let remote = Track {
            report: FlowReport { start_ns: second + 100, ..FlowReport::default() },
            sent: vec![left(second + 220, second + 230), left(second + 320, second + 330)],
            got: vec![came(second + 5_120, second)],
            ..Track::default()
        };
        let mut tracks = Tracks::default();
        remote.messages().for_each(|message| tracks.remote(message, 1, 0));
        tracks.local(local);
        let rows: Vec<PacketRow> = tracks.rows(1_000_000).flatten().collect();
        let told: Vec<_> =
            rows.iter().map(|r| (r.up, r.intended_ns, r.sent_ns, r.received_ns, r.verdict)).collect();
        assert_eq!(
            told,
            [
                (true, 10, 20, Some(5_020), Verdict::Received),
                (false, 120, 130, Some(5_130), Verdict::Received),
                (false, 220, 230, None, Verdict::Lost),
            ]
        );
    }
}
