//! The checks of every platform, on the kernel's loopback. With the feature `portable` they are
//! those of systems without edges and shared ports; what else Linux has stays.
#![cfg(target_os = "linux")]

use super::System;
use crate::udp::{Ability as Found, ability};
use crate::{Clock, Listener, Reactor, Udp, testing};
use metrics::Mono;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::RwLockReadGuard;
use transport::conformance::{Ability, Bench};
use transport::{Fault, Ready, SocketSettings};

transport::conformance!(Loopback { _closes_at_once: testing::no_starts() });

struct Loopback {
    _closes_at_once: RwLockReadGuard<'static, ()>,
}

impl Bench for Loopback {
    type Platform = System;

    fn client(&self) -> System {
        System
    }

    fn server(&self) -> System {
        System
    }

    fn addresses(&self) -> Vec<IpAddr> {
        vec![Ipv4Addr::new(127, 0, 0, 1).into(), Ipv4Addr::new(127, 0, 0, 2).into()]
    }

    fn listen(
        &self,
        at: SocketAddr,
        share: bool,
        settings: &SocketSettings,
    ) -> Result<(Listener, SocketAddr), Fault> {
        let listener = Listener::bind(at, share, settings)?;
        let local = listener.local()?;
        Ok((listener, local))
    }

    fn bind_udp(
        &self,
        at: SocketAddr,
        share: bool,
        settings: &SocketSettings,
    ) -> Result<(Udp, SocketAddr), Fault> {
        let udp = Udp::bind(at, share, settings)?;
        let local = udp.local()?;
        Ok((udp, local))
    }

    fn wait(&self, reactor: &mut Reactor, until: Option<Mono>) -> Vec<Ready> {
        let mut ready = Vec::new();
        reactor.wait(until, &Clock::new(), &mut ready).unwrap();
        ready
    }

    fn lacks(&self, what: Ability) -> Option<String> {
        let found = ability();
        let Found { segments, gro, receive_stamps, transmit_stamps } = found;
        let has = match what {
            Ability::Segmentation => segments > 1,
            Ability::Merging => gro,
            Ability::ReceiveStamps => receive_stamps,
            Ability::TransmitStamps => transmit_stamps,
            Ability::SleepingReceives | Ability::Panics | Ability::ExactRung => true,
            Ability::Edges => cfg!(all(target_os = "linux", not(feature = "portable"))),
            Ability::SharedPorts => Udp::CAN_SHARE,
        };
        (!has).then(|| format!("this kernel lacks it: {what:?}, {found:?}"))
    }

    fn skip(&self, reason: &str) {
        testing::skip(reason);
    }
}
