//! How workers wait for a phase.

/// How the workers of an end wait that sends datagrams, or does not. Where it `may`, a receiver spins along with its sender, whom
/// it would cost some microseconds to wake it for each datagram.
#[must_use]
pub fn wait(phase: &model::Phase, sends: bool, may: bool) -> transport::Wait {
    if let Some(ping) = &phase.ping {
        let closed = ping.schedule == model::Schedule::Closed;
        return match ping.busy {
            true => transport::Wait::Spin,
            // What is sent by the clock must not wait for what is received.
            false if closed || !sends => transport::Wait::Receive,
            false => transport::Wait::Block,
        };
    }
    match phase.probe.map(|probe| probe.waiting) {
        Some(model::Waiting::Spin) if sends || may => transport::Wait::Spin,
        Some(model::Waiting::Hybrid) if sends => transport::Wait::Hybrid,
        _ => transport::Wait::Block,
    }
}
