//! The system's real UDP abilities, found by trying each over loopback.

use std::sync::OnceLock;
pub use transport::UdpAbility as Ability;

const NOTHING: Ability = Ability { segments: 1, gro: false, receive_stamps: false, transmit_stamps: false };

/// The system's abilities; tried out at the first call, which takes some milliseconds.
pub fn ability() -> Ability {
    known_ability().unwrap_or(NOTHING)
}

/// The system's abilities; `None` where the loopback carries nothing to try them with, and outside
/// Linux.
pub(crate) fn known_ability() -> Option<Ability> {
    static FOUND: OnceLock<Option<Ability>> = OnceLock::new();
    *FOUND.get_or_init(probe)
}

#[cfg(not(target_os = "linux"))]
fn probe() -> Option<Ability> {
    None
}

#[cfg(target_os = "linux")]
use linux::probe;

#[cfg(target_os = "linux")]
mod linux {
    use super::{Ability, NOTHING};
    use crate::sys::message::{Control, recv, send};
    use crate::sys::{open_for, plain};
    use crate::udp::wire::{Marks, describe, set_gro, set_stamps, transmit_stamp};
    use crate::{Clock, Reactor};
    use metrics::SECOND;
    use socket2::{Protocol, Socket, Type};
    use std::io::IoSlice;
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::os::fd::AsFd as _;
    use transport::{Arena, Transmit, Trigger};

    /// Datagrams in one send that kernels are known to allow (`UDP_MAX_SEGMENTS`), highest first.
    const SEGMENTS: [usize; 3] = [128, 64, 16];
    /// Size of each in the trial, bytes.
    const SIZE: u16 = 16;
    /// Longest wait for datagrams that loopback delivers at once.
    const PATIENCE: u64 = SECOND / 20;
    /// Tries for a receive stamp, and the time between two tries, ns.
    const TRIES: u32 = 50;
    const PAUSE: u64 = SECOND / 1_000;

    pub(super) fn probe() -> Option<Ability> {
        let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        try_at(v4).or_else(|| try_at((Ipv6Addr::LOCALHOST, 0).into()))
    }

    fn try_at(at: SocketAddr) -> Option<Ability> {
        let open = || -> Option<(Socket, SocketAddr)> {
            let (socket, at) = open_for(at, Type::DGRAM, Protocol::UDP).ok()?;
            socket.bind(&at.into()).ok()?;
            let local = plain(socket.local_addr().ok()?.as_socket()?);
            Some((socket, local))
        };
        let ((local, _), (remote, there)) = (open()?, open()?);
        local.connect(&there.into()).ok()?;
        let mut found = NOTHING;
        set_stamps(&local, false, false);
        set_stamps(&remote, true, false);
        for segments in SEGMENTS {
            set_gro(&remote, true);
            let Some(marks) = there_and_back(&local, &remote, segments, at.is_ipv6(), &mut found) else {
                continue;
            };
            found.segments = segments;
            found.gro = marks.stride == Some(usize::from(SIZE));
            found.receive_stamps = marks.stamp.is_some();
            break;
        }
        // The kernel begins to stamp a while after the first socket has asked for it (it patches
        // its code by then), and gives no stamps until it has.
        let (mut reactor, clock, mut events) = (Reactor::new().ok()?, Clock::new(), Vec::new());
        for _ in 0..TRIES {
            if found.receive_stamps {
                break;
            }
            reactor.wait(Some(clock.now().plus(PAUSE)), &clock, &mut events).ok()?;
            let marks = there_and_back(&local, &remote, 1, at.is_ipv6(), &mut found)?;
            found.receive_stamps = marks.stamp.is_some();
        }
        Some(found)
    }

    /// Sends `segments` datagrams in one call; the marks of the first arrival, if any.
    fn there_and_back(
        local: &Socket,
        remote: &Socket,
        segments: usize,
        v6: bool,
        found: &mut Ability,
    ) -> Option<Marks> {
        let bytes = vec![0; usize::from(SIZE) * segments];
        let mut arena = Arena::new(0);
        let mut burst = Transmit::new(&mut arena, 0);
        burst.segment = SIZE;
        burst.tag = Some(0);
        let mut control = Control::new();
        describe(&burst, v6, segments > 1, false, &mut control);
        let sent = send(local.as_fd(), &[IoSlice::new(&bytes)], None, &mut control).ok()?;
        if sent != bytes.len() {
            return None;
        }
        let (mut reactor, clock, mut events) = (Reactor::new().ok()?, Clock::new(), Vec::new());
        reactor.watch(remote, 1, Trigger::Level).ok()?;
        reactor.wait(Some(clock.now().plus(PATIENCE)), &clock, &mut events).ok()?;
        let mut buffer = vec![0; 1 << 16];
        recv(remote.as_fd(), &mut buffer, &mut control, false, 0).ok()?;
        let marks = Marks::read(&control);
        // Datagrams that were not merged must not pass for the answer to the next trial.
        while recv(remote.as_fd(), &mut buffer, &mut control, false, 0).is_ok() {}
        if recv(local.as_fd(), &mut [], &mut control, false, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT).is_ok()
        {
            found.transmit_stamps |= transmit_stamp(&control).is_some();
        }
        Some(marks)
    }
}
