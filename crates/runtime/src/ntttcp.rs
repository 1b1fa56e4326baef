//! ntttcp's conversation on this host.

use crate::client::client_setup;
use crate::session::{self, now};
use crate::{ClientConfig, EngineError, Interrupt, client};
use model::{Event, Phase};
use std::net::{IpAddr, SocketAddr};
use wire::ntttcp::{Layout, Sender, SenderPlan};

/// Sends one test to an ntttcp receiver, or to several (the peers are those of the ports, in order); everything that happens goes to `sink`.
///
/// # Errors
/// When it cannot even begin. A test that fails later says so in its events.
pub fn send_ntttcp(
    config: &ClientConfig,
    phase: &Phase,
    layout: Layout,
    interrupt: &Interrupt,
    sink: &mut dyn FnMut(Event),
) -> Result<(), EngineError> {
    client::check(config, phase)?;
    let Some(peer) = config.peers.first() else {
        return Err(EngineError::Setting("no target was given".to_owned()));
    };
    let any = if peer.address.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0u16; 8]) };
    let port = config.ports.map_or(0, |(first, _)| first);
    let chosen = config.sources.first().copied();
    let from = (chosen.is_some() || port > 0).then(|| SocketAddr::new(chosen.unwrap_or(any), port));
    let workers = config.workers_for(phase);
    let to = config.peers.iter().map(|peer| peer.address.ip()).collect();
    let plan = SenderPlan { layout, phase: phase.clone(), to, from, workers };
    let setup = client_setup(config, phase, workers);
    session::run(Sender::new(plan, now()), setup, interrupt, sink)
}
