//! The datagram side of the simulator, with flows of a few lines.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use metrics::{Ending, Group, Mono};
use seam::{Batch, Burst, Card, Cx, End, Flow, News, Read, Violation, Want, When, Wrote};
use std::sync::{Arc, Mutex};
use wire::sim::{At, Cut, Link, Pair, Quirks, START};

const MS: u64 = 1_000_000;

/// Sends `count` numbered datagrams, `run` to a send, one send a millisecond, and counts what comes back.
struct Asker {
    count: u32,
    run: u32,
    size: usize,
    sent: u32,
    due: Mono,
    told: Arc<Mutex<Told>>,
}

/// What came back: numbers in order, stamps by tag, damaged ones. Flows are boxed inside the pair, so it is shared.
#[derive(Default)]
struct Told {
    seen: Vec<u32>,
    stamps: Vec<u32>,
    bad: u32,
}

impl Asker {
    fn new(count: u32, run: u32, size: usize, told: Arc<Mutex<Told>>) -> Box<Self> {
        Box::new(Asker { count, run, size, sent: 0, due: START, told })
    }
}

impl Flow for Asker {
    fn want(&self) -> Want {
        let over = self.due.plus(500 * MS);
        let send = if self.sent < self.count { When::At(self.due) } else { When::Never };
        let end = (self.due == Mono(u64::MAX)).then_some(End::Done { how: Ending::Completed, reset: false });
        let wake = (self.sent == self.count).then_some(over);
        Want { send, read: Read::look(65_536), wake, end }
    }
    fn fill(&mut self, _: &mut Cx<'_>, out: &mut Burst<'_>) {
        out.segment = self.size as u16;
        out.tag = Some(self.sent);
        for n in self.sent..(self.sent + self.run).min(self.count) {
            let own = out.own(self.size);
            own.fill(0xab);
            own[..4].copy_from_slice(&n.to_be_bytes());
        }
    }
    fn wrote(&mut self, cx: &mut Cx<'_>, n: Wrote) {
        self.sent += (n.bytes / self.size) as u32;
        if n.bytes > 0 {
            self.due = cx.now.plus(MS);
        }
    }
    fn take(&mut self, cx: &mut Cx<'_>, got: &Batch<'_>, _: &mut Burst<'_>) -> Result<(), Violation> {
        assert!(got.stamp.unwrap().at <= cx.now && got.from.is_some());
        let mut told = self.told.lock().unwrap();
        for datagram in got.datagrams() {
            told.bad += u32::from(datagram[4..].iter().any(|&b| b != 0xab));
            told.seen.push(u32::from_be_bytes(datagram[..4].try_into().unwrap()));
        }
        Ok(())
    }
    fn hear(&mut self, _: &mut Cx<'_>, news: News) -> Result<(), Violation> {
        match news {
            News::Stamped { tag, .. } => self.told.lock().unwrap().stamps.push(tag),
            News::Wake => self.due = Mono(u64::MAX),
            _ => {}
        }
        Ok(())
    }
    fn card(&self) -> Card {
        Card::default()
    }
}

/// Sends back what it gets.
#[derive(Default)]
struct Echo {
    seen: u32,
    row: Option<metrics::Row>,
}

impl Flow for Echo {
    fn want(&self) -> Want {
        Want { send: When::Never, read: Read::look(65_536), wake: None, end: None }
    }
    fn fill(&mut self, _: &mut Cx<'_>, _: &mut Burst<'_>) {}
    fn wrote(&mut self, cx: &mut Cx<'_>, n: Wrote) {
        if let Some(row) = self.row {
            cx.rec.sent(row, n.bytes as u64);
        }
    }
    fn take(&mut self, cx: &mut Cx<'_>, got: &Batch<'_>, reply: &mut Burst<'_>) -> Result<(), Violation> {
        if let Some(row) = self.row {
            cx.rec.received(row, got.len as u64);
        }
        self.seen += got.datagrams().count() as u32;
        reply.segment = got.stride as u16;
        let own = reply.own(got.len);
        let n = own.len();
        own.copy_from_slice(&got.bytes[..n]);
        Ok(())
    }
    fn hear(&mut self, cx: &mut Cx<'_>, news: News) -> Result<(), Violation> {
        if let News::Up(_) = news {
            self.row = Some(cx.rec.open(Group(1), cx.now));
        }
        Ok(())
    }
    fn card(&self) -> Card {
        Card { row: self.row, ..Card::default() }
    }
}

/// Runs an asker against `pair`'s server; what it was told.
fn asked(mut pair: Pair, count: u32, run: u32, size: usize) -> (Pair, Told) {
    let told = Arc::default();
    pair.ends[0].flow = Asker::new(count, run, size, Arc::clone(&told));
    pair.run();
    let told = std::mem::take(&mut *told.lock().unwrap());
    (pair, told)
}

fn echo() -> Pair {
    Pair::datagrams(Box::new(Echo::default()), Box::new(Echo::default()))
}

#[test]
fn a_clean_link_brings_everything_back_in_order() {
    for (run, quirks) in
        [(1, Quirks::default()), (10, Quirks::default()), (10, Quirks { shy: 0.0, ..Quirks::rough() })]
    {
        let (pair, Told { seen, stamps, .. }) = asked(echo().seed(3).quirks(quirks), 1_000, run, 400);
        assert!(seen.iter().copied().eq(0..1_000), "{quirks:?}: {}", seen.len());
        assert!(pair.ends[0].completed());
        assert_eq!(pair.ends[1].counts.rx_bytes, 400_000);
        assert_eq!(stamps.len() < (1_000 / run) as usize, quirks.lost_stamps > 0.0, "{}", stamps.len());
    }
}

#[test]
fn what_the_link_does_is_what_it_says() {
    let link = Link::new().loss(0.1).duplicate(0.05).reorder(0.05).corrupt(0.02);
    let (pair, Told { seen, bad, .. }) = asked(echo().seed(9).up(link), 5_000, 5, 100);
    let fate = pair.fate(0);
    assert_eq!(fate.sent, 5_000);
    assert_eq!(seen.len() as u64, fate.sent - fate.lost + fate.doubled);
    assert!((400..600).contains(&fate.lost) && (150..350).contains(&fate.doubled), "{fate:?}");
    assert!((100..400).contains(&fate.delayed) && fate.damaged.abs_diff(bad.into()) < 30, "{fate:?} {bad}");
    assert!(seen.windows(2).any(|w| w[1] < w[0]), "nothing was overtaken");
}

#[test]
fn a_bottleneck_delays_and_then_drops() {
    // 1000 bytes a millisecond into 4 Mbit/s: half of it does not fit.
    let link = Link::new().rate(4_000_000).queue(10_000);
    let (pair, Told { seen, .. }) = asked(echo().up(link), 1_000, 1, 1_000);
    let fate = pair.fate(0);
    assert!((450..=550).contains(&fate.dropped), "{fate:?}");
    assert_eq!(seen.len() as u64, 1_000 - fate.dropped);
}

#[test]
fn a_full_receive_buffer_and_a_cut_link_lose() {
    let (pair, Told { seen, .. }) = asked(echo().up(Link::new().window(2_000)), 100, 50, 100);
    let fate = pair.fate(0);
    assert_eq!((fate.overflowed, seen.len()), (60, 40), "two runs of 50, of which 20 fit each");
    let cut = Link::new().cut(At::Time(START.plus(50 * MS)), Cut::Silence);
    let (_, Told { seen, .. }) = asked(echo().up(cut), 100, 1, 100);
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
    let (_, Told { seen, .. }) = asked(echo().up(Link::new().flip(4 * 100 + 50, 8)), 10, 1, 100);
    assert_eq!(seen.len(), 10);
}
