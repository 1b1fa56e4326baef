//! Chance from a seed: coins, bursts, jitter.
//!
//! Each kind of impairment of each direction draws from a generator of its own, and draws for every
//! packet whether it is needed or not. The fate of the n-th packet of a direction is therefore the
//! same for the same seed, independent of timing and of other conditions.

use crate::setup::{Bursts, Jitter, Shape};
use metrics::{Clamped, real};
use transport::Rng;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Loss,
    Burst,
    Step,
    Duplicate,
    Reorder,
    Corrupt,
    Bits,
    Jitter,
    Mark,
    Way,
}

/// The generator of one direction of a link (`lane`) for one purpose.
pub(crate) fn generator(seed: u64, lane: u16, purpose: Purpose) -> Rng {
    let mut seeds = Rng::new(seed);
    for _ in 0..u32::from(lane) * 32 + purpose as u32 {
        seeds.next();
    }
    Rng::new(seeds.next())
}

/// Falls on heads with a fixed probability.
#[derive(Clone, Debug)]
pub(crate) struct Coin {
    pub(crate) rng: Rng,
    /// The probability.
    pub(crate) heads: f64,
}

impl Coin {
    pub(crate) fn toss(&mut self) -> bool {
        self.rng.fraction() < self.heads
    }
}

/// The chain of good and bad times. One call is one packet.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    losses: Rng,
    steps: Rng,
    bad_now: bool,
    odds: Bursts,
}

impl Chain {
    pub(crate) fn new(losses: Rng, steps: Rng, odds: Bursts) -> Self {
        Chain { losses, steps, bad_now: false, odds }
    }

    /// Decides if this packet is lost, then takes one step in the chain.
    pub(crate) fn loses(&mut self) -> bool {
        let Bursts { enter, leave, bad, good } = self.odds;
        let lost = self.losses.fraction() < if self.bad_now { bad } else { good };
        let turns = self.steps.fraction() < if self.bad_now { leave } else { enter };
        self.bad_now ^= turns;
        lost
    }
}

/// Additional delay of a packet (negative: less), ns.
pub(crate) fn jitter(rng: &mut Rng, jitter: &Jitter) -> i64 {
    let amount = real(jitter.amount_ns);
    // Never 0, whose logarithm has no end.
    let u = 1.0 - rng.fraction();
    let factor = match jitter.shape {
        Shape::Uniform => 2.0 * u - 1.0,
        Shape::Normal => {
            // Box and Muller: two uniform numbers make one normal.
            let angle = std::f64::consts::TAU * rng.fraction();
            (-2.0 * u.ln()).sqrt() * angle.cos()
        }
        Shape::Exponential => -u.ln(),
        Shape::Pareto(shape) => ((u.powf(-1.0 / shape) - 1.0) * (shape - 1.0)).min(1000.0),
    };
    i64::clamped((amount * factor).round())
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 400_000;

    fn rng(n: u64) -> Rng {
        generator(n, 0, Purpose::Loss)
    }

    #[test]
    fn generators_share_nothing() {
        let mut first = std::collections::BTreeSet::new();
        for lane in 0..2 {
            for purpose in [Purpose::Loss, Purpose::Burst, Purpose::Jitter, Purpose::Mark] {
                first.insert(generator(7, lane, purpose).next());
            }
        }
        assert_eq!(first.len(), 8);
        assert_eq!(generator(7, 1, Purpose::Mark).next(), generator(7, 1, Purpose::Mark).next());
    }

    #[test]
    fn a_coin_falls_as_often_as_it_should() {
        for p in [0.0, 0.005, 0.3, 1.0] {
            let mut coin = Coin { rng: rng(1), heads: p };
            let heads = (0..N).filter(|_| coin.toss()).count() as f64;
            // Binomial: five standard deviations.
            let room = 5.0 * (N as f64 * p * (1.0 - p)).sqrt();
            assert!((heads - N as f64 * p).abs() <= room, "{p}: {heads}");
        }
    }

    /// Gilbert (1960), Elliott (1963): the share of bad times is enter / (enter + leave); runs of
    /// them last 1 / leave.
    #[test]
    fn bursts_have_the_stationary_shares_of_their_chain() {
        for (enter, leave, bad, good) in
            [(0.01, 0.25, 1.0, 0.0), (0.002, 0.1, 0.8, 0.001), (0.3, 0.3, 0.5, 0.1)]
        {
            let mut chain = Chain::new(rng(2), rng(3), Bursts { enter, leave, bad, good });
            let (mut lost, mut bad_times, mut runs) = (0.0, 0.0, 0.0);
            for _ in 0..N {
                let was = chain.bad_now;
                bad_times += f64::from(u8::from(was));
                lost += f64::from(u8::from(chain.loses()));
                runs += f64::from(u8::from(was && !chain.bad_now));
            }
            let share = enter / (enter + leave);
            // The variance of a mean over a chain with second eigenvalue l is that of independent
            // draws, times (1 + l) / (1 - l). Five standard deviations.
            let eigen = 1.0 - enter - leave;
            let stretch = (1.0 + eigen) / (1.0 - eigen);
            let room = 5.0 * (share * (1.0 - share) * stretch / N as f64).sqrt();
            assert!((bad_times / N as f64 - share).abs() < room, "{enter} {leave}: {bad_times}");
            let expected = share * bad + (1.0 - share) * good;
            let room = 5.0 * (expected * (1.0 - expected) * stretch / N as f64).sqrt();
            assert!((lost / N as f64 - expected).abs() < room, "{enter} {leave}: {lost} lost");
            // Geometric run lengths: variance (1 - leave) / leave^2.
            let room = 5.0 * ((1.0 - leave) / (leave * leave) / runs).sqrt();
            assert!(
                (bad_times / runs - 1.0 / leave).abs() < room,
                "{enter} {leave}: runs {}",
                bad_times / runs
            );
        }
    }

    /// Mean and standard deviation by the textbook, in units of the amount; the tail by the
    /// distribution function.
    #[test]
    fn jitter_is_shaped_as_it_says() {
        // Shape, mean, standard deviation, probability of more than twice the amount.
        let table = [
            (Shape::Uniform, 0.0, (1.0_f64 / 3.0).sqrt(), 0.0),
            (Shape::Normal, 0.0, 1.0, 0.022_750),
            (Shape::Exponential, 1.0, 1.0, (-2.0_f64).exp()),
            // Lomax: mean 1, variance a / (a - 2), tail (1 + x / (a - 1))^-a.
            (Shape::Pareto(5.0), 1.0, (5.0_f64 / 3.0).sqrt(), 1.5_f64.powi(-5)),
        ];
        for (shape, mean, sd, tail) in table {
            let how = Jitter { amount_ns: 1_000_000, shape, reorder: true };
            let mut rng = rng(4);
            let draws: Vec<f64> = (0..N).map(|_| jitter(&mut rng, &how) as f64 / 1e6).collect();
            let n = N as f64;
            let got = draws.iter().sum::<f64>() / n;
            assert!((got - mean).abs() < 5.0 * sd / n.sqrt(), "{shape:?}: mean {got}");
            let spread = (draws.iter().map(|d| (d - got).powi(2)).sum::<f64>() / n).sqrt();
            assert!((spread - sd).abs() < 0.03 * sd, "{shape:?}: deviation {spread}");
            let over = draws.iter().filter(|d| **d > 2.0).count() as f64;
            let room = 5.0 * (n * tail * (1.0 - tail)).sqrt();
            assert!((over - n * tail).abs() <= room, "{shape:?}: {over} in the tail");
        }
    }
}
