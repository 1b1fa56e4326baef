//! Cards of Linux: finds them, switches their stamps on, reads their clocks, and restores their
//! settings.

use super::layout::{CardReading, How, ReadMethod, WAYS, choose, crossing};
use super::may_change;
use crate::sys::{card as sys, lock, terminal};
use crate::{Clock, host};
use metrics::{CardClock, Mono, Placement};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two readings of a card's clock.
const PAUSE: Duration = Duration::from_millis(100);

/// A card whose stamps are used.
#[derive(Debug)]
pub(crate) struct Card {
    /// No other has had it in this process, also none of the same interface.
    serial: u64,
    sends: bool,
    shared: Arc<PlacementState>,
    reader: Option<JoinHandle<()>>,
    changed: bool,
}

#[derive(Debug, Default)]
struct PlacementState {
    placement: Mutex<Option<Placement>>,
    over: Mutex<bool>,
    ends: Condvar,
}

/// The cards in use, by the interface's name.
static CARDS: Mutex<BTreeMap<String, Weak<Card>>> = Mutex::new(BTreeMap::new());
/// Cards whose stamping this process has switched on.
static CHANGED: Mutex<Vec<Changed>> = Mutex::new(Vec::new());

/// The next card's serial number; 0 is no card.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A card whose stamping was switched on: its user, a socket in its network namespace, its setting
/// before and after.
struct Changed {
    serial: u64,
    socket: UnixDatagram,
    name: String,
    was: How,
    told: How,
}

impl Card {
    /// The card of the interface `device`, or of the one that owns `local`; all sockets on it share
    /// it.
    ///
    /// # Errors
    /// A sentence that says why its stamps cannot be had.
    pub(crate) fn of(local: IpAddr, device: Option<&str>) -> Result<Arc<Card>, String> {
        let (name, able) =
            host::stamping(local, device).ok_or("no stamps of the card: no interface has that address")?;
        let mut cards = lock(&CARDS);
        if let Some(card) = cards.get(&name).and_then(Weak::upgrade) {
            return Ok(card);
        }
        // One whose last socket is just letting go of it.
        restore(|changed| changed.name == name);
        let no = |why: String| format!("no stamps of the card of {name}: {why}");
        let socket = UnixDatagram::unbound().map_err(|e| no(e.to_string()))?;
        let how = sys::how(socket.as_fd(), &name).ok();
        let choice = choose(&able, how, may_change()).map_err(no)?;
        let path = format!("/dev/ptp{}", able.clock.unwrap_or_default());
        let clock = File::open(&path).map_err(|e| no(format!("its clock {path} cannot be opened: {e}")))?;
        let mut reader = ClockReader::new(clock);
        let first = reader.read().map_err(|e| no(format!("its clock {path} cannot be read: {e}")))?;
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        let (sends, changed) = match choice {
            None => (how.is_some_and(How::sends_any), false),
            Some(to) => {
                let told = change(serial, socket, &name, how.unwrap_or(to), to).map_err(no)?;
                (told.sends_any(), true)
            }
        };
        let shared = Arc::new(PlacementState { placement: Mutex::new(first), ..PlacementState::default() });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("card-clock".to_owned());
        let handle = thread.spawn(move || reader.run(&theirs));
        // From here on dropping `card` restores the card's setting, even if the thread cannot
        // start.
        let mut card = Card { serial, sends, shared, reader: None, changed };
        card.reader = Some(handle.map_err(|e| no(format!("no thread to read its clock: {e}")))?);
        let card = Arc::new(card);
        cards.insert(name, Arc::downgrade(&card));
        Ok(card)
    }

    /// A card without an interface, whose clock no thread reads.
    #[cfg(test)]
    pub(crate) fn idle(changed: bool) -> Card {
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        Card { serial, sends: true, shared: Arc::default(), reader: None, changed }
    }

    pub(crate) fn sends(&self) -> bool {
        self.sends
    }

    /// Relation of its times to the host's now; `None` when its clock can no longer be read.
    pub(crate) fn placement(&self) -> Option<Placement> {
        *lock(&self.shared.placement)
    }
}

/// For how long a card's times are taken to lie where they did, ns: its clock is read much less
/// often.
const ALIKE: u64 = metrics::SECOND / 1000;

/// A card's placement, looked up once a millisecond: for readers of many stamps, each of which
/// would take a lock.
#[derive(Debug, Default)]
pub(crate) struct LastPlacement {
    /// Serial number of the card.
    card: u64,
    placement: Option<Placement>,
    until: Mono,
}

impl LastPlacement {
    /// [`Card::placement`], computed anew only for another card or after [`ALIKE`].
    pub(crate) fn of(&mut self, card: &Card, now: Mono) -> Option<Placement> {
        if self.card != card.serial || now >= self.until {
            let placement = card.placement();
            *self = LastPlacement { card: card.serial, placement, until: now.plus(ALIKE) };
        }
        self.placement
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        *lock(&self.shared.over) = true;
        self.shared.ends.notify_all();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        if self.changed {
            // By serial number, not by name: another user may have switched the same card on again.
            restore(|changed| changed.serial == self.serial);
        }
    }
}

/// Switches a card's stamps on; returns its setting then.
fn change(serial: u64, socket: UnixDatagram, name: &str, was: How, to: How) -> Result<How, String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| terminal::at_exit(restore_all));
    // The lock is held so that no end of the process falls between the change and its entry in the
    // list.
    let mut list = lock(&CHANGED);
    let told = sys::set(socket.as_fd(), name, to).map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => {
            "they are off, and switching them on needs CAP_NET_ADMIN".to_owned()
        }
        _ => format!("they could not be switched on: {e}"),
    })?;
    list.push(Changed { serial, socket, name: name.to_owned(), was, told });
    drop(list);
    if told.receives_all() {
        return Ok(told);
    }
    restore(|changed| changed.serial == serial);
    Err("its driver chose to stamp packets of PTP only".to_owned())
}

/// Restores the setting of cards, unless another program has changed it meanwhile.
fn restore(which: impl Fn(&Changed) -> bool) {
    let mut list = lock(&CHANGED);
    list.retain(|changed| {
        let fits = which(changed);
        if fits {
            let now = sys::how(changed.socket.as_fd(), &changed.name);
            if now.is_ok_and(|now| now == changed.told) {
                // A card that is gone needs nothing; other failures cannot be reported any more.
                let _ = sys::set(changed.socket.as_fd(), &changed.name, changed.was);
            }
        }
        !fits
    });
}

extern "C" fn restore_all() {
    restore(|_| true);
}

/// Reads a card's clock.
struct ClockReader {
    file: File,
    way: usize,
    clock: Clock,
    crossings: CardClock,
}

impl ClockReader {
    fn new(file: File) -> Self {
        ClockReader { file, way: 0, clock: Clock::new(), crossings: CardClock::default() }
    }

    /// Reads it once, in the best way that it has.
    fn read(&mut self) -> io::Result<Option<Placement>> {
        loop {
            let way = WAYS[self.way];
            let before = self.clock.wall_ahead();
            match self.ask(way) {
                Ok(reading) => {
                    let after = self.clock.wall_ahead();
                    let found = reading.and_then(|reading| crossing(reading, before, after));
                    return Ok(found.and_then(|found| self.crossings.cross(found)));
                }
                // The driver, or the kernel, does not know this one.
                Err(_) if self.way + 1 < WAYS.len() => self.way += 1,
                Err(e) => return Err(e),
            }
        }
    }

    fn ask(&self, way: ReadMethod) -> io::Result<Option<CardReading>> {
        let (request, mut block) = way.question();
        sys::ask_clock(self.file.as_fd(), request, &mut block)?;
        Ok(way.answer(&block))
    }

    /// Reads the clock until `over`. A failure is reported, and the next reading tried.
    fn run(mut self, shared: &PlacementState) {
        let mut over = lock(&shared.over);
        while !*over {
            (over, _) = shared.ends.wait_timeout(over, PAUSE).unwrap_or_else(PoisonError::into_inner);
            match self.read() {
                Ok(Some(placement)) => *lock(&shared.placement) = Some(placement),
                // The wall clock was set in between; the last one is good for a while.
                Ok(None) => {}
                Err(_) => *lock(&shared.placement) = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Crossing;

    #[test]
    fn interfaces_without_stamps_say_so() {
        let why = Card::of("127.0.0.1".parse().unwrap(), None).unwrap_err();
        assert!(why.starts_with("no stamps of the card of lo"), "{why}");
        let why = Card::of("192.0.2.77".parse().unwrap(), None).unwrap_err();
        assert!(why.contains("no interface"), "{why}");
    }

    #[test]
    fn a_card_that_is_let_go_of_late_leaves_to_the_next_user_what_is_theirs() {
        let name = "no-such-card".to_owned();
        let how = How::default();
        let users = [Card::idle(true), Card::idle(true)];
        for card in &users {
            let socket = UnixDatagram::unbound().unwrap();
            let serial = card.serial;
            lock(&CHANGED).push(Changed { serial, socket, name: name.clone(), was: how, told: how });
        }
        let left = || -> Vec<u64> {
            lock(&CHANGED)
                .iter()
                .filter(|changed| changed.name == name)
                .map(|changed| changed.serial)
                .collect()
        };
        let [first, second] = users;
        let theirs = second.serial;
        drop(first);
        assert_eq!(left(), [theirs]);
        drop(second);
        assert!(left().is_empty());
    }

    #[test]
    fn where_times_lie_is_looked_up_for_each_card_and_millisecond() {
        let at = |before| {
            let (before, after) = (Mono(before), Mono(before + 1_000));
            CardClock::default().cross(Crossing { before, card: 77, after })
        };
        let cards = [Card::idle(false), Card::idle(false)];
        let put = |card: &Card, placement| *lock(&card.shared.placement) = placement;
        put(&cards[0], at(1_000));
        put(&cards[1], at(2_000));
        let mut last = LastPlacement::default();
        assert!(at(1_000).is_some() && at(1_000) != at(2_000));
        assert_eq!(last.of(&cards[0], Mono(5)), at(1_000));
        assert_eq!(last.of(&cards[1], Mono(6)), at(2_000));
        put(&cards[1], None);
        assert_eq!(last.of(&cards[1], Mono(7)), at(2_000), "no lock for each");
        assert_eq!(last.of(&cards[1], Mono(6 + ALIKE)), None);
    }

    #[test]
    fn what_is_no_clock_cannot_be_read() {
        let mut reader = ClockReader::new(File::open("/dev/null").unwrap());
        assert!(reader.read().is_err());
        assert_eq!(reader.way, WAYS.len() - 1);
    }
}
