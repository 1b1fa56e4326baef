//! The process's clocks and its randomness.

use metrics::{Clamped, Mono};
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The host's monotonic clock at `Mono(0)`, the same for the whole process.
static ORIGIN: OnceLock<Reading> = OnceLock::new();

/// The host's monotonic clock. On Linux it is read as nanoseconds, which takes about three quarters
/// of the time of an `Instant` and its difference: a round trip has some five readings.
#[cfg(target_os = "linux")]
type Reading = u64;
#[cfg(target_os = "linux")]
use crate::sys::linux::monotonic as read;

#[cfg(not(target_os = "linux"))]
type Reading = std::time::Instant;
#[cfg(not(target_os = "linux"))]
fn read() -> Reading {
    Reading::now()
}

/// For how long the two clocks are taken to go alike, ns: at 500 ppm they part by half a nanosecond
/// meanwhile.
#[cfg(target_os = "linux")]
const ALIKE: u64 = metrics::SECOND / 1000;

/// Relation of the two clocks, sampled anew every millisecond: for readers of many stamps. After
/// the wall clock was set, stamps are off by the step for that long.
#[cfg(target_os = "linux")]
#[derive(Debug, Default)]
pub(crate) struct Relation {
    ahead: i64,
    until: Mono,
}

#[cfg(target_os = "linux")]
impl Relation {
    /// The same as [`Clock::from_wall`].
    pub(crate) fn stamped(&mut self, clock: &Clock, wall: i64) -> (Option<Mono>, Mono) {
        let mut now = clock.now();
        if now >= self.until {
            (self.ahead, _, now) = clock.related();
            self.until = now.plus(ALIKE);
        }
        (taken(wall, self.ahead, now), now)
    }
}

/// When a stamp was taken, a moment before `now`.
fn taken(wall: i64, ahead: i64, now: Mono) -> Option<Mono> {
    let at = wall.saturating_sub(ahead);
    let age = i64::try_from(now.0).unwrap_or(i64::MAX).saturating_sub(at);
    // A stamp taken between two readings may look a little younger than they are.
    let known = (-1_000..=10 * metrics::SECOND as i64).contains(&age);
    known.then(|| Mono(u64::try_from(at).unwrap_or(0).min(now.0)))
}

/// The error claimed for a wall clock of which nothing is known: what Linux says of one that
/// nothing disciplines.
const UNKNOWN_ERROR_NS: u64 = 16 * metrics::SECOND;

/// The monotonic clock, in nanoseconds since an instant shared by all clocks of this process.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Reading,
}

impl Clock {
    /// The process's clock.
    pub fn new() -> Self {
        Clock { origin: *ORIGIN.get_or_init(read) }
    }

    /// The process's clock, with the zero of the process that has started this one; `false` when it
    /// has been read already.
    #[cfg(target_os = "linux")]
    pub fn begin_at(origin: u64) -> bool {
        ORIGIN.set(origin).is_ok()
    }

    /// The current instant (`CLOCK_MONOTONIC` on Linux).
    pub fn now(&self) -> Mono {
        #[cfg(target_os = "linux")]
        return Mono(read().saturating_sub(self.origin));
        #[cfg(not(target_os = "linux"))]
        Mono(u64::clamped(self.origin.elapsed().as_nanos()))
    }

    /// Relation of the monotonic clock to the wall clock now. Outside Linux the error is given as
    /// 16 s, not synced: the system reports none.
    pub fn sample(&self) -> metrics::Clock {
        let (error_ns, synced) = wall_clock_state();
        metrics::Clock { wall_at_zero: self.wall_at_zero(), error_ns, synced, host_at_zero: self.origin() }
    }

    /// The instant that the wall clock stamped as `wall` (ns since 1970), which was a moment ago,
    /// and the current instant. `None` for a stamp from the future or older than 10 s: the wall
    /// clock has been set since, and nothing follows from it.
    ///
    /// Both clocks are read anew for each stamp, because the wall clock may run up to 500 ppm
    /// faster or slower while it is being disciplined. The error is half the time between two
    /// readings, at most 0.5 µs unless this thread was interrupted three times in a row.
    pub fn from_wall(&self, wall: i64) -> (Option<Mono>, Mono) {
        let (ahead, _, now) = self.related();
        (taken(wall, ahead, now), now)
    }

    /// Lead of the wall clock over this one, ns, and its error bound.
    #[cfg(target_os = "linux")]
    pub(crate) fn wall_ahead(&self) -> (i64, u64) {
        let (ahead, off, _) = self.related();
        (ahead, off)
    }

    /// Lead of the wall clock over this one, ns, its error bound, and the current instant: the
    /// tightest of up to three readings of the one clock between two of the other.
    fn related(&self) -> (i64, u64, Mono) {
        let (mut before, mut best) = (self.now(), (0, u64::MAX));
        for _ in 0..3 {
            let (reading, after) = (SystemTime::now(), self.now());
            let half = after.since(before) / 2;
            if half < best.1 {
                let middle = i64::try_from(before.plus(half).0).unwrap_or(i64::MAX);
                best = (nanoseconds(reading).saturating_sub(middle), half);
            }
            before = after;
            if half <= 500 {
                break;
            }
        }
        (best.0, best.1.saturating_add(1), before)
    }

    /// The host's monotonic clock at `Mono(0)`, ns: the origin for the clock of a worker process. 0
    /// where other programs cannot read that clock.
    pub fn origin(&self) -> u64 {
        #[cfg(target_os = "linux")]
        return self.origin;
        #[cfg(not(target_os = "linux"))]
        0
    }

    /// Time until `until`, ns; 0 when that is past.
    pub(crate) fn until(&self, until: Mono) -> u64 {
        until.since(self.now())
    }

    /// Wall time at `Mono(0)`: the tightest of a few readings of the one clock between two of the
    /// other.
    fn wall_at_zero(&self) -> i64 {
        let mut best = (u64::MAX, 0);
        for _ in 0..4 {
            let before = self.now();
            let wall = SystemTime::now();
            let width = self.now().since(before);
            if width < best.0 {
                let middle = before.plus(width / 2);
                best = (width, nanoseconds(wall).saturating_sub_unsigned(middle.0));
            }
        }
        best.1
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}

/// Nanoseconds since 1970, negative before.
fn nanoseconds(wall: SystemTime) -> i64 {
    let signed = |d: Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
    match wall.duration_since(UNIX_EPOCH) {
        Ok(after) => signed(after),
        Err(before) => -signed(before.duration()),
    }
}

/// The bound on the wall clock's error in ns, and whether it is disciplined.
pub(crate) fn wall_clock_state() -> (u64, bool) {
    #[cfg(target_os = "linux")]
    if let Some((us, synced)) = crate::sys::linux::wall_clock_state() {
        return (us.saturating_mul(1000), synced);
    }
    (UNKNOWN_ERROR_NS, false)
}

/// 64 bits from the system's random generator, to seed a generator with. Should the system have
/// none, the time and the process number stand in: good enough for sizes and identifiers, not for
/// secrets.
pub fn entropy() -> u64 {
    getrandom::u64().unwrap_or_else(|_| {
        let time = u64::clamped(nanoseconds(SystemTime::now()));
        let mut rng = transport::Rng::new(time ^ u64::from(std::process::id()).rotate_left(32));
        rng.next()
    })
}

/// Fills `bytes` from the system's cryptographic generator.
///
/// # Errors
/// When the system has no random generator; nothing weaker stands in.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|e| io::Error::other(format!("no randomness to be had: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clocks_share_one_origin_and_never_go_back() {
        let (a, b) = (Clock::new(), std::thread::spawn(Clock::new).join().unwrap());
        let mut last = a.now();
        for _ in 0..1000 {
            let (next, after) = (b.now(), a.now());
            assert!(last <= next && next <= after);
            last = after;
        }
    }

    /// So often a test is tried whose readings are wrong where the thread is interrupted between
    /// two of them.
    const TRIES: u32 = 100;

    #[test]
    fn a_sample_turns_instants_into_wall_time() {
        let clock = Clock::new();
        let fits = || {
            let before = nanoseconds(SystemTime::now());
            let wall = clock.sample().wall(clock.now()).0;
            let after = nanoseconds(SystemTime::now());
            // A millisecond of room for a clock being slewed and for the halved bracket.
            before - 1_000_000 <= wall && wall <= after + 1_000_000
        };
        assert!((0..TRIES).any(|_| fits()));
    }

    #[test]
    fn stamps_of_the_wall_clock_become_instants() {
        let clock = Clock::new();
        let fits = || {
            let before = clock.now();
            let wall = nanoseconds(SystemTime::now());
            let after = clock.now();
            let (at, now) = clock.from_wall(wall);
            assert!(after <= now);
            assert_eq!(clock.from_wall(wall - 11_000_000_000).0, None, "long ago");
            // A millisecond of room for a clock being slewed.
            at.is_some_and(|at| before.0 < at.0 + 1_000_000 && at.0 < after.0 + 1_000_000)
                && clock.from_wall(wall + 1_000_000_000).0.is_none()
        };
        // A thread is interrupted now and then.
        assert!((0..TRIES).filter(|_| fits()).count() as u32 > TRIES / 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_hosts_clock_is_told() {
        let clock = Clock::new();
        let sample = clock.sample();
        let (before, host, after) = (clock.now(), crate::sys::linux::monotonic(), clock.now());
        assert!((sample.host(before)..=sample.host(after)).contains(&host), "{host}");
    }

    #[test]
    fn wall_time_before_the_epoch_is_negative() {
        assert_eq!(nanoseconds(UNIX_EPOCH - Duration::from_nanos(5)), -5);
        assert_eq!(nanoseconds(UNIX_EPOCH + Duration::from_nanos(5)), 5);
    }

    #[test]
    fn randomness_does_not_repeat() {
        assert_ne!(entropy(), entropy());
        let mut bytes = [[0; 16]; 2];
        bytes.iter_mut().for_each(|bytes| random(bytes).unwrap());
        assert_ne!(bytes[0], bytes[1]);
    }
}
