//! When the next send of a connection is due.

use common::{Params, draws};
use metrics::Mono;
use model::{Delays, Pace, Quanta};
use transport::Rng;

/// Times of a new connection's sends.
pub(super) fn pacing(params: &Params, rng: &mut Rng, now: Mono) -> Pacing {
    let Some(rate) = draws::rate(params, rng) else {
        return params.burst.map_or(Pacing::Free, |burst| Pacing::Delays(Delays::new(burst)));
    };
    match params.rate_period_ns {
        Some(period) => Pacing::Quanta(Quanta::new(rate, period, now)),
        None => Pacing::Smooth(Pace::new(rate, params.buffer.high, now)),
    }
}

#[derive(Debug)]
pub(super) enum Pacing {
    /// As fast as the socket takes them.
    Free,
    Smooth(Pace),
    /// By ctsTraffic's quanta.
    Quanta(Quanta),
    Delays(Delays),
}

impl Pacing {
    /// Time at which the next send, of `n` bytes, may begin.
    pub(super) fn due(&mut self, n: u64, now: Mono) -> Option<Mono> {
        match self {
            Pacing::Free => None,
            Pacing::Smooth(pace) => Some(pace.due()),
            Pacing::Quanta(quanta) => Some(quanta.due(n, now)),
            Pacing::Delays(delays) => delays.due(now),
        }
    }

    /// Most bytes of one send call.
    pub(super) fn most(&self) -> u64 {
        if let Pacing::Smooth(pace) = self { pace.chunk() } else { u64::MAX }
    }

    /// `n` bytes have left; when the rest of the send may go on.
    pub(super) fn sent(&mut self, n: u64, now: Mono) -> Option<Mono> {
        let Pacing::Smooth(pace) = self else { return None };
        pace.sent(n, now);
        Some(pace.due())
    }
}
