//! Limits of a server's clients: rate, time and bytes of a client, an address, and all together.
//!
//! ```text
//! total ◀─ address ◀─ client ◀─ budget of a link ─ turn
//! ```
//!
//! An [`Allowance`] is shared by the workers that have a client's links. A link has a
//! [`LinkBudget`], which takes a share of the allowance for some milliseconds and pays from it
//! without touching what others share. A stream without a share is neither written nor read until
//! its next share is due: the peer is paced. Datagrams are always read, because the peer would
//! count missing ones as lost: a peer above its rate is refused as a whole.

use crate::admission::holder;
use metrics::{Clamped, Mono, SECOND, format_bits_per_second};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Length of a share, ns: a timer that is late by less costs no rate.
const SHARE: u64 = SECOND / 100;
/// Smallest and largest share, bytes.
const SMALLEST: u64 = 1_500;
const LARGEST: u64 = 64 * 1024;
/// A share with fewer bytes left is used up: flows offer framing in one piece.
const USED_UP: u64 = 512;
/// Datagrams may be early by this time, ns, or this many bytes: schedules have bursts.
const EARLY: u64 = SECOND / 4;
const EARLY_BYTES: u64 = 64 * 1024;
/// The same for datagrams that are sent back at once.
const EARLY_BACK: u64 = SECOND / 20;
const EARLY_BACK_BYTES: u64 = 8 * 1024;
/// Time without datagrams that counts for the next ones, ns: a busy host, this one or the
/// peer's, is late and makes up for it.
const LATE: u64 = SECOND;
/// The test of a client ends when nothing has moved for this time, ns.
const PAUSE: u64 = SECOND / 5;
/// The same of a client that has used up its time or bytes, ns.
const QUIET: u64 = SECOND;
/// The same of a client whose datagrams were refused, ns: a sender waits for lost answers.
const REFUSED_FOR: u64 = 3 * SECOND;
/// Clients that are remembered; further ones count together.
const MOST_CLIENTS: usize = 4096;

/// The most that somebody may move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Bits/s of each direction.
    pub rate: Option<u64>,
    /// Length of a test, ns.
    pub time_ns: Option<u64>,
    /// Bytes of both directions together.
    pub bytes: Option<u64>,
}

impl Terms {
    /// Returns whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Terms::default()
    }
}

/// A direction, as this end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From this end.
    Sent,
    /// To this end.
    Received,
}

/// Effect of a limit on a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curb {
    /// Its streams wait.
    Paced,
    /// Its datagrams were more than its rate: none of them is received or answered any more.
    Refused,
    /// Its time is over.
    Time,
    /// Its bytes are used up.
    Bytes,
}

/// Limits that links share. Rates count payload and framing, without the headers of packets.
#[derive(Debug)]
pub struct Allowance {
    /// The owner, for messages: `one client`.
    whose: &'static str,
    terms: Terms,
    began: Mono,
    /// Bytes may leave early by so much, ns: a schedule that both ends agreed on has bursts.
    burst_ns: u64,
    /// Both ends have agreed on a schedule within these limits.
    is_agreed: bool,
    /// When all that was taken is paid for, of each direction, ns.
    paid: [AtomicU64; 2],
    /// Bytes left.
    left: AtomicU64,
    /// When it was last used, ns.
    used: AtomicU64,
    /// Links that have a budget.
    links: AtomicU32,
    refused: AtomicBool,
    /// Bytes were asked for when none were left.
    used_up: AtomicBool,
    /// Curbs that were reported, a bit each.
    reported: AtomicU32,
    /// The allowances around this one.
    above: Vec<Arc<Allowance>>,
    /// Bytes of a share.
    share: u64,
}

impl Allowance {
    /// An allowance that begins now, within `above`.
    pub fn new(
        whose: &'static str,
        terms: Terms,
        above: impl IntoIterator<Item = Arc<Allowance>>,
        now: Mono,
    ) -> Self {
        let above = above.into_iter().flat_map(|one| [one.above.clone(), vec![one]].concat());
        let above: Vec<_> = above.collect();
        let share = terms.rate.map_or(LARGEST, |rate| {
            u64::clamped(u128::from(rate) * u128::from(SHARE) / 8 / u128::from(SECOND))
        });
        let share = share.min(terms.bytes.map_or(LARGEST, |bytes| bytes / 100)).clamp(SMALLEST, LARGEST);
        let share = share.min(above.iter().map(|above| above.share).min().unwrap_or(LARGEST));
        Allowance {
            whose,
            terms,
            began: now,
            burst_ns: SHARE,
            is_agreed: false,
            paid: Default::default(),
            left: AtomicU64::new(terms.bytes.unwrap_or(u64::MAX)),
            used: AtomicU64::new(now.0),
            links: AtomicU32::new(0),
            refused: AtomicBool::new(false),
            used_up: AtomicBool::new(false),
            reported: AtomicU32::new(0),
            above,
            share,
        }
    }

    /// Allows bursts of `burst` bytes: the schedule of a test has some.
    #[must_use]
    pub fn with_bursts(self, burst: u64) -> Self {
        let burst_ns = self.terms.rate.map_or(SHARE, |rate| cost(EARLY_BYTES.max(burst), rate));
        Allowance { burst_ns: burst_ns.max(2 * EARLY_BACK), ..self }
    }

    /// Allows 5 % more, and bursts of `burst` bytes, for a test whose schedule both ends have
    /// agreed on: its own pace decides.
    #[must_use]
    pub fn agreed(self, burst: u64) -> Self {
        let rate = self.terms.rate.map(|rate| rate.saturating_add(rate / 20));
        Allowance { terms: Terms { rate, ..self.terms }, is_agreed: true, ..self }.with_bursts(burst)
    }

    /// Returns this allowance, then the allowances around it.
    fn levels(&self) -> impl Iterator<Item = &Allowance> {
        std::iter::once(self).chain(self.above.iter().map(|above| &**above))
    }

    /// Takes `bytes`; returns the instant at which these may pass.
    fn reserve(&self, direction: Direction, bytes: u64, now: Mono) -> Mono {
        self.used.store(now.0, Ordering::Relaxed);
        self.levels().fold(now, |at, level| at.max(level.take(direction, bytes, now, level.burst_ns)))
    }

    /// Takes `bytes` of datagrams; returns whether earlier ones were within the rate.
    fn charge(&self, direction: Direction, bytes: u64, now: Mono) -> bool {
        self.used.store(now.0, Ordering::Relaxed);
        let (early, early_bytes) = match direction {
            Direction::Sent => (EARLY_BACK, EARLY_BACK_BYTES),
            Direction::Received => (EARLY, EARLY_BYTES),
        };
        self.levels().enumerate().fold(true, |kept, (nth, level)| {
            let Some(rate) = level.terms.rate else { return kept };
            let before = level.take(direction, bytes, now, LATE.min(now.since(level.began)));
            // Streams of other clients have reserved shares of the same address, or of all.
            let others = if nth > 0 { SECOND } else { 0 };
            kept && before.since(now) <= cost(early_bytes, rate).max(early).max(level.burst_ns).max(others)
        })
    }

    /// Takes `bytes` of this level alone; the instant at which all that was taken before is paid
    /// for, `burst` before now at the earliest.
    fn take(&self, direction: Direction, bytes: u64, now: Mono, burst: u64) -> Mono {
        let Some(rate) = self.terms.rate else { return Mono(0) };
        let (earliest, cost) = (now.0.saturating_sub(burst), cost(bytes, rate));
        let next = |paid: u64| Some(paid.max(earliest).saturating_add(cost));
        let paid = &self.paid[direction as usize];
        let before = paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        Mono(before.unwrap_or_else(|paid| paid).max(earliest))
    }

    /// Takes up to `bytes` of the bytes left; returns their number.
    fn draw(&self, bytes: u64) -> u64 {
        self.levels().fold(bytes, |bytes, level| {
            let take = |left: u64| (left < u64::MAX).then(|| left.saturating_sub(bytes));
            match level.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
                Ok(before) if before >= bytes => bytes,
                Ok(before) => {
                    level.used_up.fetch_or(before == 0, Ordering::Relaxed);
                    before
                }
                Err(_) => bytes,
            }
        })
    }

    /// Gives back bytes that were drawn and not used.
    fn give_back(&self, bytes: u64) {
        for level in self.levels() {
            let give = |left: u64| (left < u64::MAX).then(|| left.saturating_add(bytes).min(u64::MAX - 1));
            // Without a limit there is nothing to give back.
            let _ = level.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, give);
        }
    }

    /// When the time is over.
    pub fn until(&self) -> Option<Mono> {
        self.levels().filter_map(|level| Some(level.began.plus(level.terms.time_ns?))).min()
    }

    /// Bytes left, where these are limited.
    pub fn bytes_left(&self) -> Option<u64> {
        Some(self.left.load(Ordering::Relaxed)).filter(|left| *left < u64::MAX)
    }

    /// The curb that has ended the test of this client.
    pub fn is_over(&self, now: Mono) -> Option<Curb> {
        if self.until().is_some_and(|until| until <= now) {
            return Some(Curb::Time);
        }
        let used_up = self.levels().any(|level| level.used_up.load(Ordering::Relaxed));
        used_up.then_some(Curb::Bytes)
    }

    /// A client that goes on although it was refused stays refused.
    pub fn touch(&self, now: Mono) {
        self.used.store(now.0, Ordering::Relaxed);
    }

    /// Returns whether the test goes on, or could.
    fn lasts(&self, now: Mono) -> bool {
        let quiet = now.since(Mono(self.used.load(Ordering::Relaxed)));
        let least = match self.refused.load(Ordering::Relaxed) {
            true => REFUSED_FOR,
            false if self.is_over(now).is_some() => QUIET,
            false => PAUSE,
        };
        self.links.load(Ordering::Relaxed) > 0 || quiet < least
    }

    /// The line about a curb, once for each.
    pub fn report(&self, curb: Curb) -> Option<String> {
        // A client of our own protocol knows its rate, and its schedule keeps it.
        if curb == Curb::Paced && self.is_agreed {
            return None;
        }
        let bit = 1 << (curb as u32);
        if self.reported.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return None;
        }
        let rate = || {
            let slowest = self.levels().filter_map(|level| Some((level.terms.rate?, level.whose))).min();
            slowest.map_or_else(String::new, |(rate, whose)| {
                format!("{}, the most of {whose}", format_bits_per_second(rate))
            })
        };
        Some(match curb {
            Curb::Paced => format!("paced to {}", rate()),
            Curb::Refused => format!("refused: its datagrams are more than {}", rate()),
            Curb::Time => {
                let time = self.levels().filter_map(|level| level.terms.time_ns).min().unwrap_or(0);
                format!("ended after {} s, the longest test of {}", metrics::real(time) / 1e9, self.whose)
            }
            Curb::Bytes => {
                let used_up = self.levels().filter(|level| level.used_up.load(Ordering::Relaxed));
                let least = used_up.filter_map(|level| Some((level.terms.bytes?, level.whose))).min();
                let (bytes, whose) = least.unwrap_or((0, self.whose));
                format!("ended after {bytes} bytes, the most of {whose}")
            }
        })
    }
}

/// The time of `bytes` at `rate`, ns.
fn cost(bytes: u64, rate: u64) -> u64 {
    u64::clamped(u128::from(bytes) * 8 * u128::from(SECOND) / u128::from(rate.max(1)))
}

/// The bytes that a link may move now: its share of an [`Allowance`].
#[derive(Debug)]
pub struct LinkBudget {
    allowance: Arc<Allowance>,
    /// Bytes that may pass of each direction, from these instants on. Below zero where a datagram
    /// was longer.
    left: [i64; 2],
    from: [Mono; 2],
    /// Datagrams: bytes received that are not charged yet.
    owed: u64,
    /// Since the last turn: until when a direction waits.
    held: [Option<Mono>; 2],
    /// A curb that was not reported.
    news: Option<Curb>,
    over: bool,
    /// Belongs to a link, which keeps the client's test alive.
    of_link: bool,
    touched: Mono,
}

impl LinkBudget {
    /// The budget of a link.
    pub fn new(allowance: Arc<Allowance>) -> Self {
        allowance.links.fetch_add(1, Ordering::Relaxed);
        let mut budget = LinkBudget::without_link(allowance);
        budget.of_link = true;
        budget
    }

    /// The budget of datagrams without a link.
    pub fn without_link(allowance: Arc<Allowance>) -> Self {
        LinkBudget {
            allowance,
            left: [0; 2],
            from: [Mono(0); 2],
            owed: 0,
            held: [None; 2],
            news: None,
            over: false,
            of_link: false,
            touched: Mono(0),
        }
    }

    /// The allowance of which shares are taken.
    pub fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// Begins a turn; returns whether the link may go on.
    pub(crate) fn begin(&mut self, now: Mono, datagrams: bool) -> bool {
        self.held = [None; 2];
        if datagrams && self.allowance.refused.load(Ordering::Relaxed) {
            self.end(Curb::Refused);
        } else if let Some(curb) = self.allowance.is_over(now) {
            self.end(curb);
        }
        if self.over {
            self.allowance.touch(now);
        }
        !self.over
    }

    fn end(&mut self, curb: Curb) {
        (self.over, self.news) = (true, Some(curb));
    }

    /// Bytes that may pass now; 0 where the direction has to wait or the test is over.
    pub(crate) fn room(&mut self, direction: Direction, now: Mono) -> usize {
        let way = direction as usize;
        if self.left[way] < i64::clamped(USED_UP) {
            let share = self.allowance.share;
            let need = u64::clamped(i64::clamped(share) - self.left[way]);
            let drawn = self.allowance.draw(need);
            if drawn == 0 {
                self.end(Curb::Bytes);
                return 0;
            }
            self.left[way] += i64::clamped(drawn);
            self.from[way] = self.allowance.reserve(direction, drawn, now);
        }
        if self.from[way] > now {
            self.held[way] = Some(self.from[way]);
            self.news = self.news.or(Some(Curb::Paced));
            return 0;
        }
        usize::clamped(self.left[way].max(1))
    }

    /// Bytes have passed.
    pub(crate) fn spend(&mut self, direction: Direction, bytes: usize) {
        self.left[direction as usize] -= i64::clamped(bytes);
    }

    /// Counts received datagrams; returns whether the peer is within its limits.
    pub fn receive(&mut self, bytes: usize, now: Mono) -> bool {
        self.owed += u64::clamped(bytes);
        if now.since(self.touched) > PAUSE / 4 {
            self.touched = now;
            self.allowance.touch(now);
        }
        let owed = if self.owed < self.allowance.share { 0 } else { std::mem::take(&mut self.owed) };
        if self.allowance.refused.load(Ordering::Relaxed) {
            self.end(Curb::Refused);
        } else if owed > 0 {
            self.charge(Direction::Received, owed, now);
        }
        if self.over {
            self.allowance.touch(now);
        }
        !self.over
    }

    /// Counts a datagram that is to be sent back at once; returns whether it may be.
    pub fn reply(&mut self, bytes: usize, now: Mono) -> bool {
        !self.over && self.charge(Direction::Sent, u64::clamped(bytes), now)
    }

    fn charge(&mut self, direction: Direction, bytes: u64, now: Mono) -> bool {
        if let Some(curb) = self.allowance.is_over(now) {
            self.end(curb);
        } else if self.allowance.draw(bytes) < bytes {
            // A datagram is not cut.
            self.allowance.draw(1);
            self.end(Curb::Bytes);
        } else if !self.allowance.charge(direction, bytes, now) {
            self.allowance.refused.store(true, Ordering::Relaxed);
            self.end(Curb::Refused);
        }
        !self.over
    }

    /// The instant of the next share of a direction that waits for one.
    pub fn held(&self, direction: Direction) -> Option<Mono> {
        self.held[direction as usize]
    }

    /// Returns whether the link has to end.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The line about the latest curb, once.
    pub fn news(&mut self) -> Option<String> {
        self.news.take().and_then(|curb| self.allowance.report(curb))
    }
}

impl Drop for LinkBudget {
    fn drop(&mut self) {
        self.allowance.links.fetch_sub(self.of_link.into(), Ordering::Relaxed);
        self.allowance.give_back(self.left.iter().map(|left| u64::clamped(*left)).sum());
    }
}

/// The clients of a server whose protocol has no sessions, by their addresses: a client is an
/// address for as long as something moves. With the addresses, and all together, of every protocol
/// of the server.
#[derive(Debug)]
pub struct Clients {
    terms: Terms,
    table: Mutex<Table>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    address: Terms,
    total: Option<Arc<Allowance>>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    all: HashMap<IpAddr, Arc<Allowance>>,
    /// The last search for entries whose tests are over.
    swept: Mono,
}

/// The entry of a table for an address, made anew where its test is over.
fn enter(
    table: &Mutex<Table>,
    address: IpAddr,
    now: Mono,
    new: impl FnOnce() -> Allowance,
) -> Arc<Allowance> {
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    let mut at = holder(address);
    if table.all.len() >= MOST_CLIENTS && !table.all.contains_key(&at) {
        if now.since(table.swept) >= PAUSE {
            table.swept = now;
            table.all.retain(|_, allowance| allowance.lasts(now));
        }
        if table.all.len() >= MOST_CLIENTS {
            at = IpAddr::from([0; 4]);
        }
    }
    match table.all.get(&at) {
        Some(allowance) if allowance.lasts(now) => Arc::clone(allowance),
        _ => {
            let new = Arc::new(new());
            table.all.insert(at, Arc::clone(&new));
            new
        }
    }
}

impl Clients {
    /// Nobody yet; each client, each address and all together may move so much.
    pub fn new(client: Terms, address: Terms, total: Terms) -> Self {
        let total = (!total.is_unlimited())
            .then(|| Arc::new(Allowance::new("all clients together", total, None, Mono(0))));
        let shared = Arc::new(Shared { address, total, table: Mutex::default() });
        Clients { terms: client, table: Mutex::default(), shared }
    }

    /// The same addresses for another protocol, whose clients may move so much.
    #[must_use]
    pub fn with_terms(&self, client: Terms) -> Self {
        Clients { terms: client, table: Mutex::default(), shared: Arc::clone(&self.shared) }
    }

    /// The allowance of an address, where one is limited.
    pub fn of_address(&self, address: IpAddr, now: Mono) -> Option<Arc<Allowance>> {
        let Shared { address: terms, total, table } = &*self.shared;
        if terms.is_unlimited() {
            return total.clone();
        }
        Some(enter(table, address, now, || Allowance::new("one address", *terms, total.clone(), now)))
    }

    /// The allowance of the client at an address, where one is limited.
    pub fn of_client(&self, address: IpAddr, now: Mono) -> Option<Arc<Allowance>> {
        if self.terms.is_unlimited() {
            return self.of_address(address, now);
        }
        let above = || self.of_address(address, now);
        Some(enter(&self.table, address, now, || Allowance::new("one client", self.terms, above(), now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = SECOND / 1000;

    fn rate(bps: u64) -> Terms {
        Terms { rate: Some(bps), ..Terms::default() }
    }

    fn address(n: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + n).to_be_bytes())
    }

    /// Bytes that links with these budgets send in so many ms, each as soon as it may.
    fn sent(budgets: &mut [LinkBudget], ms: u64) -> u64 {
        let mut all = 0;
        for at in 0..ms * 10 {
            for budget in &mut *budgets {
                let now = Mono(SECOND + at * MS / 10);
                assert!(budget.begin(now, false));
                let room = budget.room(Direction::Sent, now);
                budget.spend(Direction::Sent, room);
                all += u64::clamped(room);
            }
        }
        all
    }

    #[test]
    fn the_shares_of_all_links_add_up_to_the_rate() {
        for links in [1, 3, 40] {
            let client = Arc::new(Allowance::new("one client", rate(10_000_000), None, Mono(SECOND)));
            let mut budgets: Vec<LinkBudget> =
                (0..links).map(|_| LinkBudget::new(Arc::clone(&client))).collect();
            let all = sent(&mut budgets, 1_000);
            assert!((1_200_000..=1_300_000).contains(&all), "{links}: {all}");
        }
    }

    #[test]
    fn a_client_has_no_more_than_its_address_and_all_together_have() {
        let clients = Clients::new(rate(10_000_000), rate(4_000_000), rate(6_000_000));
        let other = clients.with_terms(Terms::default());
        let budget = |of: &Clients, n| LinkBudget::new(of.of_client(address(n), Mono(SECOND)).unwrap());
        let mut one = [budget(&clients, 1), budget(&other, 1)];
        assert!((480_000..=540_000).contains(&sent(&mut one, 1_000)));
        let clients = Clients::new(rate(10_000_000), rate(4_000_000), rate(6_000_000));
        let mut all = [budget(&clients, 1), budget(&clients, 2), budget(&clients, 3)];
        assert!((700_000..=790_000).contains(&sent(&mut all, 1_000)));
    }

    #[test]
    fn datagrams_within_the_rate_pass_and_a_flood_is_refused_until_it_has_been_silent() {
        let clients = Clients::new(rate(10_000_000), Terms::default(), Terms::default());
        let at = |us: u64| Mono(SECOND + us * 1_000);
        let mut budget = LinkBudget::without_link(clients.of_client(address(1), at(0)).unwrap());
        // 9.6 Mbit/s for ten seconds, and echoes.
        assert!(
            (0..10_000).all(|n| budget.receive(1_200, at(n * 1_000)) && budget.reply(1_200, at(n * 1_000)))
        );
        let mut budget = LinkBudget::without_link(clients.of_client(address(2), at(0)).unwrap());
        let passed = (0..1_000_000).take_while(|n| budget.receive(1_200, at(n * 10))).count();
        assert!(passed < 1_000, "{passed} in 10 ms");
        assert_eq!(
            budget.news().unwrap(),
            "refused: its datagrams are more than 10.0 Mbit/s, the most of one client"
        );
        assert!(budget.news().is_none());
        let again = |us: u64| {
            let mut budget = LinkBudget::without_link(clients.of_client(address(2), at(us)).unwrap());
            budget.receive(100, at(us))
        };
        assert!(!again(2_900_000) && !again(5_800_000) && again(8_900_000));
    }

    #[test]
    fn a_host_that_is_late_makes_up_for_it_and_no_more() {
        let clients = Clients::new(rate(10_000_000), Terms::default(), Terms::default());
        let at = |ms: u64| Mono(SECOND + ms * MS);
        let mut budget = LinkBudget::without_link(clients.of_client(address(1), at(0)).unwrap());
        let mut passes = |ms| budget.receive(1_200, at(ms)) && budget.reply(1_200, at(ms));
        // 9.6 Mbit/s, of which nothing is read for 900 ms, and then all of it at once.
        assert!((0..1_000).all(&mut passes));
        assert!((1_000..1_900).all(|_| passes(1_900)));
        assert!((1_900..3_000).all(&mut passes));
        let passed = (0..10_000).take_while(|_| passes(3_000)).count();
        assert!(passed < 300, "{passed} that no silence came before");
    }

    #[test]
    fn bytes_are_counted_over_links_and_given_back() {
        let terms = Terms { bytes: Some(100_000), ..Terms::default() };
        let client = Arc::new(Allowance::new("one client", terms, None, Mono(0)));
        let mut all = 0;
        for _ in 0..100 {
            let mut budget = LinkBudget::new(Arc::clone(&client));
            if !budget.begin(Mono(1), false) {
                break;
            }
            let room = budget.room(Direction::Received, Mono(1)).min(3_000);
            budget.spend(Direction::Received, room);
            all += room;
        }
        assert_eq!(all, 100_000);
        assert_eq!(client.is_over(Mono(1)), Some(Curb::Bytes));
        let key = Arc::new(Allowance::new("this key a day", terms, None, Mono(0)));
        let session = Arc::new(Allowance::new("one session", Terms::default(), [Arc::clone(&key)], Mono(0)));
        drop(LinkBudget::new(session));
        assert_eq!(key.bytes_left(), Some(100_000));
    }

    #[test]
    fn a_test_has_a_length_and_a_pause_begins_another() {
        let terms = Terms { time_ns: Some(2 * SECOND), ..Terms::default() };
        let clients = Clients::new(terms, Terms::default(), Terms::default());
        let of = |now| clients.of_client(address(1), Mono(now)).unwrap();
        let first = LinkBudget::new(of(SECOND));
        assert!(Arc::ptr_eq(&of(SECOND), &of(2 * SECOND)));
        assert_eq!(of(3 * SECOND).is_over(Mono(3 * SECOND)), Some(Curb::Time));
        of(3 * SECOND).touch(Mono(3 * SECOND));
        drop(first);
        assert!(of(3 * SECOND + SECOND / 2).is_over(Mono(3 * SECOND + SECOND / 2)).is_some());
        assert!(of(4 * SECOND).is_over(Mono(4 * SECOND)).is_none());
    }

    #[test]
    fn the_table_of_clients_is_bounded_and_nobody_is_without_a_limit() {
        let clients = Clients::new(rate(1_000), Terms::default(), Terms::default());
        let all: Vec<_> =
            (1..10_000).map(|n| LinkBudget::new(clients.of_client(address(n), Mono(0)).unwrap())).collect();
        assert!(clients.table.lock().unwrap().all.len() <= MOST_CLIENTS + 1);
        assert!(all.iter().all(|budget| budget.allowance().terms.rate == Some(1_000)));
    }
}
