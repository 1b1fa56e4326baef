//! Figures that a phase can have, before it has run.

use super::{Figure, Stat, Way};
use crate::{Kind, Phase, Transport};

/// Quantiles of distributions that arrive as a summary.
const OF_SUMMARIES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

impl Figure {
    /// True if a run of this phase can have a value of the figure.
    pub fn is_possible(self, phase: &Phase) -> bool {
        let kind = phase.kind;
        let datagrams = matches!(kind, Kind::Delay | Kind::Train | Kind::Stream | Kind::Capacity);
        // Round trips of STAMP have delays of both ways.
        let stamped = phase.ping.is_some_and(|ping| ping.stamp.is_some());
        let connects = match kind {
            Kind::Tcp | Kind::Connect => true,
            Kind::Ping => phase.ping.is_some_and(|ping| ping.transport == Transport::Tcp),
            Kind::Delay | Kind::Train | Kind::Stream | Kind::Capacity => false,
        };
        let goes = |way| match way {
            _ if stamped || matches!(kind, Kind::Ping | Kind::Connect) => true,
            Way::Up => phase.pattern.sends_up(),
            Way::Down => phase.pattern.sends_down(),
        };
        let is_known = |stat| match stat {
            Stat::Quantile(q) => OF_SUMMARIES.iter().any(|known| (known - q).abs() < 1e-9),
            _ => true,
        };
        self.way().is_none_or(goes)
            && match self {
                Figure::RoundTrip(_) | Figure::MessagesLost => kind == Kind::Ping,
                Figure::Loss(_) => datagrams || stamped,
                // A capacity test has the variation of delays by sub-interval only.
                _ if kind == Kind::Capacity && self.is_of_delays() => false,
                Figure::Delay(_, stat) => (datagrams || stamped) && is_known(stat),
                Figure::Jitter(_) | Figure::JitterMax(_) => datagrams || stamped,
                Figure::CeMarks(_) | Figure::EcnCleared(_) => {
                    (datagrams && kind != Kind::Capacity) || (kind == Kind::Ping && !connects)
                }
                Figure::ConnectTime(stat) => connects && is_known(stat),
                Figure::Retransmits => connects,
                Figure::LoadedRoundTrip | Figure::CpuLocal | Figure::CpuRemote => kind == Kind::Tcp,
                Figure::Connects => kind == Kind::Connect,
                Figure::Dispersion => kind == Kind::Train,
                Figure::Capacity(_) | Figure::CapacityMean(_) => kind == Kind::Capacity,
                Figure::Frames => kind == Kind::Stream,
                Figure::Grade
                | Figure::Added
                | Figure::AddedPercentile(_)
                | Figure::Responsiveness
                | Figure::IdleRoundTrip(_) => false,
                Figure::Goodput(_)
                | Figure::Sent(_)
                | Figure::Cpu
                | Figure::Fairness
                | Figure::Errors
                | Figure::Caveats => true,
            }
    }

    /// True for delays of datagrams and their variation.
    fn is_of_delays(self) -> bool {
        matches!(self, Figure::Delay(..) | Figure::Jitter(_) | Figure::JitterMax(_))
    }

    /// True if a load can have a value of the figure.
    pub fn is_possible_of_load(self) -> bool {
        let is_known = |stat, known: &[f64]| match stat {
            Stat::Quantile(q) => known.iter().any(|known| (known - q).abs() < 1e-9),
            _ => false,
        };
        match self {
            Figure::AddedPercentile(stat) => is_known(stat, &[0.5, 0.9]),
            Figure::Delay(_, stat) => is_known(stat, &[0.5, 0.9, 0.99]),
            Figure::ConnectTime(_)
            | Figure::Connects
            | Figure::Dispersion
            | Figure::Capacity(_)
            | Figure::CapacityMean(_)
            | Figure::Frames
            | Figure::Jitter(_)
            | Figure::JitterMax(_) => false,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pattern, Ping};

    #[test]
    fn a_phase_has_the_figures_of_its_kind_and_directions() {
        let of = |kind| Phase { kind, ..Phase::default() };
        let ping = Phase { ping: Some(Ping::default()), ..of(Kind::Ping) };
        let down = Phase { pattern: Pattern::Pull, ..of(Kind::Tcp) };
        let delay = Phase { pattern: Pattern::Duplex, ..of(Kind::Delay) };
        for (name, phase, possible) in [
            ("goodput", &down, true),
            ("goodput.up", &down, false),
            ("rtt.p99", &down, false),
            ("rtt.p95", &ping, true),
            ("connect.p99", &ping, true),
            ("connect.p95", &down, false),
            ("loss.down", &delay, true),
            ("delay.p99", &delay, true),
            ("delay.p95", &delay, false),
            ("retransmits", &delay, false),
            ("frames", &of(Kind::Stream), true),
            ("dispersion", &of(Kind::Stream), false),
            ("caveats", &ping, true),
        ] {
            let figures = Figure::named(name);
            assert!(!figures.is_empty(), "{name}");
            assert_eq!(figures.iter().any(|figure| figure.is_possible(phase)), possible, "{name}");
        }
    }
}
