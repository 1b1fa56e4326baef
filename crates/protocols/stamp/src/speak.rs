//! A sender's requests and the evaluation of replies: the way on which messages were lost, and the
//! delay of each way.

use super::clocks::Clocks;
use super::codec::{Mode, Reply, Request, is_sealed, seal};
use super::time::{ErrorEstimate, Format};
use super::tlv;
use super::ways::Ways;
use common::Psk;
use common::ping::{DecodedEcho, Talk, Times};
use metrics::{Clamped, Clock, Estimate, Exchange, Group, IpFields, Mono, TwoWay, Wall, WayFacts, widen};
use model::StampSettings;
use std::collections::VecDeque;
use transport::{Context, Received, Transmit};

/// Replies whose time is remembered for later stamps.
const REMEMBERED: usize = 64;

/// A sender's side of one flow.
#[derive(Debug)]
pub struct Speaker {
    settings: StampSettings,
    key: Option<Psk>,
    group: Group,
    ways: Ways,
    clocks: Clocks,
    /// The latest reply, the number of its message, and its extensions.
    heard: Option<(Reply, u64, tlv::Contents)>,
    /// The remote end's own estimate of its clock's error.
    theirs: ErrorEstimate,
    times: VecDeque<(u32, u64)>,
    facts: WayFacts,
}

impl Speaker {
    /// The sender's side of a flow that is counted in `group`.
    pub fn new(settings: StampSettings, key: Option<Psk>, group: Group) -> Self {
        Speaker {
            settings,
            key: key.filter(|_| settings.authenticated),
            group,
            ways: Ways::new(),
            clocks: Clocks::default(),
            heard: None,
            theirs: ErrorEstimate::default(),
            times: VecDeque::new(),
            facts: WayFacts::default(),
        }
    }

    fn mode(&self) -> Mode {
        if self.settings.authenticated { Mode::Sealed } else { Mode::Open }
    }

    fn format(&self) -> Format {
        if self.settings.ptp { Format::Ptp } else { Format::Ntp }
    }

    /// True if a reply carries the proof that it needs, or needs none.
    fn proven(&self, bytes: &[u8]) -> bool {
        self.key.as_ref().map_or(!self.settings.authenticated, |key| is_sealed(bytes, key))
    }

    /// Records a reply's facts besides its times.
    fn note(&mut self, cx: &mut Context<'_>, reply: &Reply, heard: tlv::Contents, got: &Received<'_>) {
        let facts = &mut self.facts;
        let error = ErrorEstimate::decode(reply.head.error);
        facts.remote_error_ns = facts.remote_error_ns.max(error.ns);
        facts.remote_synced = Some(facts.remote_synced.unwrap_or(true) && error.synced);
        facts.back_marks.see(got.ttl, got.tos, 1);
        let ttl = reply.ttl.filter(|ttl| *ttl > 0);
        match heard.tos {
            Some(tos) => facts.there_marks.see(ttl.unwrap_or(0), tos, 1),
            None => {
                facts.there_marks.add(&IpFields { ttl: ttl.map(|ttl| (ttl, ttl)), ..IpFields::default() });
            }
        }
        facts.unnamed += u64::from(self.settings.ssid != 0 && reply.head.ssid == 0);
        heard.unrecognised.iter().for_each(|&kind| facts.not_recognised(kind));
        facts.malformed += u64::from(heard.malformed);
        facts.tampered += u64::from(heard.tampered);
        facts.remote_clock = heard.clock.or(facts.remote_clock);
        let counts = heard.counts.map(|(received, sent)| (u64::from(received), u64::from(sent)));
        facts.remote_counts = facts.remote_counts.max(counts);
        if self.settings.follow_up {
            if let Some((number, left)) = heard.left {
                self.follow_up(cx, error.format, number, left);
            }
            if self.times.len() == REMEMBERED {
                self.times.pop_front();
            }
            self.times.push_back((reply.head.number, reply.head.sent));
        }
    }

    /// An earlier reply left the remote end at this time.
    fn follow_up(&mut self, cx: &mut Context<'_>, format: Format, number: u32, left: u64) {
        let Some(at) = self.times.iter().position(|(known, _)| *known == number) else { return };
        let Some((_, said)) = self.times.remove(at) else { return };
        let local = cx.clock.wall(cx.now);
        let late =
            format.decode(left, local).zip(format.decode(said, local)).map(|(left, said)| left.0 - said.0);
        if let Some(late) = late.and_then(|late| u64::try_from(late).ok()) {
            self.tally(cx).left_late_ns.record(late);
        }
    }

    /// Takes the exchanges apart of which that can be done.
    fn judge(&mut self, cx: &mut Context<'_>, last: bool) {
        let Some((at, by_wall)) = self.clocks.estimate(cx.now, cx.clock, &self.theirs, last) else { return };
        self.facts.clock_bound_ns = self.facts.clock_bound_ns.max(Some(at.bound_ns));
        self.facts.clock_offset_ns = Some(at.offset_ns.saturating_sub(cx.clock.wall_at_zero));
        let mut held = std::mem::take(&mut self.clocks.held);
        let tally = self.tally(cx);
        for exchange in &held {
            let (there, back) = one_way(exchange, &at);
            tally.there_ns.record(there);
            tally.back_ns.record(back);
        }
        self.facts.by_wall += if by_wall { u64::clamped(held.len()) } else { 0 };
        held.clear();
        self.clocks.held = held;
    }

    fn tally<'a>(&self, cx: &'a mut Context<'_>) -> &'a mut TwoWay {
        cx.rec.packet_tally(self.group).ways.get_or_insert_default()
    }
}

/// The two delays of an exchange, ns. A negative one is 0, within the error.
fn one_way(exchange: &Exchange, at: &Estimate) -> (u64, u64) {
    let ours = |at: Mono| i64::try_from(at.0).unwrap_or(i64::MAX);
    let there = exchange.t2.saturating_sub(at.offset_ns).saturating_sub(ours(exchange.t1));
    let back = ours(exchange.t4).saturating_sub(exchange.t3.saturating_sub(at.offset_ns));
    (u64::try_from(there).unwrap_or(0), u64::try_from(back).unwrap_or(0))
}

impl Talk for Speaker {
    fn word(&self, clock: &Clock, now: Mono) -> u64 {
        self.format().encode(clock.wall(now))
    }

    fn offer(&mut self, cx: &Context<'_>, number: u64, size: usize, out: &mut Transmit<'_>) {
        let mode = self.mode();
        let ours =
            ErrorEstimate { ns: Some(cx.clock.error_ns), synced: cx.clock.synced, format: self.format() };
        let request = Request {
            // The sequence number has 32 bits and wraps.
            number: number as u32,
            sent: self.word(cx.clock, cx.now),
            error: ours.encode(),
            ssid: self.settings.ssid,
        };
        let packet = out.own(size);
        request.encode(mode, packet);
        if let Some(units) = packet.get_mut(mode.base()..) {
            let sent = self.ways.sent as u32;
            tlv::ask(&self.settings, self.key.as_ref(), &request.number.to_be_bytes(), sent, units);
        }
        seal(packet, self.key.as_ref());
    }

    fn left(&mut self, number: u64, accepted: bool) {
        self.ways.left(number, accepted);
    }

    fn decode(&mut self, bytes: &[u8], next: u64) -> DecodedEcho {
        self.heard = None;
        let mode = self.mode();
        let is_ours = |ssid: u16| [ssid, self.settings.ssid].contains(&0) || ssid == self.settings.ssid;
        let reply = Reply::decode(mode, bytes).filter(|reply| self.proven(bytes) && is_ours(reply.head.ssid));
        let Some(reply) = reply else {
            self.facts.rejected += 1;
            return DecodedEcho::Noise;
        };
        let units = bytes.get(mode.base()..).unwrap_or_default();
        let heard = tlv::decode(mode, self.key.as_ref(), &reply.head.number.to_be_bytes(), units);
        let number = widen(next, reply.request.number);
        let word = reply.request.sent;
        self.heard = Some((reply, number, heard));
        DecodedEcho::Answer { number, word }
    }

    fn on_answer(&mut self, cx: &mut Context<'_>, got: &Received<'_>, sent: Mono, fresh: bool) -> Times {
        let Some((reply, number, heard)) = self.heard.take() else { return Times::default() };
        self.ways.on_reply(number, reply.head.number, fresh);
        if !fresh {
            return Times::default();
        }
        self.note(cx, &reply, heard, got);
        self.theirs = ErrorEstimate::decode(reply.head.error);
        let (format, local) = (self.theirs.format, cx.clock.wall(cx.now));
        // All zeros are no time.
        let time = |raw: u64| if raw == 0 { None } else { format.decode(raw, local) };
        let Some((Wall(t2), Wall(t3))) = time(reply.received).zip(time(reply.head.sent)) else {
            return Times::default();
        };
        let t4 = got.stamp.map_or(cx.now, |stamp| stamp.at);
        let exchange = Exchange { t1: sent, t2, t3, t4 };
        self.clocks.add(cx.now, exchange);
        self.judge(cx, false);
        let remote_ns = t3.checked_sub(t2).and_then(|ns| u64::try_from(ns).ok());
        Times { remote_ns, path_ns: remote_ns.and_then(|_| u64::try_from(exchange.round_trip()).ok()) }
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        self.judge(cx, true);
        self.ways.report(&mut self.facts);
        let facts = std::mem::take(&mut self.facts);
        self.tally(cx).merge(&TwoWay { facts, ..TwoWay::default() });
    }
}
