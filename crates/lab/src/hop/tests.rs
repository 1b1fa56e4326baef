use super::*;
use transport::Rng;

fn hop(text: &str) -> Hop {
    Hop::parse_all(&["", text]).unwrap().pop().unwrap()
}

#[test]
fn hops_are_written_like_paths() {
    let one = hop("");
    assert_eq!((one.choice, &one.routers), (Choice::Flow, &vec![Router::new(2, 1)]));
    assert_eq!((one.routers[0].v4, one.routers[0].v6), ([10, 77, 2, 1].into(), "fd77::2:1".parse().unwrap()));
    let hop = hop(
        "way2.up.loss=1%, delay=2ms,ways=3:same,down.delay=5ms,way3.silent,address=192.0.2.7,way1.address=2001:db8::1,\
         icmp=2/s:4,quote=8,way2.nat=ports:full,way2.address=10.77.9.9,mpls=16:1048575,mtu=1400,way3.path-mtu=1300:silent",
    );
    assert_eq!((hop.choice, hop.routers.len()), (Choice::Same, 3));
    let [one, two, three] = &hop.routers[..] else { panic!("three ways") };
    assert_eq!((one.up.delay_ns, one.down.delay_ns, one.up.loss), (2_000_000, 5_000_000, 0.0));
    assert_eq!((two.up.loss, two.down.loss), (0.01, 0.0));
    assert_eq!(
        (one.v4, two.v4, three.v4),
        ([192, 0, 2, 7].into(), [10, 77, 9, 9].into(), [192, 0, 2, 7].into())
    );
    assert_eq!((one.v6, two.v6), ("2001:db8::1".parse().unwrap(), "fd77::2:2".parse().unwrap()));
    assert_eq!(one.icmp, Some(IcmpRate { per_second: 2.0, burst: 4 }));
    assert_eq!((one.quote, &one.labels), (Some(8), &vec![16, 0xf_ffff]));
    assert_eq!((two.nat, one.nat), (Some(Nat { ports: true, full: true }), None));
    assert_eq!(one.up.path_mtu, Some(PathMtu { bytes: 1400, silent: false }));
    assert_eq!(three.down.path_mtu, Some(PathMtu { bytes: 1300, silent: true }));
    assert_eq!(Hop::parse_all(&["nat,silent"]).unwrap()[0].routers[0].nat, Some(Nat::default()));
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let table = [
        ("loss=2", "hop 1: loss: '2' is not a probability"),
        ("lag=1ms", "hop 1: 'lag' is not a condition of a path"),
        ("loud", "hop 1: 'loud' is not a condition such as delay=5ms"),
        ("ways=17", "hop 1: ways: '17' is not a number from 1 to 16"),
        ("ways=2:random", "hop 1: ways: 'random' is neither 'packet' nor 'same'"),
        ("ways=2,way3.loss=1%", "hop 1: way3.loss: the hop has ways 1 to 2 (ways=K)"),
        ("address=router", "hop 1: address: 'router' is not an address such as 192.0.2.1"),
        ("address=224.0.0.1", "hop 1: address: 224.0.0.1 is no address of a router"),
        ("icmp=10", "hop 1: icmp: '10' is not a rate of messages such as 10/s or 10/s:5"),
        ("nat=all", "hop 1: nat: 'all' is neither 'ports' nor 'full'"),
        ("nat,address=192.0.2.1", "hop 1: nat: the server has no route to 192.0.2.1"),
        ("mpls=1048576", "hop 1: mpls: '1048576' is not a whole number up to 1048575"),
        ("up.delay=2h", "hop 1: delay: 7200 s is longer"),
    ];
    for (text, want) in table {
        let why = Hop::parse_all(&[text]).unwrap_err();
        assert!(why.starts_with(want), "{text}: {why}");
    }
    assert_eq!(Hop::parse_all(&[""; 17]).unwrap_err(), "17 hops are more than 16");
}

/// The slow way: a token each so many nanoseconds, counted one by one.
#[test]
fn tokens_are_those_of_a_slow_bucket() {
    for (per_second, burst) in [(1_000_u64, 1_u32), (1_000, 6), (100, 50), (250, 3)] {
        let rate = IcmpRate { per_second: per_second as f64, burst };
        let mut bucket = Bucket::default();
        let every = SECOND / per_second;
        let (mut tokens, mut filled, mut now) = (u64::from(burst), 0, 0);
        let mut rng = Rng::new(per_second + u64::from(burst));
        let mut sent = 0;
        for n in 0..20_000 {
            now += every / 4 * rng.between(0, if n % 100 == 0 { 400 } else { 6 });
            while filled + every <= now {
                filled += every;
                // A full bucket begins a new token when one is taken.
                if tokens < u64::from(burst) {
                    tokens += 1;
                }
            }
            if tokens == u64::from(burst) {
                filled = now;
            }
            let is_left = tokens > 0;
            tokens -= u64::from(is_left);
            sent += u64::from(is_left);
            assert_eq!(bucket.take(rate, Mono(now)), is_left, "{rate:?} at {now}, packet {n}");
        }
        assert!(sent > 100 && sent < 20_000);
    }
}
