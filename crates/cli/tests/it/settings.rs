//! Where connections come from and go to, how fast they may be, and which settings really applied.

use crate::support::{Outcome, Server, net, netcaliper, number, serve, sized, skip, tcp, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;

const SMALL: &str = "-P 4 --iterations 2 --transfer 100001";

/// A small run at this server, with these options, that must be perfect.
#[track_caller]
fn small(server: &Server, words: &str) -> Outcome {
    tcp(server.at()).args(SMALL).args(words).outcome().moved(8, 800_008, 0)
}

fn addresses(outcome: &Outcome, end: &str) -> Vec<SocketAddr> {
    outcome.connections().iter().map(|c| text(&c[end]).parse().unwrap()).collect()
}

fn goodput(outcome: &Outcome, way: &str) -> f64 {
    outcome.point()[way]["goodput_bps"].as_f64().unwrap()
}

// ---- where
// ----------------------------------------------------------------------------------------------------------

#[test]
fn ipv4_and_names_reach_a_server_on_all_addresses() {
    let server = serve("");
    for target in [server.at(), server.on("127.0.0.77"), server.on("localhost")] {
        let outcome = tcp(&target).args(SMALL).arg("-4").outcome().moved(8, 800_008, 0);
        assert!(addresses(&outcome, "remote").iter().all(|a| a.is_ipv4() && a.port() == server.port));
        assert_eq!(outcome.json["begin"]["targets"], serde_json::json!([target]));
    }
    // The port may stand apart.
    tcp("127.0.0.1").args(SMALL).args(&format!("-p {}", server.port)).outcome().moved(8, 800_008, 0);
}

#[test]
fn ipv6_is_spoken() {
    if !net::has_ipv6() {
        return skip("settings::ipv6_is_spoken", "this machine has no IPv6 loopback address");
    }
    let server = serve("");
    let outcome =
        tcp(server.on("[::1]")).args(SMALL).args("--bidir").outcome().moved(8, 8 * 50_001, 8 * 50_001);
    assert!(addresses(&outcome, "remote").iter().all(SocketAddr::is_ipv6));
    tcp("::1").args(SMALL).args(&format!("-p {}", server.port)).outcome().moved(8, 800_008, 0);
    // A flow label may be chosen.
    tcp(server.on("[::1]")).args(SMALL).args("--flow-label 0xabcde").outcome().moved(8, 800_008, 0);
}

#[test]
fn two_targets_share_the_connections() {
    let (one, other) = (serve(""), serve(""));
    for (flags, up, down) in [("", 800_008, 0), ("-R", 0, 800_008)] {
        let outcome = tcp(one.at()).arg(other.at()).args(SMALL).args(flags).outcome().moved(8, up, down);
        assert_eq!(outcome.remote().len(), 2);
        for totals in outcome.remote() {
            assert_eq!(totals["completed"], 4, "half each: {}", outcome.tell());
        }
        assert_eq!(outcome.point()["sessions"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_server_listens_where_it_is_told() {
    let line = netcaliper("serve").args("--port 0 --listen 127.0.0.1 --listen 127.0.0.3:0");
    let server = Server::start(line);
    server.proc.hears("listening on 127.0.0.3:");
    let said = server.proc.out();
    let ports: Vec<&str> =
        said.lines().filter_map(|l| l.strip_prefix("listening on ")?.split(' ').next()).collect();
    assert_eq!(ports.len(), 2, "{said}");
    for address in ports {
        tcp(address).args(SMALL).outcome().moved(8, 800_008, 0);
    }
    tcp(server.on("127.0.0.2")).args(SMALL).run().exits(1);
}

// ---- from where
// -----------------------------------------------------------------------------------------------------

#[test]
fn source_addresses_are_used_in_turn_and_local_ports_come_from_the_range() {
    let server = serve("");
    let outcome = small(&server, "-B 127.0.0.5 -B 127.0.0.6");
    let sources: BTreeSet<String> = addresses(&outcome, "local").iter().map(|a| a.ip().to_string()).collect();
    assert_eq!(sources.into_iter().collect::<Vec<_>>(), ["127.0.0.5", "127.0.0.6"]);
    let low = net::free_row(10, 0);
    let range = low..=low + 9;
    let args =
        format!("-P 5 --iterations 2 --transfer 100001 --shutdown rude --local-port {low}-{}", low + 9);
    let outcome = tcp(server.at()).args(&args).outcome().moved(10, 1_000_010, 0);
    let ports: BTreeSet<u16> = addresses(&outcome, "local").iter().map(SocketAddr::port).collect();
    assert!(ports.iter().all(|port| range.contains(port)), "{ports:?}");
    assert!(ports.len() >= 5, "{ports:?}");
}

#[test]
fn a_device_may_be_named() {
    if !net::is_root() {
        return skip("settings::a_device_may_be_named", "SO_BINDTODEVICE needs root here");
    }
    let server = serve("--bind-dev lo");
    small(&server, "--bind-dev lo");
}

#[test]
fn cores_and_workers_are_as_asked() {
    let core = net::a_core();
    let server = serve(&format!("--affinity {core} --workers 1"));
    let outcome = small(&server, &format!("--affinity {core} --workers 3"));
    assert_eq!(outcome.json["begin"]["placement"], format!("cores {core}"));
    assert_eq!(outcome.json["begin"]["workers"], 3);
    let session = &outcome.point()["sessions"][0];
    assert_eq!((&session["placement"], &session["workers"]), (&format!("cores {core}").into(), &1.into()));
    // More workers than connections, and one worker for many.
    tcp(server.at()).args("-P 1 --iterations 3 --transfer 100001 --workers 4").outcome().moved(3, 300_003, 0);
    tcp(server.at()).args("-P 9 --iterations 1 --transfer 100001 --workers 1").outcome().moved(9, 900_009, 0);
}

/// The goodput of `ways` is within 3 % of `rate`; on a machine that is too busy for that it may be
/// less, but then the outcome says so.
#[track_caller]
fn keeps(outcome: &Outcome, ways: &[&str], rate: f64) {
    for way in ways {
        let found = goodput(outcome, way);
        assert!(found < rate * 1.03, "{way}: {found} instead of {rate}: {}", outcome.tell());
        assert!(
            found > rate * 0.97 || outcome.admits_lateness(),
            "{way}: {found} instead of {rate}: {}",
            outcome.tell()
        );
    }
}

// ---- how fast, how long
// ---------------------------------------------------------------------------------------------

#[test]
fn a_rate_is_kept_in_both_directions() {
    let server = serve("");
    let (time, rate, buffer) = sized(("1500ms", 2, "-l 16Ki"), ("3s", 8, ""));
    for (flags, ways) in [("", &["up"][..]), ("-R", &["down"]), ("--bidir", &["up", "down"])] {
        let outcome =
            tcp(server.at()).args(&format!("-P 3 -t {time} -b {rate}M {buffer} {flags}")).outcome().good();
        keeps(&outcome, ways, 3e6 * f64::from(rate));
        let late = if flags == "-R" { &outcome.remote()[0]["late_ns"] } else { &outcome.local()["late_ns"] };
        assert!(number(&late["count"]) > 0, "how late paced sends were is known: {late}");
    }
    // A rate does not change what is moved.
    let line = tcp(server.at()).args("-P 2 --iterations 2 --transfer 300007 -b 20M --bidir");
    line.outcome().moved(4, 600_016, 600_016);
}

#[test]
fn a_rate_holds_over_many_small_writes_and_over_few_large_ones() {
    let server = serve("");
    let usual = [("200", 1e6, 1), ("[64,4096]", 2e6, 1), ("1Mi", 10e6, 3)];
    for (buffer, rate, time) in sized(usual, ["200", "[64,4096]", "1Mi"].map(|buffer| (buffer, 10e6, 3))) {
        let words = format!("-P 1 -t {time}s -b {rate} -l {buffer}");
        let outcome = tcp(server.at()).args(&words).outcome().good();
        keeps(&outcome, &["up"], rate);
    }
}

#[test]
fn bursts_pause() {
    let server = serve("");
    let line = tcp(server.at()).args("-P 1 -t 2s -l 1000 --burst 4 --burst-delay 100ms");
    let outcome = line.outcome().good();
    let bytes = number(&outcome.point()["up"]["received_bytes"]);
    // Twenty pauses make at most twenty-one bursts; a busy machine makes fewer.
    assert!((12_000..=84_000).contains(&bytes), "{bytes}");
    let line =
        tcp(server.at()).args("-P 2 --iterations 1 --transfer 50001 -l 5000 --burst 3 --burst-delay 10ms");
    line.outcome().moved(2, 100_002, 0);
}

fn intervals(outcome: &Outcome) -> &[Value] {
    outcome.point()["intervals"].as_array().unwrap()
}

#[test]
fn intervals_are_as_long_as_asked() {
    let server = serve("");
    let outcome = tcp(server.at()).args("-P 2 -t 2s -i 250ms -b 2M").outcome().good();
    let all = intervals(&outcome);
    // Intervals that a busy machine could not end in time are merged.
    assert!((4..=9).contains(&all.len()), "{}", all.len());
    let mut before = 0;
    for (index, interval) in all.iter().enumerate() {
        let (start, end) = (number(&interval["start_ns"]), number(&interval["end_ns"]));
        assert!(start == before && start < end, "interval {index} from {start} to {end} follows {before}");
        assert_eq!(interval["local"]["ns"], end - start);
        before = end;
    }
    assert!((1_900_000_000..4_000_000_000).contains(&before), "{before}");
    // The first interval's rate is right: it holds no more and no less than its share.
    let first = number(&all[0]["local"]["tx_bytes"]) as f64 * 8e9 / number(&all[0]["local"]["ns"]) as f64;
    assert!(first < 5e6 && (first > 3e6 || outcome.admits_lateness()), "{first}: {}", outcome.tell());
}

#[test]
fn the_omitted_start_does_not_count() {
    let server = serve("");
    let outcome = tcp(server.at()).args("-P 2 -t 3s -O 1s -i 500ms -b 2M").outcome().good();
    let all = intervals(&outcome);
    let omitted: Vec<bool> = all.iter().map(|i| i["omitted"].as_bool().unwrap()).collect();
    assert!(omitted[0] && omitted.is_sorted_by_key(|omitted| !omitted), "{omitted:?}");
    let sum = |of: fn(&Value) -> &Value, omitted: bool| -> u64 {
        all.iter().filter(|i| i["omitted"] == omitted).map(|i| number(of(i))).sum()
    };
    let counted = (sum(|i| &i["local"]["tx_bytes"], false), sum(|i| &i["local"]["ns"], false));
    let total = (&outcome.local()["traffic"]["tx_bytes"], &outcome.local()["traffic"]["ns"]);
    let (bytes, ns) = (number(total.0), number(total.1));
    assert!(
        bytes.abs_diff(counted.0) <= bytes / 20 && ns.abs_diff(counted.1) <= ns / 20,
        "{total:?} and {counted:?}"
    );
    assert!(
        ns < 2_600_000_000 && sum(|i| &i["local"]["ns"], true) > 900_000_000,
        "a third is left out: {ns}"
    );
    // What a busy host sends too late for the omitted second, it sends in the next ones, and no
    // more than that.
    let (early, rate) = (sum(|i| &i["local"]["tx_bytes"], true), 4e6);
    assert!(bytes + early <= 3 * 500_000 * 101 / 100, "{bytes} after {early}: {}", outcome.tell());
    let behind = 500_000_u64.saturating_sub(early) as f64 * 8e9 / ns as f64;
    let found = goodput(&outcome, "up");
    assert!(found < (rate + behind) * 1.03, "{found} instead of {rate}: {}", outcome.tell());
    assert!(found > rate * 0.97 || outcome.admits_lateness(), "{found}: {}", outcome.tell());
}

#[test]
fn a_run_by_time_stops_its_connections_in_good_order() {
    let server = serve("");
    // With full buffers, and with the rest of them.
    let limited =
        ["-R", "--bidir", "--pattern pushpull", "-R --verify none"].map(|flags| format!("{flags} -b 5M"));
    for flags in limited.iter().map(String::as_str).chain(["", "--bidir --shutdown rude"]) {
        let outcome = tcp(server.at()).args(&format!("-P 4 -t 60ms -i 20ms {flags}")).outcome().good();
        let (local, told) = (outcome.local(), outcome.tell());
        let ended = number(&local["completed"]) + number(&local["stopped"]);
        assert_eq!(local["opened"], ended, "{flags}: {told}");
        assert!(number(&local["stopped"]) > 0, "{flags}: {told}");
        assert_eq!(
            outcome.remote_sum("/opened"),
            outcome.remote_sum("/completed") + outcome.remote_sum("/stopped"),
            "{told}"
        );
    }
}

// ---- sockets
// --------------------------------------------------------------------------------------------------------

/// What both ends say about their sockets.
fn effective(outcome: &Outcome) -> [&Value; 2] {
    [&outcome.local()["effective"], &outcome.remote()[0]["effective"]]
}

#[test]
fn congestion_controls_are_used() {
    let (server, known) = (serve(""), net::congestion_controls());
    for name in ["reno", "cubic", "bbr"] {
        if !known.iter().any(|n| n == name) {
            skip("settings::congestion_controls_are_used", &format!("this kernel does not have {name}"));
            continue;
        }
        let outcome = small(&server, &format!("-C {name}"));
        for end in effective(&outcome) {
            assert_eq!(end["congestion"], name);
        }
        assert!(outcome.caveat("socket-option-differs").is_none(), "{name}");
        assert_eq!(outcome.caveat("congestion-control").is_some(), name != "cubic", "{name}");
    }
}

#[test]
fn socket_options_apply_to_both_ends_and_are_told() {
    let server = serve("");
    // Of buffers the kernel counts twice what it is asked for.
    for (args, settings) in [
        (
            "--ttl 9 --dscp ef --sndbuf 100000 --rcvbuf 100000",
            &[("ttl", 9), ("tos", 46 << 2), ("sndbuf", 200_000), ("rcvbuf", 200_000)][..],
        ),
        ("--dscp 10 -w 64Ki", &[("tos", 10 << 2), ("sndbuf", 131_072), ("rcvbuf", 131_072)]),
    ] {
        let outcome = small(&server, args);
        for end in effective(&outcome) {
            for (name, value) in settings {
                assert_eq!(end[name], *value, "{args}: {name}: {end}");
            }
        }
        assert!(outcome.caveat("socket-option-differs").is_none(), "{args}");
        assert!(outcome.caveat("socket-buffer-shortfall").is_none(), "{args}");
    }
    let outcome = small(&server, "--nodelay off --keepalive 30s");
    assert!(effective(&outcome).iter().all(|end| end["nodelay"] == false));
    let outcome = small(&server, "");
    assert!(effective(&outcome).iter().all(|end| end["nodelay"] == true));
    // A buffer that the kernel does not grant is a caveat.
    let outcome = tcp(server.at()).args(SMALL).args("--sndbuf 1G").outcome().good();
    assert!(outcome.caveats("socket-buffer-shortfall").contains("SO_SNDBUF"));
    assert!(number(&outcome.local()["effective"]["sndbuf"]) < 1 << 30);
    // A segment size is kept.
    for args in ["-M 1000", "-M 1000 -R"] {
        let outcome = tcp(server.at()).args(SMALL).args(args).outcome().good();
        for end in effective(&outcome) {
            let mss = number(&end["mss"]);
            assert!((900..=1000).contains(&mss), "{args}: {end}");
        }
        let largest = outcome.connections().iter().map(|c| number(&c["tcp"]["snd_mss"])).max();
        assert!(largest.is_some_and(|mss| mss <= 1000), "{args}: {largest:?}");
    }
}

#[test]
fn connections_are_throttled_and_counted() {
    let server = serve("");
    let outcome = tcp(server.at()).args("-P 50 --iterations 2 --transfer 10007 --throttle 1").outcome();
    let outcome = outcome.moved(100, 1_000_700, 0);
    let connect = &outcome.local()["connect_ns"];
    assert_eq!(connect["count"], 100);
    let (min, p50, max) = (number(&connect["min"]), number(&connect["p50"]), number(&connect["max"]));
    assert!(0 < min && min <= p50 && p50 <= max, "{connect}");
    let fairness = outcome.point()["fairness"].as_f64().unwrap();
    assert!(fairness > 0.0 && fairness <= 1.0, "{fairness}");
}

#[test]
fn many_connections_at_once() {
    let connections: u64 = sized(200, 3000);
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let hard = limits
        .lines()
        .find_map(|l| l.strip_prefix("Max open files")?.split_whitespace().nth(1)?.parse().ok());
    if hard.is_some_and(|hard: u64| hard < connections + 1000) {
        return skip("settings::many_connections_at_once", "too few open files (ulimit -Hn)");
    }
    let server = serve("");
    let peak = |rate: &str| {
        let words = format!("-P {connections} --iterations 1 --transfer 5003 -b {rate} -l 1000");
        let outcome = tcp(server.at()).args(&words).outcome().moved(connections, connections * 5_003, 0);
        number(&outcome.local()["peak"])
    };
    // At 20 kbit/s the first ends after two seconds: on a slow machine perhaps before the last has
    // come.
    let peaks: Vec<u64> =
        ["20k", "2500"].into_iter().map(peak).take_while(|peak| *peak < connections).collect();
    assert!(peaks.len() < 2, "{peaks:?}");
}

#[test]
fn a_seed_repeats_what_is_drawn_from_ranges() {
    let server = serve("");
    let drawn = |seed: &str| {
        let words = "-P 3 --iterations 4 --bidir --transfer 1000..200000 -b 20M..80M -l 100..9000";
        let outcome = tcp(server.at()).args(words).args(seed).outcome().good();
        let bytes =
            |one: &Value| (text(&one["id"]).to_owned(), number(&one["tx_bytes"]), number(&one["rx_bytes"]));
        let of: BTreeSet<_> = outcome.connections().iter().map(bytes).collect();
        let totals = [outcome.local(), &outcome.remote()[0]].map(|end| number(&end["completed"]));
        assert_eq!((of.len(), totals), (12, [12; 2]), "{}", outcome.tell());
        (number(&outcome.point()["phase"]["draw_seed"]), of)
    };
    let (seed, first) = drawn("");
    assert_eq!(drawn(&format!("--seed {seed}")), (seed, first.clone()));
    assert_ne!(drawn("--seed 7").1, first);
    let done = tcp(server.at()).args("--seed 7").run().exits(2);
    done.says_one_sentence().complains(&["there are none: give --buffer, --transfer or -b as low..high"]);
    let done = tcp(server.at()).args("--transfer 1..9 -n 100").run().exits(2);
    done.says_one_sentence().complains(&["among transfers that are drawn"]);
}
