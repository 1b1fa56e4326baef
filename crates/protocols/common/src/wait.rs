//! Workers' method of waiting for a phase.

/// Method of waiting of the workers at an end; `sends` is true if it sends datagrams. With `may`, a
/// receiver spins along with its sender, which saves the sender some microseconds of waking the
/// receiver for each datagram.
pub fn wait(phase: &model::Phase, sends: bool, may: bool) -> transport::Wait {
    if let Some(ping) = &phase.ping {
        let closed = ping.schedule == model::Schedule::Closed;
        return match ping.busy {
            true => transport::Wait::Spin,
            // Scheduled sends must not wait for a receive call.
            false if closed || !sends => transport::Wait::Receive,
            false => transport::Wait::Block,
        };
    }
    if phase.capacity.is_some() && sends {
        // Bursts are due every 100 µs.
        return transport::Wait::Hybrid;
    }
    match phase.probe.map(|probe| probe.waiting) {
        Some(model::Waiting::Spin) if sends || may => transport::Wait::Spin,
        Some(model::Waiting::Hybrid) if sends => transport::Wait::Hybrid,
        _ => transport::Wait::Block,
    }
}
