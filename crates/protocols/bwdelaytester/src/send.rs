//! A client's flow: numbers and stamps on a schedule.

use super::codec::{HEADER, Header, LARGEST};
use super::schedule::Schedule;
use crate::Settings;
use common::kernel::{Core, Template, sent_packets};
use metrics::{Clamped, Ending, Group, Mono, Packets, SECOND};
use model::Phase;
use transport::{Checked, Context, Flow, FlowEvent, FlowId, Interest, Read, Sent, Transmit, When};

/// Most datagrams of one send call.
const MOST: usize = 64;
/// A place in the schedule that is older than this is given up, ns.
const TOO_LATE: u64 = SECOND;
const TEMPLATE: Template = Template { key: 0x6277_6400_0000_0000, payload: HEADER };

/// A sender. Ends with its ramp, if it has one, or when it is stopped.
pub struct Sender {
    size: u32,
    settings: Settings,
    core: Core,
    start: Mono,
    schedule: Schedule,
    number: u64,
    /// Datagrams that the last fill offered.
    offered: u64,
    /// The socket was full: datagrams due then are given up.
    full: bool,
}

impl Sender {
    /// The sender in slot `slot` of `phase`, which is counted in `group`.
    pub fn new(phase: &Phase, group: Group, slot: u32) -> Self {
        Sender {
            size: phase.probe.unwrap_or_default().size,
            settings: Settings::of(phase),
            core: Core::new(group, slot, 0),
            start: Mono(0),
            schedule: Schedule::new(phase),
            number: 0,
            offered: 0,
            full: false,
        }
    }

    fn due(&self) -> Mono {
        self.start.plus(self.schedule.due_ns())
    }

    fn size(&self) -> usize {
        usize::clamped(self.size).clamp(HEADER, LARGEST)
    }

    /// Gives up places that were due before `until`; how many.
    fn give_up(&mut self, until: Mono) -> u64 {
        let mut n = 0;
        while self.schedule.paced() && self.due() < until && !self.schedule.climbed() {
            self.schedule.advance();
            n += 1;
        }
        n
    }

    fn stamp(&self, cx: &Context<'_>) -> u64 {
        match self.settings.unsynchronised {
            false => u64::try_from(cx.clock.wall(cx.now).0).unwrap_or(0) / 1_000,
            true => cx.clock.host(cx.now) / 1_000,
        }
    }
}

impl Flow for Sender {
    fn interest(&self) -> Interest {
        // Nothing is expected, but the kernel reports refusals on this socket.
        let sends = Interest { send: When::At(self.due()), read: Read::look(64), ..Interest::NONE };
        let before = if self.core.row.is_some() { sends } else { Interest::NONE };
        self.core.last_interest().unwrap_or(before)
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        if std::mem::take(&mut self.full) {
            // Their numbers are used: the receiver is to count them as missing.
            let unsent = self.give_up(cx.now);
            self.number += unsent;
            self.core.packets(cx, &Packets { unsent, ..Packets::default() });
        }
        let size = self.size();
        let most = u64::clamped(out.segments().min(out.room() / size).min(MOST));
        self.offered = self.schedule.due(cx.now.since(self.start), most);
        if self.offered == 0 {
            return;
        }
        if self.schedule.paced() {
            self.core.late(cx, self.due());
        }
        let stamp_us = self.stamp(cx);
        let datagrams = TEMPLATE.offer(out, size, size * usize::clamped(self.offered));
        for (number, datagram) in (self.number..).zip(datagrams.chunks_mut(size)) {
            datagram[..HEADER].copy_from_slice(&Header { number, stamp_us }.encode());
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        let mut counts = sent_packets(n, self.size(), self.offered);
        let gone = counts.sent;
        (0..gone).for_each(|_| self.schedule.advance());
        self.number += gone;
        if n.fault.is_some() {
            // The refusal of this one, or of one before it: its place is gone. Its number is not,
            // because it never left.
            self.schedule.advance();
            counts.unsent = 1;
        }
        self.full = self.settings.give_up && n.fault.is_none() && gone < self.offered;
        self.schedule.pass(cx.now.since(self.start));
        counts.unsent += self.give_up(Mono(cx.now.0.saturating_sub(TOO_LATE)));
        self.core.sent(cx, n.bytes);
        self.core.packets(cx, &counts);
        if self.schedule.climbed() {
            self.core.end(Ending::Completed);
        }
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                self.core.id = cx.rng.uuid();
                self.start = cx.now;
                self.core.up(cx, path);
            }
            FlowEvent::Broken(_) => {
                self.core.packets(cx, &Packets { refused: 1, ..Packets::default() });
            }
            // The stream has no end but that of the rate's ramp, so a stop by the user completes
            // it.
            FlowEvent::Stop => self.core.end(Ending::Completed),
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
