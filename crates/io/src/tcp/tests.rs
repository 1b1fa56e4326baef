use super::*;
use crate::Clock;
use crate::testing::{accept, connect, has_ipv6, here, pair, receive};
use std::net::SocketAddr;
use transport::{
    Arena, Deed, Fault, Net as _, Read, Sent, SocketSettings, StreamSocket as _, Target, Transmit,
};

static PATTERN: [u8; 4096] = {
    let mut bytes = [0; 4096];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = (i % 251) as u8;
        i += 1;
    }
    bytes
};

/// Offers `pieces` slices of `len` pattern bytes each, the first of them starting at `at`.
fn offer(stream: &Stream, pieces: usize, at: usize, len: usize) -> Sent {
    let mut arena = Arena::new(16);
    let mut burst = Transmit::new(&mut arena, usize::MAX);
    for i in 0..pieces {
        let start = (at + i * len) % 251;
        burst.fixed(&PATTERN[start..start + len]);
    }
    stream.net(&mut [], &Clock::new(), false).send(&burst)
}

fn target(to: SocketAddr) -> Target {
    Target { to, from: None }
}

#[test]
fn more_pieces_than_one_call_takes_are_all_sent() {
    let (local, remote) = pair("127.0.0.1:0", &SocketSettings::default());
    assert_eq!(offer(&local, 150, 0, 10), Sent { bytes: 1500, fault: None });
    let mut got = 0;
    while got < 1500 {
        got += receive(&remote, Read::look(u64::MAX)).unwrap().unwrap().0;
    }
    assert_eq!(offer(&local, 0, 0, 0), Sent::default());
}

#[test]
fn the_unspecified_address_takes_both_families() {
    let listener = Listener::bind("[::]:0".parse().unwrap(), false, &SocketSettings::default()).unwrap();
    let port = listener.local().unwrap().port();
    let mut hosts = vec!["127.0.0.1"];
    if has_ipv6() {
        hosts.push("::1");
    }
    for ip in hosts {
        let (local, path) =
            connect(&target(SocketAddr::new(ip.parse().unwrap(), port)), &SocketSettings::default());
        let (remote, seen) = accept(&listener);
        assert_eq!((seen.peer, seen.local), (path.local, path.peer));
        assert_eq!((local.path().unwrap(), remote.path().unwrap()), (path, seen));
    }
}

#[test]
fn settings_are_made_and_told() {
    let settings = SocketSettings {
        sndbuf: Some(100_000),
        rcvbuf: Some(50_000),
        nodelay: false,
        dscp: (!cfg!(windows)).then_some(46),
        ttl: Some(33),
        keepalive_ns: Some(10_000_000),
        ..SocketSettings::default()
    };
    let (local, remote) = pair("127.0.0.1:0", &settings);
    for stream in [&local, &remote] {
        let effective = stream.effective();
        assert!(effective.sndbuf >= Some(100_000) && effective.sndbuf <= Some(200_000), "{effective:?}");
        assert!(effective.rcvbuf >= Some(50_000) && effective.rcvbuf <= Some(100_000), "{effective:?}");
        assert_eq!((effective.nodelay, effective.ttl), (Some(false), Some(33)));
        #[cfg(unix)]
        assert_eq!(effective.tos, Some(46 << 2));
    }
    remote.apply(&SocketSettings { ttl: Some(44), ..SocketSettings::default() }).unwrap();
    assert_eq!((remote.effective().ttl, remote.effective().nodelay), (Some(44), Some(true)));
    assert_eq!(pair("127.0.0.1:0", &SocketSettings::default()).0.effective().nodelay, Some(true));
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn linux_settings_are_made_and_told() {
        let settings = SocketSettings {
            mss: Some(1000),
            congestion: Some("reno".into()),
            device: Some("lo".into()),
            user_timeout_ns: Some(1_500_000_000),
            ..SocketSettings::default()
        };
        let (local, remote) = pair("127.0.0.1:0", &settings);
        for stream in [&local, &remote] {
            let effective = stream.effective();
            assert_eq!(effective.congestion.as_deref(), Some("reno"));
            assert!(effective.mss.is_some_and(|mss| mss <= 1000 && mss > 500), "{effective:?}");
        }
    }

    #[test]
    fn accepted_sockets_inherit_the_bound_of_unsent_bytes() {
        let settings = SocketSettings { unsent: Some(50_000), ..SocketSettings::default() };
        let (_local, remote) = pair("127.0.0.1:0", &settings);
        assert_eq!(remote.0.tcp_notsent_lowat().unwrap(), 50_000);
    }

    #[test]
    fn a_refused_option_is_named_and_does_not_stop_the_others() {
        let wrong = SocketSettings {
            congestion: Some("no-such-thing".into()),
            ttl: Some(9),
            ..SocketSettings::default()
        };
        let refusal = check(&wrong, here()).unwrap_err();
        assert_eq!((refusal.option, refusal.errno), ("congestion", libc::ENOENT));
        let (local, _remote) = pair("127.0.0.1:0", &SocketSettings::default());
        assert_eq!(local.apply(&wrong).unwrap_err(), Fault { deed: Deed::Open, errno: libc::ENOENT });
        assert_eq!(local.effective().ttl, Some(9));
        let listener = Listener::bind(here(), false, &SocketSettings::default()).unwrap();
        let to = target(listener.local().unwrap());
        assert_eq!(Stream::connect(&to, &wrong).unwrap_err().deed, Deed::Open);
        for (bad, option) in [
            (SocketSettings { dscp: Some(64), ..SocketSettings::default() }, "dscp"),
            (SocketSettings { ttl: Some(0), ..SocketSettings::default() }, "ttl"),
            (SocketSettings { device: Some("nosuch0".into()), ..SocketSettings::default() }, "device"),
            (SocketSettings { flow_label: Some(5), ..SocketSettings::default() }, "flow_label"),
        ] {
            assert_eq!(check(&bad, here()).unwrap_err().option, option);
        }
        assert_eq!(check(&SocketSettings::default(), here()), Ok(()));
    }

    #[test]
    fn ipv6_has_class_hops_and_label_too() {
        if !has_ipv6() {
            return;
        }
        use std::os::fd::AsFd as _;
        let settings = SocketSettings {
            dscp: Some(10),
            ttl: Some(7),
            flow_label: Some(0xabcde),
            ..SocketSettings::default()
        };
        // Twice at once: the label is shared.
        let (local, remote) = pair("[::1]:0", &settings);
        let (other, _remote) = pair("[::1]:0", &settings);
        for stream in [&local, &remote, &other] {
            let effective = stream.effective();
            assert_eq!((effective.tos, effective.ttl), (Some(10 << 2), Some(7)));
        }
        let mut request = [0; 32];
        let n = crate::sys::unix::get_option(
            local.as_fd(),
            libc::SOL_IPV6,
            libc::IPV6_FLOWLABEL_MGR,
            &mut request,
        );
        assert_eq!((n.unwrap(), &request[16..20]), (32, &[0x00, 0x0a, 0xbc, 0xde][..]));
        assert!(remote.apply(&settings).is_err());
    }

    #[test]
    fn a_dual_stack_listener_hands_both_families_their_class() {
        if !has_ipv6() {
            return;
        }
        let settings = SocketSettings { dscp: Some(12), ttl: Some(77), ..SocketSettings::default() };
        let listener = Listener::bind("[::]:0".parse().unwrap(), false, &settings).unwrap();
        let port = listener.local().unwrap().port();
        for ip in ["127.0.0.1", "::1"] {
            let to = target(SocketAddr::new(ip.parse().unwrap(), port));
            let _local = connect(&to, &SocketSettings::default());
            let (remote, _) = accept(&listener);
            assert_eq!((remote.effective().tos, remote.effective().ttl), (Some(12 << 2), Some(77)), "{ip}");
        }
    }

    /// IPv4's kernel keeps the class of the handshake for the accepting end alone, IPv6's the newest
    /// one for both ends; neither keeps any for sockets without a class of their own.
    #[test]
    fn the_class_of_the_peers_packets_is_kept_where_the_kernel_can() {
        let settings = SocketSettings { dscp: Some(46), ..SocketSettings::default() };
        let ends = |at: &str| {
            // The listener has a class to heed, but its own is another.
            let own = SocketSettings { dscp: Some(10), ..SocketSettings::default() };
            let listener = Listener::bind(at.parse().unwrap(), false, &own).unwrap();
            let ip = if at.contains("127") || !has_ipv6() { "127.0.0.1" } else { "::1" };
            let to = SocketAddr::new(ip.parse().unwrap(), listener.local().unwrap().port());
            let (local, _) = connect(&target(to), &settings);
            let (remote, _) = accept(&listener);
            offer(&remote, 1, 0, 1);
            receive(&local, Read::look(1)).unwrap();
            (local.received_dscp(), remote.received_dscp())
        };
        assert_eq!(ends("127.0.0.1:0"), (None, Some(46)));
        if has_ipv6() {
            assert_eq!([ends("[::1]:0"), ends("[::]:0")], [(Some(10), Some(46)); 2]);
        }
        let plain = pair("127.0.0.1:0", &SocketSettings::default());
        assert_eq!((plain.0.received_dscp(), plain.1.received_dscp()), (None, None));
        // A class that is asked for after the connection was accepted.
        let listener = Listener::bind("[::]:0".parse().unwrap(), false, &SocketSettings::default()).unwrap();
        let to = SocketAddr::new("127.0.0.1".parse().unwrap(), listener.local().unwrap().port());
        let _local = connect(&target(to), &settings);
        let (remote, _) = accept(&listener);
        remote.apply(&settings).unwrap();
        assert_eq!(remote.received_dscp(), Some(46));
    }

    #[test]
    fn the_kernel_tells_about_the_connection() {
        let (local, remote) = pair("127.0.0.1:0", &SocketSettings::default());
        for _ in 0..20 {
            assert_eq!(offer(&local, 1, 0, 1000).bytes, 1000);
            receive(&remote, Read::skip(1000)).unwrap();
            offer(&remote, 1, 0, 1);
            receive(&local, Read::look(1)).unwrap();
        }
        let info = local.info().unwrap();
        assert!(info.rtt_us > 0 && info.cwnd > 0 && info.snd_mss > 500, "{info:?}");
        assert!(info.bytes_sent.is_none_or(|n| n >= 20_000), "{info:?}");
        assert!(info.min_rtt_us.is_none_or(|us| us <= 10_000_000), "{info:?}");
    }

    #[test]
    fn half_open_counts_as_under_way() {
        // A full backlog leaves further connections unanswered.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = socket2::SockRef::from(&listener);
        socket.listen(0).unwrap();
        let to = target(listener.local_addr().unwrap());
        let streams: Vec<_> =
            (0..4).map(|_| Stream::connect(&to, &SocketSettings::default()).unwrap().0).collect();
        assert!(streams.iter().any(|stream| stream.connected() == Ok(None)));
    }

    #[test]
    fn plain_sockets_are_understood() {
        // The other end is not ours: what arrives is what was sent.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (local, _) = connect(&target(listener.local_addr().unwrap()), &SocketSettings::default());
        let (mut remote, _) = listener.accept().unwrap();
        assert_eq!(offer(&local, 3, 0, 100).bytes, 300);
        let mut bytes = [0; 300];
        remote.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, PATTERN[..300]);
        remote.write_all(b"back").unwrap();
        drop(remote);
        assert_eq!(receive(&local, Read::look(4)).unwrap().unwrap().1, b"back");
        assert_eq!(receive(&local, Read::look(4)).unwrap(), None);
    }
}
