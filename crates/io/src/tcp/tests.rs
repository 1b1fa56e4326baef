use super::*;
use crate::Clock;
use crate::sys::CONNECTION_REFUSED;
use crate::testing::{accept, connect, has_ipv6, here, pair, readable, receive, writable};
use std::net::SocketAddr;
use std::time::Duration;
use transport::{
    Arena, Burst, Deed, Fault, ListenerSocket as _, Net as _, Read, StreamSettings, StreamSocket as _,
    Target, Wrote,
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
fn offer(stream: &Stream, pieces: usize, at: usize, len: usize) -> Wrote {
    let mut arena = Arena::new(16);
    let mut burst = Burst::new(&mut arena, usize::MAX);
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
fn bytes_arrive_in_order_through_partial_sends_and_full_sockets() {
    const TOTAL: usize = 8 << 20;
    let settings =
        StreamSettings { sndbuf: Some(16 << 10), rcvbuf: Some(16 << 10), ..StreamSettings::default() };
    let (near, far) = pair("127.0.0.1:0", &settings);
    let sender = std::thread::spawn(move || {
        let (mut sent, mut partial, mut full) = (0, 0, 0);
        while sent < TOTAL {
            // 200 pieces need four system calls; the last offers are cut to what is left.
            let pieces = 200.min((TOTAL - sent).div_ceil(1000));
            let wrote = offer(&near, pieces, sent, 1000);
            assert_eq!(wrote.fault, None);
            sent += wrote.bytes;
            if wrote.bytes == 0 {
                full += 1;
                writable(&near);
            } else if wrote.bytes < pieces * 1000 {
                partial += 1;
            }
        }
        assert!(partial > 0 && full > 0, "{partial} partial, {full} full");
        near.half_close();
        (near, sent)
    });
    let mut got = 0;
    while let Some((len, bytes)) = receive(&far, Read::look(u64::MAX)).unwrap() {
        assert_eq!(len, bytes.len());
        for (i, byte) in bytes.iter().enumerate() {
            assert_eq!(usize::from(*byte), (got + i) % 251, "at {}", got + i);
        }
        got += len;
    }
    let (near, sent) = sender.join().unwrap();
    assert_eq!(got, sent);
    // Half closed: the other direction still works.
    assert_eq!(offer(&far, 1, 0, 3).bytes, 3);
    assert_eq!(receive(&near, Read::look(100)).unwrap(), Some((3, vec![0, 1, 2])));
}

#[test]
fn more_pieces_than_one_call_takes_are_all_sent() {
    let (near, far) = pair("127.0.0.1:0", &StreamSettings::default());
    assert_eq!(offer(&near, 150, 0, 10), Wrote { bytes: 1500, fault: None });
    let mut got = 0;
    while got < 1500 {
        got += receive(&far, Read::look(u64::MAX)).unwrap().unwrap().0;
    }
    assert_eq!(offer(&near, 0, 0, 0), Wrote::default());
}

#[test]
fn a_look_never_goes_beyond_its_budget_or_the_buffer() {
    let (near, far) = pair("127.0.0.1:0", &StreamSettings::default());
    offer(&near, 1, 0, 200);
    let mut seen = 0;
    for budget in [37, 1, 162] {
        while seen < 200 {
            let (len, bytes) = receive(&far, Read::look(budget)).unwrap().unwrap();
            assert!(len as u64 <= budget);
            assert_eq!(bytes, &PATTERN[seen..seen + len]);
            seen += len;
            if len as u64 == budget {
                break;
            }
        }
    }
    assert_eq!(seen, 200);
    offer(&near, 1, 0, 50);
    readable(&far);
    let (clock, mut small) = (Clock::new(), [0; 20]);
    let mut net = far.net(&mut small, &clock, false);
    assert!(
        matches!(net.recv(Read::look(1000)), transport::Got::Batch(batch) if batch.bytes == &PATTERN[..20])
    );
    assert!(matches!(net.recv(Read::Pause), transport::Got::Nothing));
    let mut net = far.net(&mut [], &clock, false);
    assert!(matches!(net.recv(Read::look(1000)), transport::Got::Nothing));
}

#[test]
fn skipped_bytes_are_really_gone_and_no_more_than_asked_for() {
    let (near, far) = pair("127.0.0.1:0", &StreamSettings::default());
    assert_eq!(offer(&near, 4, 0, 1000).bytes, 4000);
    let mut skipped = 0;
    while skipped < 2500 {
        let (len, bytes) = receive(&far, Read::skip(2500 - skipped)).unwrap().unwrap();
        assert!(bytes.is_empty() && len > 0);
        skipped += len as u64;
    }
    assert_eq!(skipped, 2500);
    let mut rest = Vec::new();
    while rest.len() < 1500 {
        rest.extend(receive(&far, Read::look(u64::MAX)).unwrap().unwrap().1);
    }
    let expected: Vec<u8> = (2500..4000).map(|i| (i % 251) as u8).collect();
    assert!(rest == expected, "the bytes after the skipped ones differ");
    drop(near);
    assert_eq!(receive(&far, Read::skip(10)).unwrap(), None);
}

#[test]
fn an_empty_socket_is_nothing_and_a_closed_one_is_the_end() {
    let (near, far) = pair("127.0.0.1:0", &StreamSettings::default());
    let (clock, mut buffer) = (Clock::new(), [0; 64]);
    for how in [Read::look(10), Read::skip(10)] {
        assert!(matches!(far.net(&mut buffer, &clock, false).recv(how), transport::Got::Nothing));
    }
    drop(near);
    assert_eq!(receive(&far, Read::look(10)).unwrap(), None);
    assert_eq!(receive(&far, Read::look(10)).unwrap(), None);
}

#[test]
fn an_abort_is_a_fault_to_the_peer_whatever_it_does() {
    let (near, far) = pair("127.0.0.1:0", &StreamSettings::default());
    near.abort();
    let fault = receive(&far, Read::look(10)).unwrap_err();
    assert_eq!(fault.deed, Deed::Receive);
    assert_eq!(std::io::Error::from_raw_os_error(fault.errno).kind(), std::io::ErrorKind::ConnectionReset);
    assert!(far.path().is_err());

    let (near, far) = pair("127.0.0.1:0", &StreamSettings::default());
    near.abort();
    readable(&far);
    let fault = offer(&far, 1, 0, 10).fault.unwrap();
    assert_eq!(fault.deed, Deed::Send);
    let (near, far) = pair("127.0.0.1:0", &StreamSettings::default());
    near.abort();
    assert!(receive(&far, Read::skip(10)).is_err());
}

#[test]
fn a_refused_connection_says_so() {
    let nobody = Listener::bind(here(), false, &StreamSettings::default()).unwrap().local().unwrap();
    let refused = Fault { deed: Deed::Connect, errno: CONNECTION_REFUSED };
    match Stream::connect(&target(nobody), &StreamSettings::default()) {
        Err(fault) => assert_eq!(fault, refused),
        Ok((stream, _)) => {
            writable(&stream);
            assert_eq!(stream.connected(), Err(refused));
            // The error was told; a failed connection still does not look like one under way.
            #[cfg(target_os = "linux")]
            assert_eq!(stream.connected().unwrap_err().deed, Deed::Connect);
        }
    }
}

#[test]
fn the_near_end_can_be_chosen() {
    let listener = Listener::bind(here(), false, &StreamSettings::default()).unwrap();
    let to = listener.local().unwrap();
    for ip in ["127.0.0.1", "127.0.0.2"] {
        if cfg!(not(target_os = "linux")) && ip != "127.0.0.1" {
            continue;
        }
        let from = Some(SocketAddr::new(ip.parse().unwrap(), 0));
        let (_near, path) = connect(&Target { to, from }, &StreamSettings::default());
        assert_eq!((path.local.ip().to_string(), path.peer), (ip.to_owned(), to));
        let (_far, seen) = accept(&listener);
        assert_eq!((seen.peer, seen.local), (path.local, path.peer));
    }
    // Another test may be given the port that was just let go.
    let chosen = (0..20).find_map(|_| {
        let port = Listener::bind(here(), false, &StreamSettings::default()).unwrap().local().unwrap().port();
        let from = Some(SocketAddr::new("127.0.0.1".parse().unwrap(), port));
        Some((port, Stream::connect(&Target { to, from }, &StreamSettings::default()).ok()?.0))
    });
    let (port, near) = chosen.expect("a port that is free");
    while near.connected().unwrap().is_none() {
        writable(&near);
    }
    assert_eq!(near.path().unwrap().local.port(), port);
    let stranger = Some("192.0.2.99:0".parse().unwrap());
    let fault = Stream::connect(&Target { to, from: stranger }, &StreamSettings::default()).unwrap_err();
    assert_eq!(fault.deed, Deed::Bind);
}

#[test]
fn a_taken_port_is_a_bind_fault() {
    let one = Listener::bind(here(), false, &StreamSettings::default()).unwrap();
    let fault = Listener::bind(one.local().unwrap(), false, &StreamSettings::default()).unwrap_err();
    assert!(matches!(fault.deed, Deed::Bind | Deed::Listen));
}

#[test]
fn sharing_listeners_split_the_connections() {
    if !Listener::CAN_SHARE {
        assert!(Listener::bind(here(), true, &StreamSettings::default()).is_err());
        return;
    }
    let one = Listener::bind(here(), true, &StreamSettings::default()).unwrap();
    let two = Listener::bind(one.local().unwrap(), true, &StreamSettings::default()).unwrap();
    let to = target(one.local().unwrap());
    let streams: Vec<_> = (0..64).map(|_| connect(&to, &StreamSettings::default())).collect();
    let count = |listener: &Listener| {
        let mut n = 0;
        while listener.accept().unwrap().is_some() {
            n += 1;
        }
        n
    };
    let (mut a, mut b) = (0, 0);
    // A busy kernel may hand a connection to its listener a moment after it told the other end.
    for _ in 0..1_000 {
        (a, b) = (a + count(&one), b + count(&two));
        if a + b == streams.len() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(a + b, streams.len());
    assert!(a > 0 && b > 0, "{a} and {b}");
}

#[test]
fn the_unspecified_address_takes_both_families() {
    let listener = Listener::bind("[::]:0".parse().unwrap(), false, &StreamSettings::default()).unwrap();
    let port = listener.local().unwrap().port();
    let mut hosts = vec!["127.0.0.1"];
    if has_ipv6() {
        hosts.push("::1");
    }
    for ip in hosts {
        let (near, path) =
            connect(&target(SocketAddr::new(ip.parse().unwrap(), port)), &StreamSettings::default());
        let (far, seen) = accept(&listener);
        assert_eq!((seen.peer, seen.local), (path.local, path.peer));
        assert_eq!((near.path().unwrap(), far.path().unwrap()), (path, seen));
    }
}

#[test]
fn settings_are_made_and_told() {
    let settings = StreamSettings {
        sndbuf: Some(100_000),
        rcvbuf: Some(50_000),
        nodelay: false,
        dscp: (!cfg!(windows)).then_some(46),
        ttl: Some(33),
        keepalive: Some(Duration::from_millis(10)),
        ..StreamSettings::default()
    };
    let (near, far) = pair("127.0.0.1:0", &settings);
    for stream in [&near, &far] {
        let effective = stream.effective();
        assert!(effective.sndbuf >= Some(100_000) && effective.sndbuf <= Some(200_000), "{effective:?}");
        assert!(effective.rcvbuf >= Some(50_000) && effective.rcvbuf <= Some(100_000), "{effective:?}");
        assert_eq!((effective.nodelay, effective.ttl), (Some(false), Some(33)));
        #[cfg(unix)]
        assert_eq!(effective.tos, Some(46 << 2));
    }
    far.apply(&StreamSettings { ttl: Some(44), ..StreamSettings::default() }).unwrap();
    assert_eq!((far.effective().ttl, far.effective().nodelay), (Some(44), Some(true)));
    assert_eq!(pair("127.0.0.1:0", &StreamSettings::default()).0.effective().nodelay, Some(true));
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn linux_settings_are_made_and_told() {
        let settings = StreamSettings {
            mss: Some(1000),
            congestion: Some("reno".into()),
            device: Some("lo".into()),
            user_timeout: Some(Duration::from_millis(1500)),
            ..StreamSettings::default()
        };
        let (near, far) = pair("127.0.0.1:0", &settings);
        for stream in [&near, &far] {
            let effective = stream.effective();
            assert_eq!(effective.congestion.as_deref(), Some("reno"));
            assert!(effective.mss.is_some_and(|mss| mss <= 1000 && mss > 500), "{effective:?}");
        }
    }

    #[test]
    fn a_refused_option_is_named_and_does_not_stop_the_others() {
        let wrong = StreamSettings {
            congestion: Some("no-such-thing".into()),
            ttl: Some(9),
            ..StreamSettings::default()
        };
        let refusal = check(&wrong, here()).unwrap_err();
        assert_eq!((refusal.option, refusal.errno), ("congestion", libc::ENOENT));
        assert_eq!(refusal.to_string(), "congestion: No such file or directory (os error 2)");
        let (near, _far) = pair("127.0.0.1:0", &StreamSettings::default());
        assert_eq!(near.apply(&wrong).unwrap_err(), Fault { deed: Deed::Open, errno: libc::ENOENT });
        assert_eq!(near.effective().ttl, Some(9));
        let listener = Listener::bind(here(), false, &StreamSettings::default()).unwrap();
        let to = target(listener.local().unwrap());
        assert_eq!(Stream::connect(&to, &wrong).unwrap_err().deed, Deed::Open);
        for (bad, option) in [
            (StreamSettings { dscp: Some(64), ..StreamSettings::default() }, "dscp"),
            (StreamSettings { ttl: Some(0), ..StreamSettings::default() }, "ttl"),
            (StreamSettings { device: Some("nosuch0".into()), ..StreamSettings::default() }, "device"),
            (StreamSettings { flow_label: Some(5), ..StreamSettings::default() }, "flow_label"),
        ] {
            assert_eq!(check(&bad, here()).unwrap_err().option, option);
        }
        assert_eq!(check(&StreamSettings::default(), here()), Ok(()));
    }

    #[test]
    fn ipv6_has_class_hops_and_label_too() {
        if !has_ipv6() {
            return;
        }
        use std::os::fd::AsFd as _;
        let settings = StreamSettings {
            dscp: Some(10),
            ttl: Some(7),
            flow_label: Some(0xabcde),
            ..StreamSettings::default()
        };
        // Twice at once: the label is shared.
        let (near, far) = pair("[::1]:0", &settings);
        let (other, _far) = pair("[::1]:0", &settings);
        for stream in [&near, &far, &other] {
            let effective = stream.effective();
            assert_eq!((effective.tos, effective.ttl), (Some(10 << 2), Some(7)));
        }
        let mut request = [0; 32];
        let n = crate::sys::linux::get_option(
            near.as_fd(),
            libc::SOL_IPV6,
            libc::IPV6_FLOWLABEL_MGR,
            &mut request,
        );
        assert_eq!((n.unwrap(), &request[16..20]), (32, &[0x00, 0x0a, 0xbc, 0xde][..]));
        assert!(far.apply(&settings).is_err());
    }

    #[test]
    fn a_dual_stack_listener_hands_both_families_their_class() {
        if !has_ipv6() {
            return;
        }
        let settings = StreamSettings { dscp: Some(12), ttl: Some(77), ..StreamSettings::default() };
        let listener = Listener::bind("[::]:0".parse().unwrap(), false, &settings).unwrap();
        let port = listener.local().unwrap().port();
        for ip in ["127.0.0.1", "::1"] {
            let to = target(SocketAddr::new(ip.parse().unwrap(), port));
            let _near = connect(&to, &StreamSettings::default());
            let (far, _) = accept(&listener);
            assert_eq!((far.effective().tos, far.effective().ttl), (Some(12 << 2), Some(77)), "{ip}");
        }
    }

    #[test]
    fn the_kernel_tells_about_the_connection() {
        let (near, far) = pair("127.0.0.1:0", &StreamSettings::default());
        for _ in 0..20 {
            assert_eq!(offer(&near, 1, 0, 1000).bytes, 1000);
            receive(&far, Read::skip(1000)).unwrap();
            offer(&far, 1, 0, 1);
            receive(&near, Read::look(1)).unwrap();
        }
        let info = near.info().unwrap();
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
            (0..4).map(|_| Stream::connect(&to, &StreamSettings::default()).unwrap().0).collect();
        assert!(streams.iter().any(|stream| stream.connected() == Ok(None)));
    }

    #[test]
    fn plain_sockets_are_understood() {
        // The other end is not ours: what arrives is what was sent.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (near, _) = connect(&target(listener.local_addr().unwrap()), &StreamSettings::default());
        let (mut far, _) = listener.accept().unwrap();
        assert_eq!(offer(&near, 3, 0, 100).bytes, 300);
        let mut bytes = [0; 300];
        far.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, PATTERN[..300]);
        far.write_all(b"back").unwrap();
        drop(far);
        assert_eq!(receive(&near, Read::look(4)).unwrap().unwrap().1, b"back");
        assert_eq!(receive(&near, Read::look(4)).unwrap(), None);
    }
}
